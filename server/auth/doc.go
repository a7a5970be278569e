// Package auth turns a bearer token into who sent it: roles and a name. What a role may do
// is not known here; package server has that in its table of routes.
//
// # The life of a token
//
// Verify takes the value of an Authorization header. A token that was verified before, and
// has not expired, is found in the cache by its SHA-256. Any other is parsed; its algorithm
// is looked up in the list of those allowed, before any key; the signature is checked, and
// then the claims. Only what passed all of it is remembered.
//
// The algorithm says which kind of key is taken: HS* the secret, RS* an RSA key, EdDSA an
// Ed25519 key. A public key is never used as a secret, whatever a token claims.
//
// # Keys
//
// They are a secret and a public key from Options, or public keys from a URL (a JWKS), which
// Run fetches and fetches again. A key that is unknown makes one more fetch, at most one in
// five seconds, so that keys can change at any time and nobody can make us hammer a server.
// With new keys the cache is emptied: a key that was withdrawn opens nothing.
//
// # Design
//
// Signatures are checked by golang-jwt. Its claims are checked here: which error is told
// for which claim is part of the API. The fetching of keys is our own and not that of
// keyfunc: that library follows redirects, reads answers of any length, lets a token without
// a key id pass only with one key, and lets requests for unknown ids wait in line for a
// rate limiter.
//
// An error never holds a token or a part of one; nothing here logs one either.
package auth
