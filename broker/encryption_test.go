package broker

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker/envelope"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

func withKeys(o *Options) { o.Keys = envelope.New(envelope.Key{}) }

// encryption turns it on or off for a queue.
func (b *Broker) encryption(t *testing.T, queue string, on bool) QueueInfo {
	t.Helper()
	info, err := b.Configure(DefaultTenant, queue, func(o QueueOptions, _ bool) (QueueOptions, error) {
		o.EncryptionEnabled = on
		return o, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// storedIn returns the messages of a queue as they are stored, oldest first, by transaction id.
func storedIn(t *testing.T, b *Broker, queue string) map[string]Message {
	t.Helper()
	page, err := b.Messages(DefaultTenant, MessageFilter{Queue: queue, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Message{}
	for _, m := range page.Messages {
		found[string(m.TransactionID)] = m.Message
	}
	return found
}

// G-822: whoever has heard that a queue is configured finds everything that comes later as it
// is configured, also what was encoded before.
func TestG822ConfiguredMeanwhile(t *testing.T) {
	for _, on := range []bool{true, false} {
		b := mustOpen(t, faultfs.New(), withKeys)
		b.encryption(t, "q", !on)

		s := &pushState{byName: map[uint64]int32{}, leaders: map[uint64]int32{}, items: []PushItem{pushing("q", "push")}, results: make([]PushResult, 1)}
		s.group()
		q := b.queue(DefaultTenant, "q")
		p := b.ensurePartition(q, []byte("p"))
		batch := &s.batches[0]
		s.findLeaders(b, batch, p.number, true)
		if err := b.encodeFor(s, batch, q); err != nil {
			t.Fatal(err)
		}

		x := &pushState{byName: map[uint64]int32{}, leaders: map[uint64]int32{}, items: []PushItem{pushing("q", "transaction")}, results: make([]PushResult, 1)}
		tx := newTransaction(b, DefaultTenant, x)
		tx.preparePushes()
		tx.resolve()

		b.encryption(t, "q", on)

		tx.lock()
		if v := tx.decideLocked(); !v.stale {
			t.Errorf("encryption %v: the transaction would commit: %+v", on, v)
		}
		tx.unlock()
		b.reveal(tx.mustCommit(t).bundle)
		if done, err := b.appendEncoded(s, batch, q, p, 0); !done || err != nil {
			t.Fatal(done, err)
		}
		if err := s.last.Wait(); err != nil {
			t.Fatal(err)
		}
		b.publish(p, batch.end)
		found := storedIn(t, b, "q")
		for _, id := range []string{"push", "transaction"} {
			if m, ok := found[id]; !ok || m.Encrypted != on || (string(m.Payload) == "1") == on {
				t.Errorf("encryption %v, %s: %+v", on, id, m)
			}
		}
	}
}

// A payload that would not fit once it is encrypted is refused on every way, and changes
// nothing. In a queue that does not ask for encryption it is stored.
func TestTooLargeToEncrypt(t *testing.T) {
	b := mustOpen(t, faultfs.New(), withKeys)
	b.maxEncrypted = 10
	b.encryption(t, "q", true)
	large := pushing("q", "large")
	large.Payload = []byte(`"0123456789"`)
	results := make([]PushResult, 2)
	if err := b.Push(DefaultTenant, []PushItem{large, pushing("other", "small")}, nil, results); err != nil || results[0].Status != Failed || results[1].Status != Queued {
		t.Errorf("push: %+v, %v", results, err)
	}
	r, err := b.Transact(DefaultTenant, &Transaction{Pushes: []PushItem{large, pushing("other", "again")}})
	if err != nil || r.Rollback == nil || r.Rollback.Reason != RollbackTooLarge {
		t.Errorf("transaction: %+v, %v", r.Rollback, err)
	}
	plain := large
	plain.Queue = []byte("other")
	if err := b.Push(DefaultTenant, []PushItem{plain, pushing("q", "small")}, nil, results); err != nil || results[0].Status != Queued || results[1].Status != Queued {
		t.Errorf("push: %+v, %v", results, err)
	}
	if err := b.SetPushMaintenance(true); err != nil {
		t.Fatal(err)
	}
	if err := b.Push(DefaultTenant, []PushItem{pushing("q", "spooled"), large}, nil, results); !errors.Is(err, errTooLargeToEncrypt) || b.buffered() != 0 {
		t.Errorf("push under maintenance: %d spooled, %v", b.buffered(), err)
	}
	if q, other := len(storedIn(t, b, "q")), len(storedIn(t, b, "other")); q != 1 || other != 2 {
		t.Errorf("stored %d and %d messages", q, other)
	}
}

// What callers hand in is borrowed: none of it changes.
func TestEncryptionLeavesItems(t *testing.T) {
	b := mustOpen(t, faultfs.New(), withKeys)
	b.encryption(t, "q", true)
	items := []PushItem{pushing("q", "a"), pushing("q", "b"), pushing("q", "c")}
	results := make([]PushResult, 1)
	for range 2 { // the second time a duplicate
		if err := b.Push(DefaultTenant, items[:1], nil, results); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Transact(DefaultTenant, &Transaction{Pushes: items[1:2]}); err != nil {
		t.Fatal(err)
	}
	if err := b.SetPushMaintenance(true); err != nil {
		t.Fatal(err)
	}
	if err := b.Push(DefaultTenant, items[2:], nil, results); err != nil || results[0].Status != Buffered {
		t.Fatal(results, err)
	}
	for _, it := range items {
		if string(it.Payload) != "1" || it.encrypted {
			t.Errorf("%+v", it)
		}
	}
}

// G-824, M-520: who configures encryption without a key is told in the log, and so is who
// starts without one.
func TestG824Warnings(t *testing.T) {
	const configured, started = "encryption is asked for, and no encryption key is loaded", "queues ask for encryption, and no encryption key is loaded"
	fsys := faultfs.New()
	opened := func(keys bool, queues ...string) string {
		var log bytes.Buffer
		o := Options{FS: fsys, Dir: "data", DiskHighPercent: 100, Logger: zerolog.New(&log).Level(zerolog.WarnLevel)}
		if keys {
			withKeys(&o)
		}
		b, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range queues {
			if info := b.encryption(t, q, q != "plain"); info.KeyMissing != (!keys && q != "plain") || info.PushesRefused {
				t.Errorf("%s: %+v", q, info)
			}
		}
		closeBroker(t, b)
		return log.String()
	}
	if log := opened(false, "plain"); strings.Contains(log, "encryption key") {
		t.Errorf("without reason: %s", log)
	}
	if log := opened(false, "q", "r"); strings.Count(log, configured) != 2 || !strings.Contains(log, `"queue":"r"`) || strings.Contains(log, started) {
		t.Errorf("at the configuration: %s", log)
	}
	if log := opened(false); !strings.Contains(log, started) || !strings.Contains(log, `"queues":2`) {
		t.Errorf("at the start: %s", log)
	}
	if log := opened(true, "q"); strings.Contains(log, "encryption key") {
		t.Errorf("with a key: %s", log)
	}
}
