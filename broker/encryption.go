package broker

import (
	"bytes"
	"errors"

	"github.com/skepmq/skep/broker/envelope"
	"github.com/skepmq/skep/segment"
)

// Encryption at rest. Where a payload is encoded for the journal it is encrypted, if its queue
// asks for that and there are keys; the spool does the same before it has the item encoded as a
// message of its own. Everything behind stores and moves bytes: journal, memory, segments,
// their rewriting, and dead letters, which take the bytes of their message. Whoever leaves with
// a payload asks AppendPayload for it. So what is on disk is what is in memory, and nothing
// that reads messages to decide knows of encryption.

// maxEncrypted bounds the payloads that are encrypted: with it, and the longest ids, a message
// is still a batch.
const maxEncrypted = segment.MaxBodyLen/4*3 - 1<<20

var errTooLargeToEncrypt = errors.New("broker: payload too large to be encrypted")

// keysOf returns what encrypts payloads of q; nil: they are stored as they are.
func (b *Broker) keysOf(q *queue) *envelope.Keys {
	if b.o.Keys == nil || q == nil || !q.options.Load().EncryptionEnabled {
		return nil
	}
	return b.o.Keys
}

// encodeFor encodes a batch as q asks for it.
func (b *Broker) encodeFor(s *pushState, batch *pushBatch, q *queue) error {
	batch.keys = b.keysOf(q)
	if !s.encryptable(batch, b.maxEncrypted) {
		return errTooLargeToEncrypt
	}
	s.encode(batch)
	return nil
}

// encrypt returns what is stored as the payload of it. What it has encrypted is valid until the
// next call.
func (s *pushState) encrypt(keys *envelope.Keys, it *PushItem) (stored []byte, encrypted bool) {
	if keys == nil || it.encrypted {
		return it.Payload, it.encrypted
	}
	s.secret = keys.AppendSeal(s.secret[:0], it.Payload)
	return s.secret, true
}

// AppendPayload appends a payload as it was pushed to dst, of one that is stored, and reports
// whether it was decrypted. That goes by its shape, whatever its queue asks for now: without
// the key it is shown as it is stored, and counted. encrypted is what its message says of it.
func (b *Broker) AppendPayload(dst, stored []byte, encrypted bool) (_ []byte, decrypted bool) {
	if b.o.Keys != nil {
		if opened, ok := b.o.Keys.AppendOpen(dst, stored, encrypted); ok {
			return opened, true
		}
	}
	if encrypted {
		b.undecrypted.Add(1)
	}
	return append(dst, stored...), false
}

// decrypt decrypts a dead letter that moves to a queue, which may ask for something else. One
// whose key is gone moves as it is.
func (b *Broker) decrypt(l *DeadLetter) {
	if payload, ok := b.AppendPayload(nil, l.Payload, l.Encrypted); ok {
		l.Payload, l.Encrypted = payload, false
	}
}

// mayStore refuses items of queues that ask for encryption, if that is required and there is
// no key. It is asked when something comes in: what is in the spool was taken, and waits for
// nothing.
func (b *Broker) mayStore(t Tenant, items []PushItem) error {
	if !b.o.EncryptionRequired || b.o.Keys != nil {
		return nil
	}
	for i := range items {
		if i > 0 && bytes.Equal(items[i].Queue, items[i-1].Queue) {
			continue
		}
		if q := b.queueBytes(t, items[i].Queue); q != nil && q.options.Load().EncryptionEnabled {
			return ErrNoKey
		}
	}
	return nil
}

// encryptable reports whether no payload of the batch is too large to be encrypted.
func (s *pushState) encryptable(batch *pushBatch, most int) bool {
	if batch.keys == nil {
		return true
	}
	for i := batch.first; i >= 0; i = s.next[i] {
		if !s.items[i].encrypted && len(s.items[i].Payload) > most {
			return false
		}
	}
	return true
}

// reportKeyMissing tells of what is configured and cannot be done.
func (b *Broker) reportKeyMissing(info *QueueInfo) {
	if !info.Options.EncryptionEnabled || b.o.Keys != nil {
		return
	}
	info.KeyMissing, info.PushesRefused = true, b.o.EncryptionRequired
	b.log.Warn().Str("queue", info.Name).Bool("pushes_refused", info.PushesRefused).
		Msg("encryption is asked for, and no encryption key is loaded")
}

// warnKeyMissing tells at the start how many queues miss a key: it was forgotten, most likely.
func (b *Broker) warnKeyMissing() {
	if b.o.Keys != nil {
		return
	}
	n := 0
	for _, q := range b.allQueues() {
		if q.options.Load().EncryptionEnabled {
			n++
		}
	}
	if n > 0 {
		b.log.Warn().Int("queues", n).Bool("pushes_refused", b.o.EncryptionRequired).
			Msg("queues ask for encryption, and no encryption key is loaded")
	}
}
