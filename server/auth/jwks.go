package auth

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/rs/zerolog"
)

const (
	// maxJWKSBytes bounds the answer of the server of keys.
	maxJWKSBytes = 1 << 20
	// maxKeys bounds the signatures that a token without a key id makes us check.
	maxKeys = 64
	// refetchPause is the least time between two fetches for unknown key ids.
	refetchPause = 5 * time.Second
)

// jwks is a set of public keys that is fetched from a URL.
type jwks struct {
	url     string
	host    string // of url, for the log: the rest may hold a secret
	client  *http.Client
	refresh time.Duration
	now     func() time.Time
	log     zerolog.Logger
	changed func() // called when keys may have been withdrawn

	set    atomic.Pointer[[]publicKey]
	begun  atomic.Uint64 // fetches
	takeMu sync.Mutex
	taken  uint64 // which of them set is of

	// One request fetches for all that wait for a key: they hold this meanwhile. A fetch
	// has a timeout, and a second one comes only after a pause.
	refetchMu sync.Mutex
	refetched time.Time // when the last such fetch ended
}

type publicKey struct {
	id  string
	key jwt.VerificationKey // *rsa.PublicKey or ed25519.PublicKey
}

func (k publicKey) equal(other publicKey) bool {
	key, ok := k.key.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.id == other.id && key.Equal(other.key)
}

func newJWKS(o Options, changed func()) (*jwks, error) {
	u, err := url.Parse(o.JWKSURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("JWT_JWKS_URL: not an http or https URL")
	}
	if u.Scheme == "http" {
		o.Logger.Warn().Str("host", u.Host).Msg("JWT_JWKS_URL is not https: who is on the way can put in keys of his own")
	}
	j := &jwks{
		url: o.JWKSURL, host: u.Host, refresh: o.JWKSRefresh, now: o.Now, log: o.Logger, changed: changed,
		client: &http.Client{
			Timeout:       o.JWKSTimeout,
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: 64 << 10},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	j.set.Store(new([]publicKey))
	return j, nil
}

// Run fetches keys, now and then again, until ctx ends. Without a URL it returns at once.
func (v *Verifier) Run(ctx context.Context) {
	j := v.jwks
	if j == nil {
		return
	}
	defer j.client.CloseIdleConnections()
	j.fetch(ctx)
	tick := time.NewTicker(j.refresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			j.fetch(ctx)
		}
	}
}

// find returns the keys of an id, or all if it is empty, that are RSA keys or not. If
// there are none it fetches, once.
func (j *jwks) find(id string, isRSA bool) []jwt.VerificationKey {
	if found := j.among(id, isRSA); len(found) > 0 {
		return found
	}
	j.refetchMu.Lock()
	defer j.refetchMu.Unlock()
	if found := j.among(id, isRSA); len(found) > 0 {
		return found // another request has fetched it
	}
	if !j.refetched.IsZero() && j.now().Sub(j.refetched) < refetchPause {
		return nil
	}
	j.fetch(context.Background())
	j.refetched = j.now()
	return j.among(id, isRSA)
}

func (j *jwks) among(id string, isRSA bool) (found []jwt.VerificationKey) {
	for _, k := range *j.set.Load() {
		if _, ok := k.key.(*rsa.PublicKey); ok == isRSA && (id == "" || id == k.id) {
			found = append(found, k.key)
		}
	}
	return found
}

// fetch replaces the keys. If it fails those there are stay.
func (j *jwks) fetch(ctx context.Context) {
	number := j.begun.Add(1)
	keys, err := j.get(ctx)
	if err != nil {
		if ctx.Err() == nil {
			j.log.Warn().Err(err).Str("host", j.host).Msg("keys not fetched")
		}
		return
	}
	j.take(number, keys)
	j.log.Debug().Int("keys", len(keys)).Str("host", j.host).Msg("keys fetched")
}

// take puts the keys of a fetch in force, unless those of a later one are: an answer that was
// long on its way must not bring back what has been withdrawn meanwhile.
func (j *jwks) take(number uint64, keys []publicKey) {
	j.takeMu.Lock()
	defer j.takeMu.Unlock()
	if number < j.taken {
		return
	}
	j.taken = number
	// Unknown key ids of strangers make us fetch: what has been verified with the same keys stays.
	same := slices.EqualFunc(keys, *j.set.Load(), publicKey.equal)
	j.set.Store(&keys)
	if !same {
		j.changed()
	}
}

func (j *jwks) get(ctx context.Context) ([]publicKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, j.url, nil)
	if err != nil {
		return nil, errors.New("build the request for keys")
	}
	res, err := j.client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the URL
		}
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxJWKSBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if len(body) > maxJWKSBytes {
		return nil, fmt.Errorf("more than %d bytes", maxJWKSBytes)
	}
	return parseJWKS(body)
}

// parseJWKS reads a set of keys. What it does not understand, or finds too weak, it skips.
func parseJWKS(body []byte) ([]publicKey, error) {
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(body, &set); err != nil || set.Keys == nil {
		return nil, errors.New("not a set of keys")
	}
	var keys []publicKey
	for _, raw := range set.Keys {
		var k struct{ Kty, Kid, N, E, Crv, X string }
		if json.Unmarshal(raw, &k) != nil || len(keys) == maxKeys {
			continue
		}
		switch {
		case k.Kty == "RSA":
			if key := rsaKey(k.N, k.E); key != nil {
				keys = append(keys, publicKey{k.Kid, key})
			}
		case k.Kty == "OKP" && k.Crv == "Ed25519":
			if x := decodeBase64(k.X); len(x) == ed25519.PublicKeySize {
				keys = append(keys, publicKey{k.Kid, ed25519.PublicKey(x)})
			}
		}
	}
	return keys, nil
}

// rsaKey returns nil for what is no key, or a weak one.
func rsaKey(n, e string) *rsa.PublicKey {
	exponent := new(big.Int).SetBytes(decodeBase64(e))
	key := &rsa.PublicKey{N: new(big.Int).SetBytes(decodeBase64(n))}
	if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits || exponent.BitLen() > 31 || exponent.Bit(0) == 0 {
		return nil
	}
	if key.E = int(exponent.Int64()); key.E < 3 {
		return nil
	}
	return key
}

// maxRSABits bounds the time that checking a signature takes.
const maxRSABits = 8192

// decodeBase64 returns nil for what is none.
func decodeBase64(s string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil {
		return nil
	}
	return b
}
