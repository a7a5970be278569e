package auth

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

var noon = time.Date(2026, 7, 30, 12, 0, 0, 0, time.UTC)

var secret = []byte("a secret of more than thirty-two bytes")

// testKeys are made once: an RSA key takes a tenth of a second.
var testKeys = sync.OnceValue(func() (k struct {
	rsa, rsa2 *rsa.PrivateKey
	ed        ed25519.PrivateKey
}) {
	var err error
	for _, to := range []**rsa.PrivateKey{&k.rsa, &k.rsa2} {
		if *to, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			panic(err)
		}
	}
	if _, k.ed, err = ed25519.GenerateKey(rand.Reader); err != nil {
		panic(err)
	}
	return k
})

func publicPEM(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// sign returns a token; header members are added to it.
func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.MapClaims, header ...string) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	for i := 0; i < len(header); i += 2 {
		token.Header[header[i]] = header[i+1]
	}
	s, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newVerifier(t testing.TB, o Options) *Verifier {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return noon }
	}
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func verify(v *Verifier, token string) error {
	_, err := v.Verify([]byte(token))
	return err
}

// G-813, G-806: what can never work does not start, and says which variable to look at.
func TestG813Options(t *testing.T) {
	k := testKeys()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	rsaPEM, edPEM := publicPEM(t, k.rsa.Public()), publicPEM(t, k.ed.Public())
	for name, tt := range map[string]struct {
		o    Options
		want string // part of the error; empty: none
	}{
		"secret":              {Options{Secret: secret}, ""},
		"nothing":             {Options{}, "JWT_SECRET"},
		"auto, nothing":       {Options{Algorithm: "auto"}, "JWT_SECRET"},
		"auto, URL":           {Options{Algorithm: "auto", JWKSURL: "https://x/keys"}, ""},
		"RS256, secret":       {Options{Algorithm: "RS256", Secret: secret}, "JWT_PUBLIC_KEY or JWT_JWKS_URL"},
		"EdDSA, secret":       {Options{Algorithm: "EdDSA", Secret: secret}, "JWT_PUBLIC_KEY or JWT_JWKS_URL"},
		"RS512, key":          {Options{Algorithm: "RS512", PublicKey: rsaPEM}, ""},
		"RS256, Ed key":       {Options{Algorithm: "RS256", PublicKey: edPEM}, "JWT_PUBLIC_KEY"},
		"EdDSA, RSA key":      {Options{Algorithm: "EdDSA", PublicKey: rsaPEM}, "JWT_PUBLIC_KEY"},
		"auto, no PEM":        {Options{Algorithm: "auto", PublicKey: []byte("hunter2")}, "JWT_PUBLIC_KEY"},
		"weak key":            {Options{Algorithm: "RS256", PublicKey: publicPEM(t, weak.Public())}, "1024 bits"},
		"unknown algorithm":   {Options{Algorithm: "ES256", Secret: secret}, "HS256, HS384, HS512, RS256, RS384, RS512, EdDSA, auto"},
		"none":                {Options{Algorithm: "none", Secret: secret}, "JWT_ALGORITHM"},
		"URL of a file":       {Options{Algorithm: "RS256", JWKSURL: "file:///etc/passwd"}, "JWT_JWKS_URL"},
		"URL without a host":  {Options{Algorithm: "RS256", JWKSURL: "https:///keys"}, "JWT_JWKS_URL"},
		"URL beside a secret": {Options{Secret: secret, JWKSURL: "ftp://x"}, "JWT_JWKS_URL"},
	} {
		_, err := New(tt.o)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error holds the key", name)
		}
	}
}

// G-806, G-807: which algorithms pass, and with which keys.
func TestG806Algorithms(t *testing.T) {
	k := testKeys()
	rsaPEM, edPEM := publicPEM(t, k.rsa.Public()), publicPEM(t, k.ed.Public())
	type signer struct {
		method jwt.SigningMethod
		key    any
	}
	signers := map[string]signer{
		"HS256": {jwt.SigningMethodHS256, secret}, "HS384": {jwt.SigningMethodHS384, secret}, "HS512": {jwt.SigningMethodHS512, secret},
		"RS256": {jwt.SigningMethodRS256, k.rsa}, "RS384": {jwt.SigningMethodRS384, k.rsa}, "RS512": {jwt.SigningMethodRS512, k.rsa},
		"PS256": {jwt.SigningMethodPS256, k.rsa}, "EdDSA": {jwt.SigningMethodEdDSA, k.ed},
		"none": {jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType}, "HS256 with the PEM": {jwt.SigningMethodHS256, rsaPEM},
		"HS256 with no secret": {jwt.SigningMethodHS256, []byte{}},
	}
	hs, rs := Options{Secret: secret}, Options{PublicKey: rsaPEM}
	with := func(o Options, algorithm string) Options { o.Algorithm = algorithm; return o }
	both := Options{Algorithm: "auto", Secret: secret, PublicKey: rsaPEM}
	ed := Options{Algorithm: "EdDSA", PublicKey: edPEM}
	for name, tt := range map[string]struct {
		o     Options
		other error            // for all that are not named
		want  map[string]error // by signer
	}{
		"HS256": {hs, ErrAlgorithm, map[string]error{"HS256": nil, "HS256 with the PEM": ErrSignature, "HS256 with no secret": ErrSignature}},
		"HS384": {with(hs, "HS384"), ErrAlgorithm, map[string]error{"HS384": nil}},
		"HS512": {with(hs, "HS512"), ErrAlgorithm, map[string]error{"HS512": nil}},
		"RS256": {with(rs, "RS256"), ErrAlgorithm, map[string]error{"RS256": nil, "RS384": nil, "RS512": nil}},
		"RS384": {with(rs, "RS384"), ErrAlgorithm, map[string]error{"RS384": nil}},
		"RS512": {with(rs, "RS512"), ErrAlgorithm, map[string]error{"RS512": nil}},
		"EdDSA": {ed, ErrAlgorithm, map[string]error{"EdDSA": nil}},
		"auto, secret and RSA key": {both, ErrAlgorithm, map[string]error{
			"HS256": nil, "HS384": nil, "HS512": nil, "RS256": nil, "RS384": nil, "RS512": nil,
			"EdDSA": ErrNotEdKey, "HS256 with the PEM": ErrSignature, "HS256 with no secret": ErrSignature,
		}},
		"auto, Ed key": {with(ed, "auto"), ErrAlgorithm, map[string]error{
			"HS256": ErrNoSecret, "HS384": ErrNoSecret, "HS512": ErrNoSecret, "HS256 with the PEM": ErrNoSecret, "HS256 with no secret": ErrNoSecret,
			"RS256": ErrNotRSAKey, "RS384": ErrNotRSAKey, "RS512": ErrNotRSAKey, "EdDSA": nil,
		}},
		"auto, secret": {with(hs, "auto"), ErrAlgorithm, map[string]error{
			"HS256": nil, "HS384": nil, "HS512": nil, "HS256 with the PEM": ErrSignature, "HS256 with no secret": ErrSignature,
			"RS256": ErrUnknownKey, "RS384": ErrUnknownKey, "RS512": ErrUnknownKey, "EdDSA": ErrUnknownKey,
		}},
	} {
		v := newVerifier(t, tt.o)
		for alg, s := range signers {
			want, named := tt.want[alg]
			if !named {
				want = tt.other
			}
			if err := verify(v, sign(t, s.method, s.key, jwt.MapClaims{"sub": alg})); !errors.Is(err, want) {
				t.Errorf("%s: a token of %s: %v, want %v", name, alg, err, want)
			}
		}
	}
}

// G-801, G-811: how a token may be sent, and what is none.
func TestG801Credential(t *testing.T) {
	v := newVerifier(t, Options{Secret: secret})
	good := sign(t, jwt.SigningMethodHS256, secret, jwt.MapClaims{})
	other := sign(t, jwt.SigningMethodHS256, []byte("x"), jwt.MapClaims{})
	parts := strings.Split(good, ".")
	raw := func(header, claims string) string { // signed, whatever it holds
		text := encode(header) + "." + encode(claims)
		sig, err := jwt.SigningMethodHS256.Sign(text, secret)
		if err != nil {
			t.Fatal(err)
		}
		return text + "." + encode(string(sig))
	}
	const hs = `{"alg":"HS256"}`
	for name, tt := range map[string]struct {
		header string
		want   error
	}{
		"bearer": {"Bearer " + good, nil}, "lower case": {"bearer " + good, nil}, "upper case": {"BEARER  " + good + " ", nil}, "bare": {good, nil},
		"empty": {"", ErrNoToken}, "blank": {"  ", ErrNoToken}, "no token": {"Bearer", ErrNoToken}, "blank token": {"Bearer  ", ErrNoToken},
		"basic": {"Basic dXNlcjpwYXNz", ErrMalformed}, "garbage": {"Bearer x.y.z", ErrMalformed}, "two parts": {parts[0] + "." + parts[1], ErrMalformed},
		"four parts": {good + ".", ErrMalformed}, "dots": {"..", ErrMalformed}, "bearer without a space": {"Bearer" + good, ErrMalformed},
		"no signature": {parts[0] + "." + parts[1] + ".", ErrSignature}, "another signature": {other, ErrSignature},
		"other claims":     {parts[0] + "." + encode(`{"role":"admin"}`) + "." + parts[2], ErrSignature},
		"null claims":      {raw(hs, "null"), nil},
		"claims of a list": {raw(hs, "[]"), ErrMalformed}, "header of a list": {raw("[]", "{}"), ErrMalformed},
		"no algorithm": {raw("{}", "{}"), ErrAlgorithm}, "none": {raw(`{"alg":"none"}`, "{}"), ErrAlgorithm}, "NONE": {raw(`{"alg":"NoNe"}`, "{}"), ErrAlgorithm},
		"algorithm of a number": {raw(`{"alg":5}`, "{}"), ErrAlgorithm}, "hs256": {raw(`{"alg":"hs256"}`, "{}"), ErrAlgorithm},
		"kid of a number": {raw(`{"alg":"HS256","kid":1}`, "{}"), ErrMalformed}, "critical": {raw(`{"alg":"HS256","crit":["exp"]}`, "{}"), ErrMalformed},
	} {
		for range 2 { // also out of the cache
			if err := verify(v, tt.header); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", name, err, tt.want)
			}
		}
	}
}

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// G-809: every claim at, before and behind its bounds.
func TestG809Claims(t *testing.T) {
	v := newVerifier(t, Options{Secret: secret, Skew: 30 * time.Second, Issuer: "us", Audience: "skep"})
	at := float64(noon.Unix())
	for name, tt := range map[string]struct {
		claims jwt.MapClaims
		want   error
	}{
		"as it should be":     {nil, nil},
		"expires":             {jwt.MapClaims{"exp": at + 1}, nil},
		"within the skew":     {jwt.MapClaims{"exp": at - 30}, nil},
		"expired":             {jwt.MapClaims{"exp": at - 30.5}, ErrExpired},
		"far future":          {jwt.MapClaims{"exp": 1e300}, nil},
		"exp of text":         {jwt.MapClaims{"exp": "2099-01-01"}, ErrExpired},
		"exp null":            {jwt.MapClaims{"exp": nil}, ErrExpired},
		"nbf within the skew": {jwt.MapClaims{"nbf": at + 30}, nil},
		"not yet":             {jwt.MapClaims{"nbf": at + 31}, ErrNotYetValid},
		"nbf of text":         {jwt.MapClaims{"nbf": "0"}, ErrNotYetValid},
		"iat within the skew": {jwt.MapClaims{"iat": at + 30}, nil},
		"issued later":        {jwt.MapClaims{"iat": at + 31}, ErrIssuedLater},
		"iat of a list":       {jwt.MapClaims{"iat": []int{0}}, ErrIssuedLater},
		"other issuer":        {jwt.MapClaims{"iss": "US"}, ErrIssuer},
		"issuer of a list":    {jwt.MapClaims{"iss": []string{"us"}}, ErrIssuer},
		"no issuer":           {jwt.MapClaims{"iss": nil}, ErrIssuer},
		"other audience":      {jwt.MapClaims{"aud": "skeps"}, ErrAudience},
		"no audience":         {jwt.MapClaims{"aud": nil}, ErrAudience},
		"one of several":      {jwt.MapClaims{"aud": []any{1, "other", "skep"}}, nil},
		"none of several":     {jwt.MapClaims{"aud": []string{"other", "sk", "ep"}}, ErrAudience},
		"expired comes first": {jwt.MapClaims{"exp": 0, "nbf": at + 99, "iss": "x"}, ErrExpired},
	} {
		claims := jwt.MapClaims{"iss": "us", "aud": "skep"}
		for k, c := range tt.claims {
			claims[k] = c
		}
		if err := verify(v, sign(t, jwt.SigningMethodHS256, secret, claims)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if err := verify(v, sign(t, jwt.SigningMethodHS256, secret, jwt.MapClaims{"aud": "skep"})); !errors.Is(err, ErrIssuer) {
		t.Errorf("without an issuer: %v", err)
	}
}

// G-803, G-810: roles are those of both claims under the names configured; the name is sub.
func TestG803Roles(t *testing.T) {
	usual := newVerifier(t, Options{Secret: secret})
	renamed := newVerifier(t, Options{
		Secret: secret, RolesClaim: "https://x/role", RolesArrayClaim: "groups",
		AdminRole: "root", ReadWriteRole: "app", ReadOnlyRole: "view", WriteOnlyRole: "view",
	})
	for name, tt := range map[string]struct {
		v      *Verifier
		claims jwt.MapClaims
		want   Roles
		sub    string
	}{
		"none":            {usual, jwt.MapClaims{"sub": "me"}, 0, "me"},
		"one":             {usual, jwt.MapClaims{"role": "admin"}, Admin, ""},
		"both":            {usual, jwt.MapClaims{"role": "read-only", "roles": []string{"write-only", "x"}}, ReadOnly | WriteOnly, ""},
		"wrong types":     {usual, jwt.MapClaims{"role": []string{"admin"}, "roles": "admin", "sub": 5}, 0, ""},
		"other case":      {usual, jwt.MapClaims{"role": "Admin"}, 0, ""},
		"odd members":     {usual, jwt.MapClaims{"roles": []any{1, nil, "read-write"}}, ReadWrite, ""},
		"renamed":         {renamed, jwt.MapClaims{"https://x/role": "root", "groups": []string{"app"}}, Admin | ReadWrite, ""},
		"one name, twice": {renamed, jwt.MapClaims{"groups": []string{"view"}}, ReadOnly | WriteOnly, ""},
		"old names":       {renamed, jwt.MapClaims{"role": "root", "roles": []string{"root"}, "groups": []string{"admin"}}, 0, ""},
	} {
		token := sign(t, jwt.SigningMethodHS256, secret, tt.claims)
		for range 2 {
			p, err := tt.v.Verify([]byte(token))
			if err != nil || p.Roles != tt.want || string(p.Sub) != tt.sub {
				t.Errorf("%s: %b %q %v, want %b %q", name, p.Roles, p.Sub, err, tt.want, tt.sub)
			}
		}
	}
}

// G-805: which paths need no token.
func TestG805SkipPaths(t *testing.T) {
	v := newVerifier(t, Options{Secret: secret, SkipPaths: []string{"/health", "/", "/open/", ""}})
	for path, want := range map[string]bool{
		"/health": true, "/": true, "/open/x": true, "/open/x/y": true, "/open/": true,
		"/open": false, "/openx": false, "/health/": false, "/healthx": false, "/api/v1/push": false, "/Health": false, "//": false,
	} {
		if got := v.Skips([]byte(path)); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
	if newVerifier(t, Options{Secret: secret}).Skips([]byte("/health")) {
		t.Error("an empty list skips something")
	}
}

// A token that was verified is not verified again, until it expires or the keys change.
func TestCache(t *testing.T) {
	now := noon
	v := newVerifier(t, Options{Secret: secret, Skew: time.Second, CacheTokens: 2, Now: func() time.Time { return now }})
	token := func(n int) string {
		return sign(t, jwt.SigningMethodHS256, secret, jwt.MapClaims{"n": n, "exp": noon.Unix() + 10})
	}
	first := token(0)
	count := func() int { return len(v.cache.young) + len(v.cache.old) }
	for range 3 {
		if err := verify(v, first); err != nil || count() != 1 {
			t.Fatalf("%v, %d remembered", err, count())
		}
	}
	v.opts.Secret = []byte("another") // only what is remembered passes now
	if err := verify(v, first); err != nil {
		t.Errorf("remembered: %v", err)
	}
	now = noon.Add(11*time.Second + 1)
	if err := verify(v, first); err == nil {
		t.Error("an expired token passes out of the cache")
	}
	now, v.opts.Secret = noon, secret
	for n := range 50 {
		if err := errors.Join(verify(v, token(n)), verify(v, first)); err != nil {
			t.Fatal(err)
		}
		if count() > 4 {
			t.Fatalf("%d tokens are remembered", count())
		}
	}
	v.opts.Secret = []byte("another")
	if err := verify(v, first); err != nil {
		t.Errorf("a token in use was forgotten: %v", err)
	}
	before := v.cache.generation.Load()
	v.cache.clear()
	if err := verify(v, first); !errors.Is(err, ErrSignature) {
		t.Errorf("after a change of keys: %v", err)
	}
	v.cache.put(new([32]byte), Principal{}, never, before)
	if count() != 0 {
		t.Error("a token verified with old keys is remembered")
	}
}

// FuzzVerify: no header makes it panic, and none passes that was not signed.
func FuzzVerify(f *testing.F) {
	v := newVerifier(f, Options{Algorithm: "auto", Secret: secret, PublicKey: publicPEM(f, testKeys().rsa.Public())})
	good := sign(f, jwt.SigningMethodHS256, secret, jwt.MapClaims{"role": "admin", "exp": noon.Unix()})
	f.Add(good)
	f.Add("Bearer " + good)
	f.Add("e30.e30.")
	f.Fuzz(func(t *testing.T, header string) {
		if verify(v, header) == nil && !strings.Contains(header, good) {
			t.Errorf("%q passes", header)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	k := testKeys()
	token := []byte("Bearer " + sign(b, jwt.SigningMethodRS256, k.rsa, jwt.MapClaims{"sub": "service", "role": "read-write", "exp": noon.Unix() + 60}))
	for _, cached := range []bool{true, false} {
		name := "cached=no"
		if cached {
			name = "cached=yes"
		}
		b.Run("alg=RS256/"+name, func(b *testing.B) {
			v := newVerifier(b, Options{Algorithm: "RS256", PublicKey: publicPEM(b, k.rsa.Public())})
			b.ReportAllocs()
			for b.Loop() {
				if !cached {
					v.cache.clear()
				}
				if _, err := v.Verify(token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
