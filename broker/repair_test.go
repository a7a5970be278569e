package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/log/catalog"
	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/log/offsets"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// repairable reports whether a damaged file can be repaired: the catalogue and the places of
// consumer groups are in no other place.
func repairable(path string) bool {
	return !strings.HasPrefix(path, "data/catalog/") && !strings.HasPrefix(path, "data/offsets/")
}

func repairOptions(fsys *faultfs.FS) fsck.Options { return fsck.Options{FS: fsys, Dir: "data"} }

// checkRepair repairs a damaged directory. Afterwards Verify finds nothing, and a broker has
// and delivers every message that was not told as lost, as it was, and goes on.
func (w *witness) checkRepair(t *testing.T, what string, fsys *faultfs.FS) *fsck.RepairReport {
	t.Helper()
	r, err := fsck.Repair(repairOptions(fsys), true)
	if err != nil {
		t.Fatalf("%s: repair: %v", what, err)
	}
	if !r.Clean() {
		t.Fatalf("%s: not clean after %+v: %+v", what, r.Steps, r.After.Findings)
	}
	if len(r.Steps) > 0 {
		for i := range r.Steps {
			if kept := r.Steps[i].Kept; kept != "" {
				if _, err := fsys.List("data/" + kept); err == nil {
					continue
				}
				if _, err := fsys.Size("data/" + kept); err != nil {
					t.Fatalf("%s: step %+v: %v", what, r.Steps[i], err)
				}
			}
		}
		if _, err := fsys.Size("data/" + r.Kept + "/report.json"); err != nil {
			t.Fatalf("%s: report: %v", what, err)
		}
	}
	b, err := openOn(fsys)
	if err != nil {
		t.Fatalf("%s: open after repair %+v: %v", what, r.Steps, err)
	}
	w.checkLeft(t, what, b, r)
	after := newWitness(b)
	if err := after.push("new", "new0"); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := after.checkpoint(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if n := b.DamagedPartitions(); n != 0 {
		t.Errorf("%s: %d damaged partitions", what, n)
	}
	closeBroker(t, b)
	wantClean(t, what+", used after the repair", fsys)
	return r
}

// checkLeft holds what a broker delivers against what was stored and what is lost.
func (w *witness) checkLeft(t *testing.T, what string, b *Broker, r *fsck.RepairReport) {
	t.Helper()
	losses := r.Losses
	lost := func(partition string, offset int64) bool {
		for _, l := range losses {
			if l.Queue == "q" && l.Partition == partition && l.Offsets.From <= offset && offset < l.Offsets.To {
				return true
			}
			if strings.HasPrefix(l.Partition, "number ") {
				return true // its name was lost with it
			}
		}
		return false
	}
	found := map[string]bool{}
	for _, partition := range []string{"a", "b", "c"} {
		for more := true; more; {
			res, err := b.Pop(&PopRequest{
				Tenant: DefaultTenant, Queue: "q", Partition: partition, Pinned: true, Group: "fresh", Batch: 2, AutoAck: true,
			})
			if err != nil {
				t.Fatalf("%s: pop: %v", what, err)
			}
			more = len(res.Parts) > 0
			for i := range res.Parts {
				for m := range res.Parts[i].Messages() {
					id := string(m.TransactionID)
					if !w.sent[id] || found[id] || string(m.Payload) != `"`+partition+"/"+id+`"` {
						t.Fatalf("%s: phantom, duplicate or changed message %s %s", what, id, m.Payload)
					}
					found[id] = true
				}
			}
		}
	}
	untold := 0
	for id, at := range w.stored {
		switch told := lost(id[:1], at.Offset); {
		case told == !found[id]:
		case !told && len(r.Other) > 0 && strings.Contains(r.Other[0], "journal"):
			untold++ // the entry of the journal in which nothing can be read any more
		default:
			t.Fatalf("%s: %s at offset %d: found %t, told as lost %t; losses %+v", what, id, at.Offset, found[id], told, losses)
		}
	}
	if untold > 1 {
		t.Fatalf("%s: %d messages are lost and were not told; losses %+v", what, untold, losses)
	}
	for _, q := range b.allQueues() {
		for _, p := range q.snapshot() {
			if c := p.cursorLocked(q.group("fresh")); c != nil && c.committed != p.hwm-1 {
				t.Errorf("%s: the cursor in %s is at %d of %d", what, p.name, c.committed, p.hwm)
			}
		}
	}
	letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 100})
	if err != nil {
		t.Fatalf("%s: dead letters: %v", what, err)
	}
	for _, l := range letters {
		if len(l.Payload) == 0 {
			t.Errorf("%s: dead letter %s without payload", what, l.TransactionID)
		}
	}
}

// A bit of any file is flipped: what Repair makes of it is clean, and serves everything that
// it does not tell as lost. What it cannot repair it leaves as it is.
func TestRepairEveryFlip(t *testing.T) {
	t.Parallel()
	fsys, w := fullDirectory(t)
	repaired := 0
	for _, path := range files(t, fsys, "data") {
		size, err := fsys.Size(path)
		if err != nil {
			t.Fatal(err)
		}
		step := int64(11) // no divisor of any structure's length
		if !repairable(path) {
			step = 101
		}
		for at := int64(0); at < size; at += step {
			damaged := fsys.CrashStrict()
			flip(t, damaged, path, at, uint(at)%8)
			what := fmt.Sprintf("%s, bit %d of byte %d", path, at%8, at)
			if repairable(path) {
				r := w.checkRepair(t, what, damaged)
				if repaired++; !r.Before.Clean && len(r.Steps) == 0 {
					t.Errorf("%s: repaired without a step", what)
				}
				continue
			}
			calls := damaged.Calls()
			r, err := fsck.Repair(repairOptions(damaged), true)
			if err != nil || !r.Before.Clean && (r.Clean() || damaged.Calls() != calls) {
				t.Errorf("%s: %v, clean %t, %d changes", what, err, r.Clean(), damaged.Calls()-calls)
			}
		}
	}
	t.Logf("%d repairs", repaired)
}

// A file is gone, shorter, all zeros, or another's. What can be repaired is, what cannot is
// left as it is, and no broker starts on it, or it serves what is there.
func TestRepairFiles(t *testing.T) {
	t.Parallel()
	fsys, w := fullDirectory(t)
	repaired := 0
	harmed(t, fsys, func(what, path string, disk *faultfs.FS) {
		r, err := fsck.Verify(repairOptions(disk))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if r.Clean {
			return // as if it had never been written
		}
		for _, f := range r.Findings {
			if !repairable("data/"+f.File) && f.Severity == fsck.Error {
				calls := disk.Calls()
				if r, err := fsck.Repair(repairOptions(disk), true); err != nil || r.Clean() {
					t.Errorf("%s: %v, %d changes: %+v", what, err, disk.Calls()-calls, r.Steps)
				}
				return
			}
		}
		w.checkRepair(t, what, disk)
		repaired++
	})
	t.Logf("%d repairs", repaired)
}

// A repair that fails or loses its power at any call is completed by the next one.
func TestRepairIsRepeated(t *testing.T) {
	t.Parallel()
	fsys, w := fullDirectory(t)
	all := files(t, fsys, "data")
	damage := func(disk *faultfs.FS) {
		for _, path := range all {
			size, err := disk.Size(path)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case strings.HasPrefix(path, "data/segments/"):
				flip(t, disk, path, 100, 3)
				flip(t, disk, path, size-30, 2)
			case strings.HasPrefix(path, "data/dedup/"):
				flip(t, disk, path, 5, 1)
			}
		}
		// The first segment loses its file, and a chain its older part.
		if err := errors.Join(disk.Remove("data/segments/00000001.seg"), disk.SyncDir("data/segments")); err != nil {
			t.Fatal(err)
		}
	}
	whole := fsys.CrashStrict()
	damage(whole)
	want := w.checkRepair(t, "without a fault", whole)
	if want.Lost == 0 {
		t.Fatalf("nothing is lost: %+v", want)
	}
	for n := 0; ; n++ {
		disk := fsys.CrashStrict()
		damage(disk)
		base := disk.Calls()
		disk.FailAt(base+n, faultfs.Fault{Err: faultfs.EIO, Sticky: true})
		_, err := fsck.Repair(repairOptions(disk), true)
		if disk.Calls() <= base+n {
			if err != nil || n < 20 {
				t.Fatalf("%d calls: %v", n, err)
			}
			return
		}
		if err == nil {
			t.Fatalf("call %d failed, and the repair did not say so", n)
		}
		disk.FailAt(-1, faultfs.Fault{})
		for seed := range uint64(2) {
			what := fmt.Sprintf("call %d seed %d", n, seed)
			after := disk.Crash(rand.New(rand.NewPCG(seed, uint64(n))))
			if r, err := fsck.Repair(repairOptions(after), true); err != nil || !r.Clean() {
				t.Fatalf("%s: %v", what, err)
			}
			wantTold(t, what, after, want)
			w.checkKept(t, what, after, want)
		}
	}
}

// wantTold looks for what is lost in the reports that one or several repairs have left.
func wantTold(t *testing.T, what string, fsys *faultfs.FS, want *fsck.RepairReport) {
	t.Helper()
	repairs, err := fsys.List("data/repairs")
	if err != nil {
		t.Fatal(err)
	}
	var told []fsck.Loss
	for _, name := range repairs {
		b, err := read(fsys, "data/repairs/"+name+"/report.json")
		var r fsck.RepairReport
		if err == nil && json.Unmarshal(b, &r) == nil {
			told = append(told, r.Losses...)
		}
	}
	for _, l := range want.Losses {
		if !slices.Contains(told, l) {
			t.Errorf("%s: no report tells of %+v, only %+v", what, l, told)
		}
	}
}

// checkKept opens a repaired directory: it holds what another repair of the same damage has
// left.
func (w *witness) checkKept(t *testing.T, what string, fsys *faultfs.FS, want *fsck.RepairReport) {
	t.Helper()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer closeBroker(t, b)
	w.checkLeft(t, what, b, want)
}

// A cursor that stands where no message is yet would pass over what is pushed later. Repair
// puts it to the end.
func TestRepairCursor(t *testing.T) {
	fsys, _ := fullDirectory(t)
	state := map[string]record.Cursor{}
	var directory uint64
	home, err := catalog.Open(catalog.Options{FS: fsys, Dir: "data/catalog"}, func(k record.Kind, body []byte) error {
		if k == record.KindMeta {
			m, err := record.DecodeMeta(body)
			directory = m.Directory
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := home.Close(); err != nil {
		t.Fatal(err)
	}
	cursors, err := offsets.Open(offsets.Options{FS: fsys, Dir: "data/offsets", LogID: directory}, func(c record.Cursor) {
		state[fmt.Sprint(c.Partition)] = c
	})
	if err != nil {
		t.Fatal(err)
	}
	ahead := state["2"] // of b, which the journal says nothing about
	ahead.Committed = 1000
	if err := errors.Join(cursors.Commit([]record.Cursor{ahead}), cursors.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := fsck.Verify(repairOptions(fsys))
	if err != nil || r.Errors != 1 || r.Findings[0].Code != fsck.CursorInvalid || r.Findings[0].Partition != "b" {
		t.Fatalf("%v, %+v", err, r)
	}
	done, err := fsck.Repair(repairOptions(fsys), true)
	if err != nil || !done.Clean() || len(done.Other) != 1 || done.Lost != 0 {
		t.Fatalf("%v, %+v", err, done)
	}
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	w := newWitness(b)
	if err := w.push("b", "b9"); err != nil {
		t.Fatal(err)
	}
	if ids, _ := popAll(t, b, PopRequest{Partition: "b", Pinned: true, Group: "g", Batch: 10}); len(ids) != 1 || ids[0] != "b9" {
		t.Errorf("popped %v", ids)
	}
}

// A segment from the middle of a partition is gone: what is older and what is newer is
// joined over it.
func TestRepairMiddle(t *testing.T) {
	t.Parallel()
	fsys := faultfs.New()
	b, err := Open(Options{
		FS: fsys, Dir: "data", Logger: zerolog.Nop(), SegmentBytes: 400,
		CheckpointBytes: 1 << 40, CheckpointEvery: 24 * time.Hour, DiskHighPercent: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newWitness(b)
	for i := range 8 {
		if err := errors.Join(w.push("a", fmt.Sprint("a", i)), w.push("b", fmt.Sprint("b", i)), w.checkpoint()); err != nil {
			t.Fatal(err)
		}
	}
	closeBroker(t, b)
	segments := files(t, fsys, "data/segments")
	if len(segments) < 4 {
		t.Fatalf("segments %v", segments)
	}
	for _, path := range segments {
		disk := fsys.CrashStrict()
		if err := disk.Remove(path); err != nil {
			t.Fatal(err)
		}
		r := w.checkRepair(t, path, disk)
		if r.Lost == 0 || r.Lost >= 16 || len(r.Losses) != 2 {
			t.Errorf("%s: lost %+v", path, r.Losses)
		}
	}
}

// What the catalogue says of a partition and what segments hold are held against each other.
func TestVerifyChains(t *testing.T) {
	t.Parallel()
	fsys, _ := fullDirectory(t)
	for name, change := range map[string]func(d *record.Filed){
		"ends later":         func(d *record.Filed) { d.End++ },
		"ends earlier":       func(d *record.Filed) { d.End-- },
		"newer":              func(d *record.Filed) { d.LastTimestampMs++ },
		"points elsewhere":   func(d *record.Filed) { d.Position += 64 },
		"points nowhere":     func(d *record.Filed) { d.Segment, d.Position = 0, 0 },
		"in another segment": func(d *record.Filed) { d.Segment = 77 },
		"starts before":      func(d *record.Filed) { d.Start-- },
	} {
		disk := fsys.CrashStrict()
		var filed record.Filed
		home, err := catalog.Open(catalog.Options{FS: disk, Dir: "data/catalog"}, func(k record.Kind, body []byte) (err error) {
			if k == record.KindFiled && filed.Partition != 1 {
				filed, err = record.DecodeFiled(body)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		change(&filed)
		err = home.Commit(func(emit func([]byte) ([]byte, error)) error {
			_, err := emit(record.AppendFiled(nil, &filed))
			return err
		})
		if err = errors.Join(err, home.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := fsck.Verify(repairOptions(disk))
		if err != nil || r.Clean {
			t.Errorf("%s: %v, clean %t", name, err, r.Clean)
		}
	}
}
