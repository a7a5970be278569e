// Package envelope encrypts payloads and decrypts them. It knows neither queues nor files:
// the broker seals a payload before it is encoded for the journal, and opens what is stored
// where it leaves again. An envelope is itself a JSON value, so everything between treats it
// as any payload.
//
// # Design
//
// The form is that of other Queen MQ brokers, so that what one has written another reads:
// see Keys.AppendSeal. The cipher is AES-256-GCM with a random nonce of 96 bits, which bounds
// the messages of one key to about 2^32. Nothing is authenticated beside the payload: an
// envelope may be moved from queue to queue, which is what a replay of a dead letter does.
//
// Opening goes by shape, and the tag decides. A payload that only looks like an envelope, or
// belongs to a key that is not here, is not opened and stays what it is; nobody can tell the
// two apart. Previous keys open and never seal. Each is tried, so an envelope needs no name of
// its key.
package envelope
