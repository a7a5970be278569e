package broker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// rewrittenDirectory is the disk of a closed broker in which what is left of segments was
// rewritten, that of dead letters as well. The catalogue, and an entry in a segment that was
// not rewritten, point into segments that are gone.
func rewrittenDirectory(t *testing.T) *holder {
	t.Helper()
	k := newHolder()
	if err := k.open(); err != nil {
		t.Fatal(err)
	}
	if err := k.do(
		k.prelude, k.purge,
		k.hold("slow", "s2"), k.hold("other", "o0"), k.hold("other", "o1"), k.hold("other", "o2"), k.hold("other", "o3"),
		k.checkpoint, k.cycle, k.cycle, k.checkpoint,
		func() error { return k.pushTo("d", "l", "l5", 400) }, func() error { return k.bury("stays", "l5") }, k.checkpoint,
	); err != nil {
		t.Fatal(err)
	}
	live := map[uint32]bool{}
	for _, s := range k.b.store.Segments() {
		live[s.ID] = true
	}
	through := 0
	for id := range live {
		if _, err := k.b.store.Extents(id, func(e *index.Located) bool {
			if !e.Prev.IsZero() && !live[e.Prev.Segment] && e.Partition == k.b.queue(DefaultTenant, "q").partition("slow").number {
				through++
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	if through == 0 || k.b.Stats().RewrittenSegments < 2 {
		t.Fatalf("%d entries point into what is gone; %+v", through, k.b.Stats())
	}
	k.letters["l5"] = true
	closeBroker(t, k.b)
	return k
}

// rewrittenLetters is the name of the segment in which dead letters were left out.
func rewrittenLetters(b *Broker) string {
	for _, s := range b.store.Segments() {
		if s.Partition != 0 && len(s.Replaces) > 0 {
			return segment.FileName(s.ID)
		}
	}
	return "none"
}

// checkRepair repairs a damaged directory. Afterwards Verify finds nothing, and a broker has
// everything that was held and is not told as lost, and goes on, rewriting what it likes.
func (k *holder) checkRepair(t *testing.T, what string, fsys *faultfs.FS) {
	t.Helper()
	r, err := fsck.Repair(fsck.Options{FS: fsys, Dir: "data", Now: k.now}, true)
	if err != nil || !r.Clean() {
		t.Fatalf("%s: %v, not clean after %+v: %+v", what, err, r.Steps, r.After.Findings)
	}
	onlyIndexes := !slices.ContainsFunc(r.Before.Findings, func(f fsck.Finding) bool {
		return f.Severity == fsck.Error && f.Code != fsck.IndexDamaged && f.Code != fsck.ChainBroken && f.Code != fsck.DeadLetterInvalid
	})
	// A newer segment of dead letters is no reason to mark what was left out of an older one.
	for _, l := range r.Losses {
		if l.Partition == "(dead letters)" && l.Messages > 1 && !strings.Contains(what, rewrittenLetters(k.b)) {
			t.Fatalf("%s: %+v", what, l)
		}
	}
	if onlyIndexes && (r.Lost > 0 || len(r.Other) > 0) {
		t.Fatalf("%s: %d messages are lost with an index: %+v %v", what, r.Lost, r.Losses, r.Other)
	}
	c := &holder{start: k.start, fs: fsys}
	c.ahead.Store(k.ahead.Load())
	if err := c.open(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	k.checkLeft(t, what, c.b, r)
	for _, s := range c.b.store.Segments() {
		if _, err := c.b.store.Extents(s.ID, func(e *index.Located) bool {
			if p := c.b.partitions.get(e.Partition); p != nil && p.hidden && s.Partition == 0 {
				t.Errorf("%s: dead letters in a segment of others, %08x", what, s.ID)
			}
			return true
		}); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for range 4 {
		for _, q := range c.b.allQueues() {
			q.aging.loose.Store(true)
		}
		if err := c.do(c.consumed(4), c.cycle, c.checkpoint); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	k.checkLeft(t, what+", later", c.b, r)
	if n := c.b.DamagedPartitions(); n != 0 {
		t.Errorf("%s: %d damaged partitions", what, n)
	}
	closeBroker(t, c.b)
	wantCleanAt(t, what+", used after the repair", fsys, c.now)
}

// checkLeft holds what there is against what was held and what is lost.
func (k *holder) checkLeft(t *testing.T, what string, b *Broker, r *fsck.RepairReport) {
	t.Helper()
	found := map[string]bool{}
	for _, q := range b.allQueues() {
		for _, p := range q.snapshot() {
			p.mu.Lock()
			v := p.viewLocked()
			p.mu.Unlock()
			next := v.start
			err := b.batches(v, v.start, func(h *segment.Header, batch []byte) bool {
				if h.BaseOffset > next || h.EndOffset() <= next {
					t.Fatalf("%s: partition %q: batch at %d, want %d", what, p.name, h.BaseOffset, next)
				}
				if !h.Lost() {
					s, err := newSpan(h, batch, next, int(h.Count))
					if err != nil {
						t.Fatalf("%s: partition %q: %v", what, p.name, err)
					}
					for m := range s.messages() {
						found[string(m.TransactionID)] = true
					}
				}
				next = h.EndOffset()
				return true
			})
			if err != nil || next != v.hwm {
				t.Fatalf("%s: partition %q read up to %d of %d: %v", what, p.name, next, v.hwm, err)
			}
		}
	}
	for _, id := range k.held {
		partition, offset := map[byte]string{'s': "slow", 'o': "other"}[id[0]], int64(id[1]-'0')
		lost := slices.ContainsFunc(r.Losses, func(l fsck.Loss) bool {
			return l.Partition == partition && l.Offsets.From <= offset && offset < l.Offsets.To
		})
		if lost == found[id] {
			t.Fatalf("%s: %s: found %t, told as lost %t; losses %+v", what, id, found[id], lost, r.Losses)
		}
	}
	letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Queue: "d", Group: "stays", Limit: 100})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	there := map[string]bool{}
	for _, l := range letters {
		if l.Damaged {
			t.Fatalf("%s: dead letter %s cannot be read", what, l.TransactionID)
		}
		there[l.TransactionID] = true
	}
	told := strings.Join(r.Other, " ")
	for id := range k.letters {
		if lost := strings.Contains(told, "dead letter of transaction id "+strconv.Quote(id)); lost == there[id] {
			t.Fatalf("%s: dead letter %s: found %t, told as lost %t; %s", what, id, there[id], lost, told)
		}
	}
}

// A bit of a segment is flipped, or all of its file is harmed, where segments were rewritten:
// chains that lead through what is gone are followed, and stay good.
func TestRepairRewritten(t *testing.T) {
	t.Parallel()
	k := rewrittenDirectory(t)
	wantCleanAt(t, "whole", k.fs, k.now)
	k.checkRepair(t, "whole", k.fs.CrashStrict())
	repaired := 0
	segments := files(t, k.fs, "data/segments")
	for _, path := range segments {
		size, err := k.fs.Size(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(0); at < size; at += 61 {
			damaged := k.fs.CrashStrict()
			flip(t, damaged, path, at, uint(at)%8)
			k.checkRepair(t, fmt.Sprintf("%s, bit %d of byte %d", path, at%8, at), damaged)
			repaired++
		}
	}
	harmed(t, k.fs, func(what, path string, disk *faultfs.FS) {
		// The last one changes places with a file that cannot be repaired.
		if strings.HasPrefix(path, "data/segments/") && !(strings.HasSuffix(what, "swapped") && path == segments[len(segments)-1]) {
			k.checkRepair(t, what, disk)
			repaired++
		}
	})
	t.Logf("%d repairs", repaired)
}
