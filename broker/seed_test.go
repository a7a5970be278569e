package broker

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// readFS calls read before each reading of a file that was opened for that alone.
type readFS struct {
	vfs.FS
	read func() error
}

type readFile struct {
	vfs.File
	fs *readFS
}

func (f *readFS) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	return readFile{file, f}, err
}

func (f readFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.fs.read(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

// seedWorld is a broker that has just been started, in which only the index tells where
// group g starts in partition p: between "old" and "new".
type seedWorld struct {
	b    *Broker
	p    *partition
	at   time.Time
	fsys readFS
}

func newSeedWorld(t *testing.T) *seedWorld {
	t.Helper()
	k := newKeeper()
	disk := faultfs.New()
	b, err := k.open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	k.b = b
	w := &seedWorld{at: k.start.Add(time.Minute).Truncate(time.Second)}
	register := func() error {
		_, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "g", SubscriptionFrom: w.from()})
		return err
	}
	seek := func() error {
		_, err := b.Seek(DefaultTenant, "g", "q", SeekTarget{ToEnd: true})
		return err
	}
	for _, step := range []func() error{
		k.push("r", "passed"), register, seek, k.push("p", "old"), k.checkpoint,
		k.advance(2 * time.Minute), k.push("p", "new"), k.push("r", "other"), k.checkpoint,
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	w.fsys = readFS{disk.CrashStrict(), func() error { return nil }}
	w.b, err = Open(Options{
		FS: &w.fsys, Dir: "data", Logger: zerolog.Nop(), Now: k.now, RetentionInterval: time.Hour,
		CheckpointBytes: 1 << 40, CheckpointEvery: 24 * time.Hour, DiskHighPercent: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBroker(t, w.b) })
	w.p = w.b.queue(DefaultTenant, "q").partition("p")
	return w
}

func (w *seedWorld) from() string { return w.at.UTC().Format(time.RFC3339) }

// corrupt lets the next reading find damage.
func (w *seedWorld) corrupt() {
	w.fsys.read = func() error {
		w.fsys.read = func() error { return nil }
		return &segment.CorruptError{Path: "x", Err: segment.ErrCorrupt}
	}
}

func (w *seedWorld) ack() Ack {
	return Ack{TransactionID: "new", PartitionID: partitionID(w.b.directory, w.p.number).String()}
}

// Where a group starts is read without the partition's lock, whoever asks first.
func TestSeedIsReadWithoutLock(t *testing.T) {
	for name, ask := range map[string]func(w *seedWorld) error{
		"pop": func(w *seedWorld) error {
			_, err := w.b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "g", Batch: 10, Partitions: 2})
			return err
		},
		"pinned pop": func(w *seedWorld) error {
			res, err := w.b.Pop(&PopRequest{
				Tenant: DefaultTenant, Queue: "q", Partition: "p", Pinned: true, Group: "h", Batch: 10,
				SubscriptionFrom: w.from(),
			})
			if err == nil && res.Parts[0].Count() != 1 {
				err = errors.New("not from there")
			}
			return err
		},
		"ack": func(w *seedWorld) error {
			results := make([]AckResult, 1)
			err := w.b.Acknowledge(DefaultTenant, "g", []Ack{w.ack()}, results)
			if err == nil && (!results[0].Success || results[0].Noop) {
				err = errors.New(results[0].Error)
			}
			return err
		},
		"transaction": func(w *seedWorld) error {
			res, err := w.b.Transact(DefaultTenant, &Transaction{Acks: []Ack{w.ack()}, Groups: []string{"g"}})
			if err == nil && res.Rollback != nil {
				err = errors.New(res.Rollback.Text)
			}
			return err
		},
		"seek": func(w *seedWorld) error {
			return w.b.SeekPartition(DefaultTenant, "h", "q", "p", SeekTarget{TimestampMs: w.at.UnixMilli()})
		},
		"list": func(w *seedWorld) error {
			infos, err := w.b.Groups(DefaultTenant)
			if err == nil && infos[0].Lag != 2 {
				err = errors.New("wrong lag")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSeedWorld(t)
			reads := 0
			w.fsys.read = func() error {
				reads++
				if !w.p.mu.TryLock() {
					t.Error("the partition is locked while its index is read")
					return nil
				}
				w.p.mu.Unlock()
				return nil
			}
			if err := ask(w); err != nil || reads == 0 {
				t.Fatalf("%d reads, %v", reads, err)
			}
		})
	}
}

// A partition whose index is damaged is out of service, and the others are not.
func TestSeedOfDamage(t *testing.T) {
	w := newSeedWorld(t)
	w.corrupt()
	for range 2 {
		results := make([]AckResult, 1)
		if err := w.b.Acknowledge(DefaultTenant, "g", []Ack{w.ack()}, results); err != nil || results[0].Success || !w.p.damaged {
			t.Errorf("ack: %+v, %v; damaged %t", results[0], err, w.p.damaged)
		}
	}
	w = newSeedWorld(t)
	w.corrupt()
	r := w.b.queue(DefaultTenant, "q").partition("r") // comes first
	if ids, _ := popAll(t, w.b, PopRequest{Group: "g", Batch: 10}); !slices.Equal(ids, []string{"new"}) || !r.damaged {
		t.Errorf("popped %v; damaged %t", ids, r.damaged)
	}
}

// A subscription is not moved while it cannot be read where the group stands, and then it
// stays there.
func TestMoveSubscriptionOfUnreadPlace(t *testing.T) {
	w := newSeedWorld(t)
	w.fsys.read = func() error { return faultfs.EIO }
	if n, err := w.b.MoveSubscription(DefaultTenant, "g", w.at.UnixMilli()); !errors.Is(err, faultfs.EIO) {
		t.Errorf("moved %d, %v", n, err)
	}
	w.fsys.read = func() error { return nil }
	if n, err := w.b.MoveSubscription(DefaultTenant, "g", 1<<50); n != 1 || err != nil {
		t.Errorf("moved %d, %v", n, err)
	}
	ids, _ := popAll(t, w.b, PopRequest{Group: "g", Batch: 10, Partitions: 2})
	if slices.Sort(ids); !slices.Equal(ids, []string{"new", "other"}) {
		t.Errorf("popped %v", ids)
	}
}
