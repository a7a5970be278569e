package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// spooler drives a broker through maintenance and remembers what it was answered.
type spooler struct {
	b     *Broker
	n     int // messages sent
	sent  map[string]sentItem
	other Tenant
	on    bool // push maintenance, as answered
	asked bool // and as last asked for
}

type sentItem struct {
	tenant    Tenant
	partition string
	key       string // "": none
	seq       int
	result    PushResult
	answered  bool
}

func newSpooler(b *Broker) *spooler {
	return &spooler{b: b, sent: map[string]sentItem{}, other: uuid.MustParse("00000000-0000-0000-0000-0000000000aa")}
}

// push sends one request: each of what is "partition" for a message without a key, or
// "partition=key".
func (s *spooler) push(t Tenant, what ...string) error {
	items := make([]PushItem, len(what))
	payloads := make([]string, len(what))
	for i, text := range what {
		partition, key, _ := strings.Cut(text, "=")
		s.n++
		payloads[i] = fmt.Sprint(s.n)
		items[i] = PushItem{Queue: []byte("q"), Partition: []byte(partition), TransactionID: []byte(key), Payload: []byte(payloads[i])}
		s.sent[payloads[i]] = sentItem{tenant: t, partition: partition, key: key, seq: s.n}
	}
	results := make([]PushResult, len(items))
	if err := s.b.Push(t, items, []byte("sub"), results); err != nil {
		return err
	}
	for i, r := range results {
		it := s.sent[payloads[i]]
		it.answered, it.result = true, r
		s.sent[payloads[i]] = it
	}
	return nil
}

// switchTo turns push maintenance on or off.
func (s *spooler) switchTo(on bool) error {
	s.asked = on
	err := s.b.SetPushMaintenance(on)
	if err == nil {
		s.on = on
	}
	return err
}

// drainOne moves one batch of the spool while push maintenance holds the drain back.
func (s *spooler) drainOne() error {
	d := s.b.newDrain()
	if d == nil {
		return nil
	}
	v, _ := d.view()
	return errors.Join(d.move(v, min(d.cursor.next+1, v.hwm), true), d.settle())
}

func (s *spooler) checkpoint() error {
	_, err := s.b.checkpoint()
	return err
}

// finish turns push maintenance off and waits for the end of the drain.
func (s *spooler) finish() error {
	if err := s.switchTo(false); err != nil {
		return err
	}
	return s.awaitDrain()
}

func (s *spooler) awaitDrain() error {
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); s.b.maintenance.diverting.Load() || s.b.buffered() > 0; <-tick.C {
		if err := s.b.journal.Err(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("the drain does not end")
		}
	}
	return nil
}

// life is a life with maintenance in it, cut into steps that each reach the disk.
func (s *spooler) life() error {
	on := func() error { return s.switchTo(true) }
	steps := []func() error{
		func() error { return s.push(DefaultTenant, "a=stored", "b") },
		on,
		func() error { return s.push(DefaultTenant, "a=1", "b=1", "a=stored", "c") },
		func() error { return s.push(s.other, "a=1", "a=1", "a") },
		s.drainOne,
		s.checkpoint,
		func() error { return s.push(DefaultTenant, "a", "d=1", "a=2") },
		s.drainOne,
		func() error { return s.push(DefaultTenant, "a=stored") },
		s.drainOne,
		s.checkpoint,
		s.drainOne, // nothing but a duplicate
		func() error { return s.push(DefaultTenant, "a=3", "e", "e") },
		s.b.rewriteCatalog,
		s.b.rewriteOffsets,
		s.finish,
		func() error { return s.push(DefaultTenant, "a=4", "e") },
		s.checkpoint,
		on,
		func() error { return s.push(DefaultTenant, "a=5") },
		s.finish,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// check asserts that b has, once the spool is drained, what was answered, once each, with
// the ids that were announced and in the order of the pushes, and nothing else.
func (s *spooler) check(t *testing.T, what string, b *Broker) string {
	t.Helper()
	after := &spooler{b: b}
	if err := after.finish(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if b.spoolExists() || b.Maintenance() != (Maintenance{Healthy: true}) {
		t.Fatalf("%s: drained, and yet %+v", what, b.Maintenance())
	}
	var state strings.Builder
	keys := map[string]bool{} // tenant, partition and key of every message found
	found := map[string]bool{}
	for _, tenant := range []Tenant{DefaultTenant, s.other} {
		q := b.queue(tenant, "q")
		if q == nil {
			continue
		}
		for _, p := range q.snapshot() {
			s.checkPartition(t, what, b, p, found, keys, &state)
		}
	}
	for payload, it := range s.sent {
		if it.answered && !found[payload] && (it.key == "" || !keys[it.name()]) {
			t.Fatalf("%s: message %s of %s was answered %+v and is lost", what, payload, it.name(), it.result)
		}
	}
	return state.String()
}

func (it sentItem) name() string { return fmt.Sprint(it.tenant, it.partition, "=", it.key) }

func (s *spooler) checkPartition(t *testing.T, what string, b *Broker, p *partition, found, keys map[string]bool, state *strings.Builder) {
	t.Helper()
	p.mu.Lock()
	v := p.viewLocked()
	p.mu.Unlock()
	f := finder{b: b, v: v, limit: v.hwm}
	last := 0
	for o := v.start; o < v.hwm; o++ {
		m, ok, err := f.at(o)
		if err != nil || !ok {
			t.Fatalf("%s: partition %s offset %d: found %v, %v", what, p.name, o, ok, err)
		}
		payload := string(m.Payload)
		it, ok := s.sent[payload]
		if !ok || found[payload] || it.tenant != p.queue.tenant || it.partition != p.name || string(m.TransactionID) != it.key || string(m.ProducerSub) != "sub" {
			t.Fatalf("%s: phantom, duplicate or changed message %s in %s of %s", what, payload, p.name, p.queue.tenant)
		}
		if it.key != "" && keys[it.name()] {
			t.Fatalf("%s: %s is stored twice", what, it.name())
		}
		if it.seq < last {
			t.Fatalf("%s: partition %s has %d behind %d", what, p.name, it.seq, last)
		}
		if it.answered && it.result.MessageID != m.ID {
			t.Fatalf("%s: message %s has the id %s, announced as %+v", what, payload, m.ID, it.result)
		}
		last, found[payload], keys[it.name()] = it.seq, true, true
		fmt.Fprintf(state, "%s/%d=%s ", p.name, o, payload)
	}
}

// checkRecovery recovers twice, each time from a crash.
func (s *spooler) checkRecovery(t *testing.T, what string, crashed *faultfs.FS) {
	t.Helper()
	wantClean(t, what, crashed)
	b, err := openOn(crashed)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if on := b.Maintenance().Push; on != s.on && on != s.asked {
		t.Fatalf("%s: push maintenance is %t, was answered %t", what, on, s.on)
	}
	first := s.check(t, what, b)
	again := crashed.CrashStrict()
	closeBroker(t, b)
	b2, err := openOn(again)
	if err != nil {
		t.Fatalf("%s: second recovery: %v", what, err)
	}
	defer closeBroker(t, b2)
	if second := s.check(t, what+", second recovery", b2); second != first {
		t.Fatalf("%s: the first recovery found\n%s\nand the second\n%s", what, first, second)
	}
	after := newSpooler(b2)
	if err := after.push(DefaultTenant, "a=new"); err != nil {
		t.Fatalf("%s: the recovered broker takes no push: %v", what, err)
	}
}

// The power is cut at every call of the disk: before, under and after maintenance, in the
// middle of the drain. Each spooled message is there once.
func TestPowerCutUnderMaintenance(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		fsys := faultfs.New()
		b, err := openOn(fsys)
		if err != nil {
			t.Fatal(err)
		}
		s := newSpooler(b)
		base := fsys.Calls()
		fsys.FailAt(base+n, faultfs.Fault{Err: faultfs.EIO, Sticky: true})
		err = s.life()
		met := fsys.Calls() > base+n
		s.checkRecovery(t, fmt.Sprintf("call %d", n), fsys.CrashStrict())
		for seed := range uint64(3) {
			s.checkRecovery(t, fmt.Sprintf("call %d seed %d", n, seed), fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n)))))
		}
		closeBroker(t, b)
		if !met {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

// The power is cut while the background drains, steps of it done and others on their way,
// and checkpoints file what it moves.
func TestPowerCutDuringTheDrain(t *testing.T) {
	t.Parallel()
	for _, left := range []int64{5_999, 1_000, 0} {
		fsys := faultfs.New()
		b, err := openOn(fsys)
		if err != nil {
			t.Fatal(err)
		}
		s := newSpooler(b)
		if err := s.switchTo(true); err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			what := make([]string, 500)
			for j := range what {
				if what[j] = fmt.Sprintf("p%d", (i+j)%7); j%2 == 0 {
					what[j] = fmt.Sprintf("p%d=%d", (i+j)%7, i*len(what)+j)
				}
			}
			if err := s.push(DefaultTenant, what...); err != nil {
				t.Fatal(err)
			}
		}
		filing := make(chan error, 1)
		go func() {
			var err error
			for err == nil && b.buffered() > left {
				err = s.checkpoint()
			}
			filing <- err
		}()
		if err := s.switchTo(false); err != nil {
			t.Fatal(err)
		}
		for tick := time.NewTicker(20 * time.Microsecond); b.buffered() > left; {
			<-tick.C
		}
		what := fmt.Sprintf("%d left", left)
		strict, torn := fsys.CrashStrict(), fsys.Crash(rand.New(rand.NewPCG(3, uint64(left))))
		if err := <-filing; err != nil {
			t.Fatal(err)
		}
		closeBroker(t, b)
		s.checkRecovery(t, what, strict)
		s.checkRecovery(t, what+", torn", torn)
	}
}

// A full disk makes the drain wait; nothing is lost, pushes are refused as ever, and it
// goes on by itself.
func TestDrainWaitsForSpace(t *testing.T) {
	fsys := faultfs.New()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	s := newSpooler(b)
	if err := errors.Join(b.SetPushMaintenance(true), s.push(DefaultTenant, "a=1", "a=2")); err != nil {
		t.Fatal(err)
	}
	if c := b.Stats(); c.Queues != 0 || c.Partitions != 0 {
		t.Errorf("the spool counts as a queue: %+v", c)
	}
	b.o.DiskHighPercent = 85
	fsys.SetFree(14<<20, 100<<20)
	b.checkSpace()
	if err := s.push(DefaultTenant, "a=3"); !errors.Is(err, ErrStorageFull) {
		t.Fatalf("push into the spool of a full disk: %v", err)
	}
	if err := b.SetPushMaintenance(false); err != nil {
		t.Fatalf("switching on a full disk: %v", err)
	}
	if m := b.Maintenance(); m.Buffered != 2 || !m.Healthy {
		t.Fatalf("meanwhile: %+v", m)
	}
	// A start does not wait for space: only a broker that serves can make some.
	crashed := fsys.CrashStrict()
	crashed.SetFree(1, 100<<20)
	full, err := openOn(crashed)
	if err != nil {
		t.Fatal(err)
	}
	if m := full.Maintenance(); m.Buffered != 2 {
		t.Fatalf("after a start on a full disk: %+v", m)
	}
	closeBroker(t, full)

	fsys.SetFree(enoughFree, 100*enoughFree)
	if err := s.awaitDrain(); err != nil {
		t.Fatal(err)
	}
	s.check(t, "with space again", b)
	closeBroker(t, b)
}

// A spool larger than one step is drained in many, and before a start is over.
func TestLargeSpoolIsDrainedAtTheStart(t *testing.T) {
	fsys := faultfs.New()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	s := newSpooler(b)
	if err := b.SetPushMaintenance(true); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		what := make([]string, 500)
		for j := range what {
			what[j] = fmt.Sprintf("p%d=%d", (i+j)%5, i*len(what)+j)
		}
		if err := s.push(DefaultTenant, what...); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			if err := s.checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Off, and the process is gone before the drain begins: as the journal has it, the
	// switch is all there is.
	b.maintenance.mu.Lock()
	b.maintenance.push.Store(false)
	err = b.recordSwitchesLocked().Wait()
	b.maintenance.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	crashed := fsys.CrashStrict()
	b.maintenance.push.Store(true)
	closeBroker(t, b)
	b2, err := openOn(crashed)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b2)
	if m := b2.Maintenance(); m != (Maintenance{Healthy: true}) || b2.maintenance.diverting.Load() {
		t.Fatalf("after the start: %+v", m)
	}
	s.check(t, "after the start", b2)
}

// Where a queue keeps no window, the requests that were spooled know nothing of each
// other, as if they had been stored at once; an id repeated within one of them is one
// message.
func TestDrainWithoutAWindow(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	_, err := b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
		o.DedupWindowSeconds = 0
		return o, nil
	})
	s := newSpooler(b)
	err = errors.Join(err, s.switchTo(true), s.push(DefaultTenant, "p=1", "p=1", "p=2"), s.push(DefaultTenant, "p=1"), s.finish())
	if err != nil {
		t.Fatal(err)
	}
	if ids := idsOf(t, b, "q"); !slices.Equal(ids, []string{"1", "2", "1"}) {
		t.Errorf("drained %v", ids)
	}
}
