package broker

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/skepmq/skep/log/catalog"
	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// allBytes returns the bytes of every file below data, by path.
func allBytes(t *testing.T, fsys *faultfs.FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range files(t, fsys, "data") {
		b, err := read(fsys, path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(b)
	}
	return all
}

// wantRefused has a directory that no repair can make good left as it is.
func wantRefused(t *testing.T, what string, fsys *faultfs.FS) {
	t.Helper()
	before := allBytes(t, fsys)
	r, err := fsck.Repair(repairOptions(fsys), true)
	if err != nil || r.Clean() || len(r.Steps) > 0 {
		t.Errorf("%s: %v, clean %t, steps %+v", what, err, r.Clean(), r.Steps)
	}
	if after := allBytes(t, fsys); !maps.Equal(before, after) {
		t.Errorf("%s: the directory was changed", what)
	}
}

// manyCheckpoints is the disk of a broker that has made three checkpoints, each with a new
// segment, and the lengths of its catalogue after each.
func manyCheckpoints(t *testing.T) (disk *faultfs.FS, ends []int64) {
	t.Helper()
	fsys := faultfs.New()
	b := mustOpen(t, fsys, func(o *Options) { o.SegmentBytes = 4 << 10 })
	w := newWitness(b)
	for _, id := range []string{"a", "b", "c"} {
		if err := errors.Join(w.push(id, id+strings.Repeat("0", 3000)), w.consume(id, 1, AckCompleted), w.checkpoint()); err != nil {
			t.Fatal(err)
		}
		size, err := fsys.Size(catalogFile)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, size)
	}
	disk = fsys.CrashStrict()
	closeBroker(t, b)
	return disk, ends
}

const (
	catalogFile = "data/catalog/00000000000000000001/00000000000000000001"
	offsetsFile = "data/offsets/00000000000000000001/00000000000000000001"
)

// What a catalogue without its end does not know are segments that hold messages: a repair
// that goes by it would take their numbers, give up what is in them, or let a broker start
// that removes them.
func TestRepairWithoutCatalogue(t *testing.T) {
	t.Parallel()
	disk, ends := manyCheckpoints(t)
	harm := func(what, path string, at int64, cut bool) {
		fsys := disk.CrashStrict()
		// Something that could be repaired, too.
		flip(t, fsys, "data/segments/00000001.seg", 100, 3)
		if cut {
			f, err := fsys.OpenReadWrite(path)
			if err == nil {
				err = errors.Join(f.Truncate(at), f.Sync(), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		} else {
			flip(t, fsys, path, at, uint(at)%8)
		}
		wantRefused(t, fmt.Sprintf("%s at %d", what, at), fsys)
	}
	for at := ends[0]; at < ends[2]; at += 13 {
		harm("catalogue cut", catalogFile, at, true)
		harm("catalogue flipped", catalogFile, at, false)
	}
	harm("catalogue cut", catalogFile, ends[1], true)
	harm("offsets cut", offsetsFile, 0, true)
	harm("offsets flipped", offsetsFile, 60, false)
}

// A newer version may have written what this one does not know: that is no damage to repair.
func TestRepairOfNewerVersion(t *testing.T) {
	t.Parallel()
	fsys, _ := manyCheckpoints(t)
	flip(t, fsys, "data/segments/00000001.seg", 100, 3)
	home, err := catalog.Open(catalog.Options{FS: fsys, Dir: "data/catalog"}, func(record.Kind, []byte) error { return nil })
	if err == nil {
		err = errors.Join(home.Commit(func(emit func([]byte) ([]byte, error)) error {
			frame := record.AppendQueueDeleted(nil, 77)
			frame[0] = 0xee
			_, err := emit(frame)
			return err
		}), home.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := fsck.Verify(repairOptions(fsys))
	if err != nil || !strings.Contains(fmt.Sprint(r.Findings), "newer version") {
		t.Errorf("verify: %v, %+v", err, r.Findings)
	}
	wantRefused(t, "unknown kind", fsys)
}

// A directory restored without its lock file is locked all the same while it is repaired.
func TestRepairLocks(t *testing.T) {
	t.Parallel()
	fsys, _ := manyCheckpoints(t)
	flip(t, fsys, "data/segments/00000001.seg", 100, 3)
	if err := fsys.Remove("data/LOCK"); err != nil {
		t.Fatal(err)
	}
	o, looks := repairOptions(fsys), 0
	o.Progress = func(done, total int64) {
		if looks++; looks > 1 {
			return
		}
		if l, err := fsys.Lock("data/LOCK"); !errors.Is(err, vfs.ErrLocked) {
			t.Errorf("a broker may start under the repair: %v, %v", l, err)
		}
	}
	if r, err := fsck.Repair(o, true); err != nil || !r.Clean() || looks == 0 {
		t.Errorf("repair: %v, clean %t, %d looks", err, r.Clean(), looks)
	}
}

// A segment that is gone was before any number of partitions in the next one. Its index is
// written, and kept, once for all of them.
func TestRepairOfManyPartitions(t *testing.T) {
	t.Parallel()
	const partitions = 50
	fsys := faultfs.New()
	b := mustOpen(t, fsys, func(o *Options) { o.SegmentBytes = 8 << 10 })
	w := newWitness(b)
	for round := range 3 {
		for i := range partitions {
			if err := w.push(fmt.Sprintf("p%d", i), fmt.Sprintf("%d-%d-%s", i, round, strings.Repeat("0", 200))); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	closeBroker(t, b)
	if err := fsys.Remove("data/segments/00000001.seg"); err != nil {
		t.Fatal(err)
	}
	r, err := fsck.Repair(repairOptions(fsys), true)
	if err != nil || !r.Clean() {
		t.Fatalf("%v, %+v", err, r)
	}
	if r.Lost == 0 || len(r.Steps) > 10 {
		t.Errorf("%d messages lost, %d steps", r.Lost, len(r.Steps))
	}
	b = mustOpen(t, fsys, nil)
	defer closeBroker(t, b)
	left := int64(0)
	for {
		res, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "fresh", Batch: 10, AutoAck: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Parts) == 0 {
			break
		}
		for i := range res.Parts {
			for range res.Parts[i].Messages() {
				left++
			}
		}
	}
	if left+r.Lost != 3*partitions {
		t.Errorf("%d of %d delivered, %d lost", left, 3*partitions, r.Lost)
	}
}

// What was deleted before the place where the journal is cut is not lost by that.
func TestRepairCountsNoDeleted(t *testing.T) {
	t.Parallel()
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	w := newWitness(b)
	if err := w.push("a", "a0", "a1"); err != nil {
		t.Fatal(err)
	}
	q, ticket := b.deleteQueue(DefaultTenant, "q") // DeleteQueue asks for a checkpoint
	if err := ticket.Wait(); err != nil {
		t.Fatal(err)
	}
	b.forgetPartitions(q)
	if err := w.push("b", "b0"); err != nil {
		t.Fatal(err)
	}
	logs := files(t, fsys, "data/journal")
	log := logs[len(logs)-1]
	at, err := fsys.Size(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.push("b", "b1"), w.push("b", "b2"), w.push("c", "c0")); err != nil {
		t.Fatal(err)
	}
	closeBroker(t, b)
	flip(t, fsys, log, at+20, 3)
	r, err := fsck.Repair(repairOptions(fsys), true)
	if err != nil || !r.Clean() {
		t.Fatalf("%v, %+v", err, r)
	}
	if r.Lost != 3 || len(r.Losses) != 2 || r.Losses[1].Partition != "b" || r.Losses[1].Offsets != (fsck.Offsets{From: 1, To: 3}) ||
		!strings.HasSuffix(r.Losses[0].Partition, "its name is lost") {
		t.Errorf("%d lost: %+v", r.Lost, r.Losses)
	}
}
