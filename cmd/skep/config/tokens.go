package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/skepmq/skep/server/auth"
)

// tokenSettings is the part of the table that is about who may do what.
func tokenSettings() []setting {
	return []setting{
		{name: "SKEP_TLS_CERT", flag: "tls-cert", absent: "none", meaning: "a certificate with its chain, in PEM; with it [TLS](security.md#tls) is spoken, and nothing else. SIGHUP reads it again",
			kind: words("a file", func(c *Config, v string) error { c.TLSCert = v; return nil })},
		{name: "SKEP_TLS_KEY", flag: "tls-key", absent: "none", meaning: "key of the certificate, in PEM",
			kind: words("a file", func(c *Config, v string) error { c.TLSKey = v; return nil })},
		{name: "SKEP_ALLOWED_HOSTS", flag: "allowed-hosts", absent: "none", meaning: "host names that requests may name; see [Browsers](security.md#browsers). Those of the loopback, and the one that is listened on, are allowed in any case",
			kind: words("names, with commas", (*Config).setAllowedHosts)},
		{name: "JWT_ENABLED", value: "false", meaning: "whether requests need a [token](security.md#tokens). Without, the other variables of this kind say nothing",
			kind: boolean(func(c *Config, on bool) { c.AuthEnabled = on })},
		{name: "JWT_ALGORITHM", value: auth.DefaultAlgorithm, meaning: "which tokens are taken",
			kind: oneOf(auth.Algorithms(), func(c *Config, v string) { c.Auth.Algorithm = v })},
		{name: "JWT_SECRET", secret: true, verbatim: true, meaning: "key of HS tokens",
			kind: words("any text, taken byte for byte", func(c *Config, v string) error { c.Auth.Secret = []byte(v); return nil })},
		// Masked, since a private key may end up here by mistake.
		{name: "JWT_PUBLIC_KEY", secret: true, meaning: "key of RS and EdDSA tokens; it wins over a URL",
			kind: words("PEM", func(c *Config, v string) error { c.Auth.PublicKey = []byte(v); return nil })},
		// Masked, since a URL may hold a password.
		{name: "JWT_JWKS_URL", secret: true, meaning: "where public keys are fetched",
			kind: words("a URL, https if it is not on this machine", (*Config).setJWKSURL)},
		{name: "JWT_JWKS_REFRESH_INTERVAL", value: size(auth.DefaultJWKSRefresh / time.Second), meaning: "pause between two fetches",
			kind: seconds(1, 1<<31, func(o *auth.Options) *time.Duration { return &o.JWKSRefresh })},
		{name: "JWT_JWKS_TIMEOUT_MS", value: size(auth.DefaultJWKSTimeout / time.Millisecond), meaning: "how long a fetch may take",
			kind: milliseconds(1, 600_000, func(c *Config, d time.Duration) { c.Auth.JWKSTimeout = d })},
		{name: "JWT_ISSUER", absent: "none", meaning: "the `iss` that tokens must have",
			kind: claim("any text", func(o *auth.Options) *string { return &o.Issuer })},
		{name: "JWT_AUDIENCE", absent: "none", meaning: "the `aud` that tokens must have, or hold",
			kind: claim("any text", func(o *auth.Options) *string { return &o.Audience })},
		{name: "JWT_CLOCK_SKEW", value: size(auth.DefaultSkew / time.Second), meaning: "how far clocks may be apart",
			kind: seconds(0, 86_400, func(o *auth.Options) *time.Duration { return &o.Skew })},
		{name: "JWT_SKIP_PATHS", value: strings.Join(auth.DefaultSkipPaths, ","), keepEmpty: true, meaning: "paths that need no token; with a slash at its end, all below. An empty value is an empty list",
			kind: words("paths, with commas", (*Config).setSkipPaths)},
		{name: "JWT_ROLES_CLAIM", value: auth.DefaultRolesClaim, meaning: "claim with one role",
			kind: claim("a name", func(o *auth.Options) *string { return &o.RolesClaim })},
		{name: "JWT_ROLES_ARRAY_CLAIM", value: auth.DefaultRolesArray, meaning: "claim with a list of roles",
			kind: claim("a name", func(o *auth.Options) *string { return &o.RolesArrayClaim })},
		{name: "JWT_ROLE_ADMIN", value: "admin", meaning: "name of that [role](security.md#roles)",
			kind: claim("a name", func(o *auth.Options) *string { return &o.AdminRole })},
		{name: "JWT_ROLE_READ_WRITE", value: "read-write", meaning: "the same",
			kind: claim("a name", func(o *auth.Options) *string { return &o.ReadWriteRole })},
		{name: "JWT_ROLE_READ_ONLY", value: "read-only", meaning: "the same",
			kind: claim("a name", func(o *auth.Options) *string { return &o.ReadOnlyRole })},
		{name: "JWT_ROLE_WRITE_ONLY", value: "write-only", meaning: "the same",
			kind: claim("a name", func(o *auth.Options) *string { return &o.WriteOnlyRole })},
	}
}

// claim is a text of the options of tokens.
func claim(values string, field func(*auth.Options) *string) kind {
	return words(values, func(c *Config, v string) error { *field(&c.Auth) = v; return nil })
}

// seconds is one of the options of tokens.
func seconds(low, high int64, field func(*auth.Options) *time.Duration) kind {
	return number("seconds", low, high, func(c *Config, n int64) { *field(&c.Auth) = time.Duration(n) * time.Second })
}

func (c *Config) setJWKSURL(v string) error {
	if _, err := url.Parse(v); err != nil {
		return errors.New("not a URL") // what is wrong with it may hold a password
	}
	c.Auth.JWKSURL = v
	return nil
}

// setSkipPaths reads a list with commas; an empty one skips nothing.
func (c *Config) setSkipPaths(v string) error {
	c.Auth.SkipPaths = nil
	for path := range strings.SplitSeq(v, ",") {
		if path = strings.TrimSpace(path); path == "" {
			continue
		}
		if path[0] != '/' {
			return fmt.Errorf("%q is not a path", path)
		}
		c.Auth.SkipPaths = append(c.Auth.SkipPaths, path)
	}
	return nil
}

// setAllowedHosts reads a list of host names with commas.
func (c *Config) setAllowedHosts(v string) error {
	c.AllowedHosts = []string{}
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if strings.ContainsAny(name, "/*@ ") { // a URL, a pattern: it would allow nothing, or something else
			return fmt.Errorf("%q is not a host name", name)
		}
		c.AllowedHosts = append(c.AllowedHosts, name)
	}
	return nil
}
