package broker

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

func transactionIDs(messages []StoredMessage) string {
	var ids []string
	for i := range messages {
		ids = append(ids, messages[i].transactionID())
	}
	return strings.Join(ids, " ")
}

// A page of a queue of many partitions reads those that have its messages.
func TestMessagesReadsFewPartitions(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	w := newWitness(b)
	for i := range 500 {
		if err := w.push(fmt.Sprint("p", i), fmt.Sprint("m", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.checkpoint(); err != nil {
		t.Fatal(err)
	}
	before := fsys.Calls()
	page, err := b.Messages(DefaultTenant, MessageFilter{Limit: 5})
	if err != nil || len(page.Messages) != 5 || page.Truncated {
		t.Fatalf("%d messages, %t, %v", len(page.Messages), page.Truncated, err)
	}
	if calls := fsys.Calls() - before; calls > 60 {
		t.Errorf("%d calls of the disk for a page of 5", calls)
	}
}

// browser is a call of Messages that may do no more than so many steps.
func browser(b *Broker, f *MessageFilter, steps int) *browse {
	br := &browse{b: b, f: f, queues: b.browsedQueues(DefaultTenant, f), steps: steps, bytes: browseBytes, limit: 1000, skip: f.Offset}
	br.setTimes()
	return br
}

// A call that has done enough says that it stopped.
func TestMessagesStops(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	w := newWitness(b)
	for i := range 100 {
		if err := w.push(fmt.Sprint("p", i%10), fmt.Sprint("m", i)); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := w.consume(fmt.Sprint("p", i%10), 1, AckDeadLetter); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, f := range []MessageFilter{{}, {Offset: 95}, {Status: StatusPending}, {Status: StatusDeadLetter}, {Status: StatusDeadLetter, Offset: 45}} {
		whole := browser(b, &f, browseSteps)
		if err := whole.selectMessages(); err != nil || whole.cut || len(whole.found) == 0 {
			t.Fatalf("%+v: %d found, cut %t, %v", f, len(whole.found), whole.cut, err)
		}
		br := browser(b, &f, 40)
		if err := br.selectMessages(); err != nil || !br.cut || len(br.found) >= len(whole.found) {
			t.Errorf("%+v: %d found, cut %t, %v", f, len(br.found), br.cut, err)
		}
	}
}

// A page ends before its answer becomes too large, and the next one goes on.
func TestMessagesAnswerBytes(t *testing.T) {
	b := mustOpen(t, faultfs.New(), func(o *Options) { o.MaxAnswerBytes = 3000 })
	w := newWitness(b)
	if err := w.push("p", strings.Repeat("a", 900), strings.Repeat("b", 900), strings.Repeat("c", 900)); err != nil {
		t.Fatal(err)
	}
	for offset := range 3 {
		page, err := b.Messages(DefaultTenant, MessageFilter{Limit: 10, Offset: offset})
		if err != nil || len(page.Messages) != 1 || page.Truncated != (offset < 2) || page.Messages[0].TransactionID[0] != "cba"[offset] {
			t.Errorf("offset %d: %d messages, truncated %t, %v", offset, len(page.Messages), page.Truncated, err)
		}
	}
}

// A damaged partition is left out, and the answer says so.
func TestMessagesPassDamage(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	w := newWitness(b)
	if err := errors.Join(w.push("a", "a0"), w.push("b", "b0"), w.push("c", "c0")); err != nil {
		t.Fatal(err)
	}
	q := b.queue(DefaultTenant, "q")
	p := q.partition("b")
	p.tail[0] = append([]byte(nil), p.tail[0]...)
	p.tail[0][20] ^= 1
	q.partition("c").damaged = true
	for range 2 {
		page, err := b.Messages(DefaultTenant, MessageFilter{Limit: 10})
		if err != nil || !page.Truncated || transactionIDs(page.Messages) != "a0" {
			t.Fatalf("%q, truncated %t, %v", transactionIDs(page.Messages), page.Truncated, err)
		}
		if !p.damaged {
			t.Fatal("the partition is in service")
		}
	}
}

// What retention takes while a list is made is listed without its payload.
func TestMessagesGoneMeanwhile(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	w := newWitness(b)
	if err := w.push("p", "a", "b"); err != nil {
		t.Fatal(err)
	}
	br := browser(b, &MessageFilter{}, browseSteps)
	if err := br.selectMessages(); err != nil {
		t.Fatal(err)
	}
	b.queue(DefaultTenant, "q").partition("p").start = 1
	messages, err := br.read()
	if err != nil || len(messages) != 2 || !messages[0].Available {
		t.Fatalf("%+v, %v", messages, err)
	}
	if m := messages[1]; m.Available || m.ID != uuid.Nil || m.Payload != nil || m.CreatedAtMs == 0 || m.Partition != "p" {
		t.Errorf("%+v", m)
	}
}

// A message that is no longer stored is described from its dead letter.
func TestMessageOfDeadLetter(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	w := newWitness(b)
	if err := errors.Join(w.push("p", "a", "b"), w.consume("p", 1, AckDeadLetter)); err != nil {
		t.Fatal(err)
	}
	p := b.queue(DefaultTenant, "q").partition("p")
	id := partitionID(b.directory, p.number)
	stored, err := b.Message(DefaultTenant, id, "a")
	if err != nil {
		t.Fatal(err)
	}
	p.start = 1
	buried, err := b.Message(DefaultTenant, id, "a")
	if err != nil || buried.Error != "by test" || !buried.Dead || buried.ID != stored.ID || string(buried.Payload) != string(stored.Payload) ||
		buried.CreatedAtMs != stored.CreatedAtMs || len(buried.Consumers) != 1 || !buried.Consumers[0].Done {
		t.Errorf("%+v, %v\nwas stored as %+v", buried, err, stored)
	}
	page, err := b.Messages(DefaultTenant, MessageFilter{Limit: 10, Status: StatusDeadLetter})
	if err != nil || len(page.Messages) > 0 {
		t.Errorf("listed %+v, %v", page.Messages, err)
	}
	if _, err := b.Message(uuid.New(), id, "a"); !errors.Is(err, ErrMessageNotFound) {
		t.Errorf("of another tenant: %v", err)
	}
}

// G-307: a transaction id that the index has forgotten is searched for, not without end.
func TestMessageScan(t *testing.T) {
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	b := mustOpen(t, faultfs.New(), func(o *Options) { o.Now = clock })
	w := newWitness(b)
	push := func(n int, prefix string) {
		for i := range n {
			if err := w.push("p", fmt.Sprint(prefix, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	push(30, "old")
	for i := range 4 { // so that the index forgets
		if _, err := b.checkpoint(); err != nil {
			t.Fatal(err)
		}
		ahead.Add(int64(3 * time.Hour))
		push(3, fmt.Sprint("then", i, "-"))
	}
	p := b.queue(DefaultTenant, "q").partition("p")
	if found, err := b.ids.Lookup(b.ids.Hash(p.number, []byte("old3")), nil); len(found) > 0 || err != nil {
		t.Fatalf("the index still has %v, %v", found, err)
	}
	id := partitionID(b.directory, p.number)
	for _, name := range []string{"old0", "old29"} {
		if d, err := b.Message(DefaultTenant, id, name); err != nil || d.transactionID() != name {
			t.Errorf("%s: %+v, %v", name, d.Message, err)
		}
	}
	if _, err := b.Message(DefaultTenant, id, "old30"); !errors.Is(err, ErrMessageNotFound) {
		t.Errorf("what never was: %v", err)
	}
	push(scanBatches, "more")
	ahead.Add(int64(3 * time.Hour))
	if _, err := b.Message(DefaultTenant, id, "old3"); !errors.Is(err, ErrMessageNotFound) {
		t.Errorf("beyond the bound: %v", err)
	}
}

// A message whose id does not tell its offset is found by its transaction id.
func TestDeadLetterOfForeignID(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	w := newWitness(b)
	if err := w.push("p", "a", "b"); err != nil {
		t.Fatal(err)
	}
	p := b.queue(DefaultTenant, "q").partition("p")
	raw := segment.AppendMessage(nil, &segment.Message{TransactionID: []byte("x"), Payload: []byte("1"), ID: b.newID(1)})
	batch := segment.AppendBatch(nil, &segment.Header{Count: 1}, raw)
	p.mu.Lock()
	stamp := p.lastMs
	segment.Seal(batch, p.number, p.end, stamp, b.newID(stamp))
	p.growLocked(batch, 1, stamp)
	p.hwm = p.end
	b.ids.Add(b.ids.Hash(p.number, []byte("x")), p.end-1, stamp)
	p.mu.Unlock()
	res, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Partition: "p", Pinned: true, Group: "g", Batch: 3})
	if err != nil {
		t.Fatal(err)
	}
	acks := []Ack{{TransactionID: "x", PartitionID: res.Parts[0].PartitionID.String(), LeaseID: res.LeaseID.String(), Status: AckDeadLetter}}
	results := make([]AckResult, 1)
	if err := b.Acknowledge(DefaultTenant, "g", acks, results); err != nil || !results[0].DeadLetter {
		t.Fatalf("%+v, %v", results[0], err)
	}
	page, err := b.Messages(DefaultTenant, MessageFilter{Limit: 10, Status: StatusDeadLetter})
	if err != nil || transactionIDs(page.Messages) != "x" || page.Messages[0].Offset != 2 {
		t.Errorf("%+v, %v", page.Messages, err)
	}
}
