package auth

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

var bearer = []byte("bearer ")

// Verify says who sent a request with this Authorization header, with or without
// "Bearer ". Its errors are those of the list above, and nothing more.
func (v *Verifier) Verify(header []byte) (Principal, error) {
	token := bytes.TrimSpace(header)
	if n := len(bearer) - 1; len(token) >= n && bytes.EqualFold(token[:n], bearer[:n]) && (len(token) == n || token[n] == ' ') {
		token = bytes.TrimSpace(token[n:])
	}
	if len(token) == 0 {
		return Principal{}, ErrNoToken
	}
	now := v.opts.Now()
	key := sha256.Sum256(token)
	if p, ok := v.cache.get(&key, now); ok {
		return p, nil
	}
	generation := v.cache.generation.Load()
	claims := jwt.MapClaims{}
	if _, err := v.parser.ParseWithClaims(string(token), claims, v.keys); err != nil {
		return Principal{}, reason(err)
	}
	expires, err := v.check(claims, now)
	if err != nil {
		return Principal{}, err
	}
	p := Principal{Roles: v.roles(claims)}
	if sub, _ := claims["sub"].(string); sub != "" {
		p.Sub = []byte(sub)
	}
	v.cache.put(&key, p, expires, generation)
	return p, nil
}

// reason is the error of ours for one of golang-jwt, which may quote the token.
func reason(err error) error {
	for _, e := range [...]error{ErrMalformed, ErrAlgorithm, ErrUnknownKey, ErrNoSecret, ErrNotRSAKey, ErrNotEdKey} {
		if errors.Is(err, e) {
			return e
		}
	}
	switch {
	case errors.Is(err, jwt.ErrTokenMalformed):
		return ErrMalformed
	case errors.Is(err, jwt.ErrTokenUnverifiable):
		return ErrAlgorithm // one that golang-jwt does not know
	}
	return ErrSignature
}

// keys returns the keys that may have signed the token: a []byte, or a set of public keys
// of the kind of its algorithm.
func (v *Verifier) keys(token *jwt.Token) (any, error) {
	alg := token.Method.Alg()
	if !slices.Contains(v.allowed, alg) {
		return nil, ErrAlgorithm
	}
	if _, has := token.Header["crit"]; has {
		return nil, ErrMalformed // it asks for something that has to be understood
	}
	kid, isString := token.Header["kid"].(string)
	if _, has := token.Header["kid"]; has && !isString {
		return nil, ErrMalformed
	}
	switch alg[0] {
	case 'H':
		if len(v.opts.Secret) == 0 {
			return nil, ErrNoSecret
		}
		return v.opts.Secret, nil
	case 'R':
		if len(v.opts.PublicKey) > 0 {
			if v.rsaKey == nil {
				return nil, ErrNotRSAKey
			}
			return v.rsaKey, nil
		}
	default:
		if len(v.opts.PublicKey) > 0 {
			if v.edKey == nil {
				return nil, ErrNotEdKey
			}
			return v.edKey, nil
		}
	}
	if v.jwks == nil {
		return nil, ErrUnknownKey
	}
	found := v.jwks.find(kid, alg[0] == 'R')
	if len(found) == 0 {
		return nil, ErrUnknownKey
	}
	return jwt.VerificationKeySet{Keys: found}, nil
}

// never is when a token without an end expires.
var never = time.Unix(1<<40, 0)

// check looks at all claims but the roles, and returns when the token expires. A time
// that is not a number is a time that has not come, or has passed.
func (v *Verifier) check(claims jwt.MapClaims, now time.Time) (expires time.Time, err error) {
	skew := v.opts.Skew.Seconds()
	at := float64(now.UnixNano()) / float64(time.Second)
	expires = never
	if claim, has := claims["exp"]; has {
		exp, ok := claim.(float64)
		if !ok || at > exp+skew {
			return never, ErrExpired
		}
		if end := exp + skew; end < float64(never.Unix()) {
			whole, part := math.Modf(end)
			expires = time.Unix(int64(whole), int64(part*float64(time.Second)))
		}
	}
	if claim, has := claims["nbf"]; has {
		if nbf, ok := claim.(float64); !ok || at+skew < nbf {
			return never, ErrNotYetValid
		}
	}
	if claim, has := claims["iat"]; has {
		if iat, ok := claim.(float64); !ok || iat > at+skew {
			return never, ErrIssuedLater
		}
	}
	if want := v.opts.Issuer; want != "" && claims["iss"] != any(want) {
		return never, ErrIssuer
	}
	if want := v.opts.Audience; want != "" && !holds(claims["aud"], want) {
		return never, ErrAudience
	}
	return expires, nil
}

// holds reports whether claim is want, or a list with it.
func holds(claim any, want string) bool {
	list, ok := claim.([]any)
	if !ok {
		s, ok := claim.(string)
		return ok && s == want
	}
	return slices.ContainsFunc(list, func(one any) bool { s, ok := one.(string); return ok && s == want })
}

func (v *Verifier) roles(claims jwt.MapClaims) (roles Roles) {
	if one, ok := claims[v.opts.RolesClaim].(string); ok {
		roles |= v.role(one)
	}
	if list, ok := claims[v.opts.RolesArrayClaim].([]any); ok {
		for _, one := range list {
			if name, ok := one.(string); ok {
				roles |= v.role(name)
			}
		}
	}
	return roles
}

// role knows the four names. Two roles of one name are both given.
func (v *Verifier) role(name string) (roles Roles) {
	for _, r := range [...]struct {
		name string
		role Roles
	}{
		{v.opts.AdminRole, Admin}, {v.opts.ReadWriteRole, ReadWrite},
		{v.opts.ReadOnlyRole, ReadOnly}, {v.opts.WriteOnlyRole, WriteOnly},
	} {
		if name == r.name {
			roles |= r.role
		}
	}
	return roles
}
