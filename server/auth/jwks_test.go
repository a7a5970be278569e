package auth

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// keyServer serves a set of keys that the test changes, and counts how often.
type keyServer struct {
	url     string
	fetches atomic.Int64

	mu   sync.Mutex
	body string
	code int
}

func serveKeys(t *testing.T) *keyServer {
	s := &keyServer{code: http.StatusOK}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fetches.Add(1)
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Method != http.MethodGet {
			t.Errorf("method %s", r.Method)
		}
		if s.code == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
			if r.URL.Path == "/elsewhere" {
				t.Error("a redirect was followed")
			}
		}
		w.WriteHeader(s.code)
		fmt.Fprint(w, s.body)
	}))
	t.Cleanup(h.Close)
	s.url = h.URL + "/keys?secret=hunter2"
	return s
}

func (s *keyServer) serve(code int, keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.body = code, `{"keys":[`+strings.Join(keys, ",")+`]}`
}

func jwk(id string, key crypto.PublicKey) string {
	b := base64.RawURLEncoding.EncodeToString
	if k, ok := key.(*rsa.PublicKey); ok {
		return fmt.Sprintf(`{"kty":"RSA","kid":%q,"n":%q,"e":%q}`, id, b(k.N.Bytes()), b(big.NewInt(int64(k.E)).Bytes()))
	}
	return fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","kid":%q,"x":%q}`, id, b(key.(ed25519.PublicKey)))
}

// G-808: keys come from a URL, change, and are withdrawn.
func TestG808Rotation(t *testing.T) {
	k := testKeys()
	s := serveKeys(t)
	now := noon
	v := newVerifier(t, Options{Algorithm: "auto", Secret: secret, JWKSURL: s.url, Now: func() time.Time { return now }})
	token := func(key *rsa.PrivateKey, id ...string) string {
		return sign(t, jwt.SigningMethodRS256, key, jwt.MapClaims{}, id...)
	}
	one, two, bare := token(k.rsa, "kid", "1"), token(k.rsa2, "kid", "2"), token(k.rsa2)
	edToken := sign(t, jwt.SigningMethodEdDSA, k.ed, jwt.MapClaims{}, "kid", "1")
	want := func(step, token string, want error, fetches int64) {
		t.Helper()
		if err := verify(v, token); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", step, err, want)
		}
		if got := s.fetches.Load(); got != fetches {
			t.Errorf("%s: %d fetches, want %d", step, got, fetches)
		}
	}
	s.serve(http.StatusOK, jwk("1", k.rsa.Public()))
	want("a first key", one, nil, 1)
	want("known", token(k.rsa, "kid", "1", "x", "y"), nil, 1)
	want("an unknown one, at once", two, ErrUnknownKey, 1)
	want("of another kind", edToken, ErrUnknownKey, 1)
	want("no id, another key", bare, ErrSignature, 1)
	now = now.Add(refetchPause)
	want("an unknown one", two, ErrUnknownKey, 2)
	s.serve(http.StatusOK, jwk("1", k.rsa.Public()), jwk("2", k.rsa2.Public()), jwk("1", k.ed.Public()))
	now = now.Add(refetchPause - 1)
	want("too soon", two, ErrUnknownKey, 2)
	now = now.Add(1)
	want("rotated", two, nil, 3)
	want("no id", bare, nil, 3)
	want("an id of two keys", edToken, nil, 3)
	want("a secret beside", sign(t, jwt.SigningMethodHS256, secret, jwt.MapClaims{}), nil, 3)
	s.serve(http.StatusInternalServerError)
	now = now.Add(refetchPause)
	want("server down", token(k.rsa, "kid", "3"), ErrUnknownKey, 4)
	want("keys stay", one, nil, 4)
	s.serve(http.StatusOK, jwk("2", k.rsa2.Public()))
	now = now.Add(refetchPause)
	want("one more id", token(k.rsa, "kid", "3"), ErrUnknownKey, 5)
	want("withdrawn, although remembered", one, ErrUnknownKey, 5)
}

// An answer that comes after that of a later fetch does not bring back a withdrawn key.
func TestG808LateAnswer(t *testing.T) {
	k := testKeys()
	s := serveKeys(t)
	s.serve(http.StatusOK, jwk("1", k.rsa.Public()))
	v := newVerifier(t, Options{Algorithm: "RS256", JWKSURL: s.url})
	answered, release := make(chan struct{}), make(chan struct{})
	direct := v.jwks.client.Transport
	v.jwks.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		res, err := direct.RoundTrip(r)
		if r.Context().Value(late{}) != nil {
			close(answered)
			<-release
		}
		return res, err
	})
	var wg sync.WaitGroup
	wg.Go(func() { v.jwks.fetch(context.WithValue(t.Context(), late{}, true)) })
	<-answered
	s.serve(http.StatusOK, jwk("2", k.rsa2.Public()))
	if err := verify(v, sign(t, jwt.SigningMethodRS256, k.rsa2, jwt.MapClaims{}, "kid", "2")); err != nil {
		t.Error(err)
	}
	close(release)
	wg.Wait()
	if err := verify(v, sign(t, jwt.SigningMethodRS256, k.rsa, jwt.MapClaims{}, "kid", "1")); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("the withdrawn key: %v", err)
	}
	if err := verify(v, sign(t, jwt.SigningMethodRS256, k.rsa2, jwt.MapClaims{"n": 1}, "kid", "2")); err != nil {
		t.Errorf("the new key: %v", err)
	}
}

type late struct{} // key of the context of a fetch that is held up

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// G-808: tokens are verified again when the keys have changed, and only then.
func TestG808SameKeysAgain(t *testing.T) {
	k := testKeys()
	s := serveKeys(t)
	s.serve(http.StatusOK, jwk("1", k.rsa.Public()), jwk("2", k.ed.Public()))
	v := newVerifier(t, Options{Algorithm: "auto", JWKSURL: s.url})
	for _, tt := range []struct {
		name    string
		keys    []string
		cleared bool
	}{
		{"first", []string{jwk("1", k.rsa.Public()), jwk("2", k.ed.Public())}, true},
		{"same", []string{jwk("1", k.rsa.Public()), jwk("2", k.ed.Public())}, false},
		{"another id", []string{jwk("1", k.rsa.Public()), jwk("3", k.ed.Public())}, true},
		{"one is gone", []string{jwk("1", k.rsa.Public())}, true},
		{"another kind", []string{jwk("1", k.ed.Public())}, true},
	} {
		s.serve(http.StatusOK, tt.keys...)
		before := v.cache.generation.Load()
		v.jwks.fetch(t.Context())
		if got := v.cache.generation.Load() != before; got != tt.cleared {
			t.Errorf("%s: verified tokens forgotten: %t, want %t", tt.name, got, tt.cleared)
		}
	}
}

// Requests that wait for the same new key share a fetch.
func TestG808ConcurrentRefetch(t *testing.T) {
	s := serveKeys(t)
	s.serve(http.StatusOK, jwk("1", testKeys().rsa.Public()))
	v := newVerifier(t, Options{Algorithm: "RS256", JWKSURL: s.url})
	var wg sync.WaitGroup
	for n := range 8 {
		token := sign(t, jwt.SigningMethodRS256, testKeys().rsa, jwt.MapClaims{"n": n}, "kid", "1")
		wg.Go(func() {
			if err := verify(v, token); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := s.fetches.Load(); got != 1 {
		t.Errorf("%d fetches", got)
	}
}

// G-808: what is no set of keys, and which keys are passed over.
func TestG808Answers(t *testing.T) {
	k := testKeys()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	good := jwk("1", k.rsa.Public())
	many := make([]string, 0, 2*maxKeys)
	for range cap(many) {
		many = append(many, good)
	}
	for name, tt := range map[string]struct {
		code int
		keys []string
		raw  string
		want int // keys; -1: refused
	}{
		"fine":      {200, []string{good}, "", 1},
		"empty":     {200, nil, "", 0},
		"too long":  {200, nil, `{"keys":[]}` + strings.Repeat(" ", maxJWKSBytes), -1},
		"redirect":  {302, []string{good}, "", -1},
		"not found": {404, []string{good}, "", -1},
		"no object": {200, nil, `[]`, -1}, "no keys": {200, nil, `{}`, -1}, "html": {200, nil, `<html>`, -1}, "null": {200, nil, `{"keys":null}`, -1},
		"others": {200, []string{
			`{"kty":"EC","kid":"e","crv":"secp256k1","x":"AA","y":"AA"}`, `{"kty":"oct","k":"AA"}`, `{"kty":"OKP","crv":"X25519","x":"AA"}`, `5`, `{"kty":7}`,
			`{"kty":"OKP","crv":"Ed25519","x":"AAAA"}`, `{"kty":"RSA","n":"!","e":"AQAB"}`, `{"kty":"RSA","n":"","e":""}`, jwk("w", weak.Public()),
			strings.Replace(good, `"e":"AQAB"`, `"e":"AQ"`, 1), strings.Replace(good, `"e":"AQAB"`, `"e":"AQABAQABAQAB"`, 1),
			strings.Replace(good, `"e":"AQAB"`, `"e":"Ag"`, 1), good,
		}, "", 1},
		"many": {200, many, "", maxKeys},
	} {
		s := serveKeys(t)
		if s.serve(tt.code, tt.keys...); tt.raw != "" {
			s.body = tt.raw
		}
		v := newVerifier(t, Options{Algorithm: "RS256", JWKSURL: s.url})
		keys, err := v.jwks.get(t.Context())
		if (err != nil) != (tt.want < 0) || err == nil && len(keys) != tt.want {
			t.Errorf("%s: %d keys, %v, want %d", name, len(keys), err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error holds the URL: %v", name, err)
		}
	}
	dead := newVerifier(t, Options{Algorithm: "RS256", JWKSURL: "http://127.0.0.1:1/?secret=hunter2"})
	if _, err := dead.jwks.get(t.Context()); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("nobody there: %v", err)
	}
}

// G-808: keys are fetched at the start and once an interval, until the end; and a server
// that does not answer is given up.
func TestG808Run(t *testing.T) {
	s := serveKeys(t)
	s.serve(http.StatusOK, jwk("1", testKeys().rsa.Public()))
	v := newVerifier(t, Options{Algorithm: "RS256", JWKSURL: s.url, JWKSRefresh: time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { v.Run(ctx) })
	for deadline := time.After(20 * time.Second); s.fetches.Load() < 3; {
		select {
		case <-deadline:
			t.Fatalf("%d fetches", s.fetches.Load())
		default:
			_ = verify(v, "x")
		}
	}
	stop()
	wg.Wait()
	newVerifier(t, Options{Secret: secret}).Run(t.Context()) // nothing to fetch

	hang := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer h.Close()
	defer close(hang)
	slow := newVerifier(t, Options{Algorithm: "RS256", JWKSURL: h.URL, JWKSTimeout: time.Millisecond})
	if _, err := slow.jwks.get(t.Context()); err == nil {
		t.Error("a server that does not answer was waited for")
	}
}
