package auth

import (
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/rs/zerolog"
)

// Roles is a set of roles.
type Roles uint8

// The roles that a token may give.
const (
	ReadOnly Roles = 1 << iota
	WriteOnly
	ReadWrite
	Admin
)

// Principal is who sent a request.
type Principal struct {
	Sub   []byte // nil: the token has none. Not to be changed
	Roles Roles
}

// Why a request is refused. The first ten say that the token does, the others that no
// token would do, because the configuration lacks a key.
var (
	ErrNoToken     = errors.New("auth: no token")
	ErrMalformed   = errors.New("auth: not a JWT")
	ErrAlgorithm   = errors.New("auth: algorithm not allowed")
	ErrSignature   = errors.New("auth: wrong signature")
	ErrExpired     = errors.New("auth: expired")
	ErrNotYetValid = errors.New("auth: not yet valid")
	ErrIssuedLater = errors.New("auth: issued in the future")
	ErrIssuer      = errors.New("auth: wrong issuer")
	ErrAudience    = errors.New("auth: wrong audience")
	ErrUnknownKey  = errors.New("auth: unknown key")
	ErrNoSecret    = errors.New("auth: no secret for HS tokens")
	ErrNotRSAKey   = errors.New("auth: the public key is not an RSA key")
	ErrNotEdKey    = errors.New("auth: the public key is not an Ed25519 key")
)

// Defaults of Options.
const (
	DefaultAlgorithm   = "HS256"
	DefaultSkew        = 30 * time.Second
	DefaultJWKSRefresh = time.Hour
	DefaultJWKSTimeout = 5 * time.Second
	DefaultRolesClaim  = "role"
	DefaultRolesArray  = "roles"
	DefaultCacheTokens = 4096
)

// DefaultSkipPaths are open to everyone.
var DefaultSkipPaths = []string{"/health", "/metrics/prometheus", "/metrics", "/"}

// minRSABits is what RFC 7518 asks of RS256 and its kin.
const minRSABits = 2048

// Options say which tokens are good. There is no usable zero value: a key is needed.
type Options struct {
	Logger zerolog.Logger
	Now    func() time.Time // time.Now

	Algorithm string // of the list algorithms
	Secret    []byte // of HS tokens
	PublicKey []byte // PEM; it wins over JWKSURL
	JWKSURL   string

	JWKSRefresh, JWKSTimeout time.Duration

	Issuer, Audience string // empty: any
	// Skew is how wrong clocks may be. It is taken as it is: 0 is none.
	Skew time.Duration

	// SkipPaths need no token. One that ends in '/' and is longer stands for all below.
	SkipPaths []string

	RolesClaim, RolesArrayClaim                           string
	AdminRole, ReadWriteRole, ReadOnlyRole, WriteOnlyRole string

	// CacheTokens is how many verified tokens are remembered, to twice that.
	CacheTokens int
}

// WithDefaults fills in what is empty, but for Skew and SkipPaths, of which nothing is a
// value too.
func (o Options) WithDefaults() Options {
	setDefault(&o.Algorithm, DefaultAlgorithm)
	setDefault(&o.JWKSRefresh, DefaultJWKSRefresh)
	setDefault(&o.JWKSTimeout, DefaultJWKSTimeout)
	setDefault(&o.RolesClaim, DefaultRolesClaim)
	setDefault(&o.RolesArrayClaim, DefaultRolesArray)
	setDefault(&o.AdminRole, "admin")
	setDefault(&o.ReadWriteRole, "read-write")
	setDefault(&o.ReadOnlyRole, "read-only")
	setDefault(&o.WriteOnlyRole, "write-only")
	setDefault(&o.CacheTokens, DefaultCacheTokens)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Algorithms returns the values of JWT_ALGORITHM.
func Algorithms() (names []string) {
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	return names
}

// algorithms are the values of JWT_ALGORITHM and the algorithms of tokens that each
// allows. None of them has "none", ES or PS.
var algorithms = []struct {
	name    string
	allowed []string
}{
	{"HS256", []string{"HS256"}},
	{"HS384", []string{"HS384"}},
	{"HS512", []string{"HS512"}},
	{"RS256", []string{"RS256", "RS384", "RS512"}},
	{"RS384", []string{"RS384"}},
	{"RS512", []string{"RS512"}},
	{"EdDSA", []string{"EdDSA"}},
	{"auto", []string{"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "EdDSA"}},
}

// Verifier verifies tokens. Create it with New. Safe for concurrent use.
type Verifier struct {
	opts    Options
	allowed []string
	parser  *jwt.Parser

	rsaKey *rsa.PublicKey    // of Options.PublicKey, nil: it is none
	edKey  ed25519.PublicKey // the same
	jwks   *jwks             // nil: no URL, or Options.PublicKey wins
	cache  *cache
}

// New checks the options; an error names the environment variable that is to blame. Run
// has to be running for keys from a URL to be fetched before they are needed.
func New(o Options) (*Verifier, error) {
	o = o.WithDefaults()
	v := &Verifier{opts: o, cache: newCache(o.CacheTokens), parser: jwt.NewParser(jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding())}
	for _, a := range algorithms {
		if a.name == o.Algorithm {
			v.allowed = a.allowed
		}
	}
	if v.allowed == nil {
		return nil, fmt.Errorf("JWT_ALGORITHM=%q: not one of %s", o.Algorithm, strings.Join(Algorithms(), ", "))
	}
	public := len(o.PublicKey) > 0 || o.JWKSURL != ""
	symmetric := strings.HasPrefix(o.Algorithm, "HS") || o.Algorithm == "auto"
	switch {
	case symmetric && !public && len(o.Secret) == 0:
		return nil, fmt.Errorf("JWT_ALGORITHM=%s: needs JWT_SECRET, JWT_PUBLIC_KEY or JWT_JWKS_URL", o.Algorithm)
	case !symmetric && !public:
		return nil, fmt.Errorf("JWT_ALGORITHM=%s: needs JWT_PUBLIC_KEY or JWT_JWKS_URL", o.Algorithm)
	}
	if err := v.takePublicKey(); err != nil {
		return nil, err
	}
	if o.JWKSURL != "" && len(o.PublicKey) == 0 {
		var err error
		if v.jwks, err = newJWKS(o, v.cache.clear); err != nil {
			return nil, err
		}
	}
	if n := len(o.Secret); n > 0 && n < minSecret && symmetric {
		o.Logger.Warn().Int("bytes", n).Int("want_bytes", minSecret).Msg("JWT_SECRET is short enough to be guessed")
	}
	return v, nil
}

// minSecret is what RFC 7518 asks of HS256.
const minSecret = 32

// takePublicKey reads the key, once, and refuses one that no token could be signed for.
func (v *Verifier) takePublicKey() error {
	if len(v.opts.PublicKey) == 0 {
		return nil
	}
	if key, err := jwt.ParseRSAPublicKeyFromPEM(v.opts.PublicKey); err == nil {
		if bits := key.N.BitLen(); bits < minRSABits {
			return fmt.Errorf("JWT_PUBLIC_KEY: an RSA key of %d bits, want at least %d", bits, minRSABits)
		}
		v.rsaKey = key
	} else if key, err := jwt.ParseEdPublicKeyFromPEM(v.opts.PublicKey); err == nil {
		v.edKey, _ = key.(ed25519.PublicKey)
	}
	switch {
	case strings.HasPrefix(v.opts.Algorithm, "RS") && v.rsaKey == nil:
		return errors.New("JWT_PUBLIC_KEY: not an RSA public key in PEM")
	case v.opts.Algorithm == "EdDSA" && v.edKey == nil:
		return errors.New("JWT_PUBLIC_KEY: not an Ed25519 public key in PEM")
	case v.rsaKey == nil && v.edKey == nil:
		return errors.New("JWT_PUBLIC_KEY: neither an RSA nor an Ed25519 public key in PEM")
	}
	return nil
}

// Skips reports whether path, as it was sent, needs no token.
func (v *Verifier) Skips(path []byte) bool {
	for _, skip := range v.opts.SkipPaths {
		if string(path) == skip ||
			len(skip) > 1 && skip[len(skip)-1] == '/' && len(path) > len(skip) && string(path[:len(skip)]) == skip {
			return true
		}
	}
	return false
}
