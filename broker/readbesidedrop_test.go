package broker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// slowFS calls during, once, while the first batch of a segment is being read.
type slowFS struct {
	*faultfs.FS
	segment string
	during  func()
}

type slowFile struct {
	vfs.File
	fs *slowFS
}

func (f *slowFS) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	if err == nil && strings.HasSuffix(name, f.segment) {
		file = &slowFile{file, f}
	}
	return file, err
}

func (f *slowFile) ReadAt(p []byte, at int64) (int, error) {
	if during := f.fs.during; during != nil && at == segment.FileHeaderLen {
		f.fs.during = nil
		during()
	}
	return f.File.ReadAt(p, at)
}

// Segments go while a pop reads them: it must not lease what is left as if it were what
// came next, or acknowledgements would go to the wrong offsets.
func TestPopReadsBesideADrop(t *testing.T) {
	for _, name := range []string{"lease", "autoAck"} {
		t.Run(name, func(t *testing.T) { popBesideADrop(t, name == "autoAck") })
	}
}

func popBesideADrop(t *testing.T, auto bool) {
	k := newKeeper()
	fsys := &slowFS{FS: faultfs.New(), segment: segment.FileName(1)}
	b, err := Open(Options{
		FS: fsys, Dir: "data", Logger: zerolog.Nop(), Now: k.now, RetentionInterval: time.Hour, SegmentBytes: 1,
		CheckpointBytes: 1 << 40, CheckpointEvery: 24 * time.Hour, DiskHighPercent: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	k.b = b
	step := func(steps ...func() error) {
		for _, step := range steps {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	step(k.configure, k.push("p", "a"), k.checkpoint, k.push("p", "b"), k.checkpoint,
		k.advance(60*time.Second), k.push("p", "c"), k.checkpoint, k.push("p", "d"))
	fsys.during = func() { step(k.advance(50*time.Second), k.retain, k.checkpoint) }
	ids, res := popAll(t, b, PopRequest{Group: "g", Batch: 10, AutoAck: auto})
	if fsys.during != nil || len(b.store.Segments()) != 2 {
		t.Fatalf("%d segments, want the drop to be over", len(b.store.Segments()))
	}
	if !slices.Equal(ids, []string{"c", "d"}) {
		t.Fatalf("popped %v", ids)
	}
	if auto {
		return
	}
	results := make([]AckResult, 1)
	for _, id := range ids {
		ack := Ack{TransactionID: id, PartitionID: res.Parts[0].PartitionID.String(), LeaseID: res.LeaseID.String(), Status: AckCompleted}
		if err := b.Acknowledge(DefaultTenant, "g", []Ack{ack}, results); err != nil || !results[0].Success {
			t.Fatalf("ack of %s: %+v, %v", id, results[0], err)
		}
	}
	p := b.queue(DefaultTenant, "q").partition("p")
	if c := p.cursors; c.committed != 3 || c.lease != nil {
		t.Fatalf("committed up to %d, lease %+v", c.committed, c.lease)
	}
}
