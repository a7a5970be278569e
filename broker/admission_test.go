package broker

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// Whatever grows storage waits while the journal holds all that it may, and is refused
// while no checkpoint succeeds. What does not goes on. R4, R8.
func TestAdmission(t *testing.T) {
	for name, row := range map[string]struct {
		do    func(w *restWorld) error
		grows bool
	}{
		"push":              {func(w *restWorld) error { return pushOne(w.b, "p", "c") }, true},
		"replay":            {(*restWorld).replay, true},
		"replay by address": {(*restWorld).replayAt, true},
		"transaction": {func(w *restWorld) error {
			return second(w.b.Transact(DefaultTenant, &Transaction{
				Pushes: []PushItem{{Queue: []byte("q"), Partition: []byte("p"), Payload: []byte("1")}},
			}))
		}, true},
		"transaction of acks": {func(w *restWorld) error {
			return second(w.b.Transact(DefaultTenant, &Transaction{
				Acks: []Ack{{TransactionID: "a", PartitionID: w.p.String()}}, Groups: []string{"g"},
			}))
		}, false},
		"ack":                       {func(w *restWorld) error { return w.ack(AckCompleted) }, false},
		"dead letter":               {func(w *restWorld) error { return w.ack(AckDeadLetter) }, false},
		"deletion of a dead letter": {(*restWorld).deleteLetter, false},
		"deletion of a group":       {(*restWorld).deleteGroup, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := Open(Options{
					FS: faultfs.New(), Dir: "data", DiskHighPercent: 100,
					CheckpointBytes: 1 << 40, CheckpointEvery: 24 * time.Hour, MaxUnfiledBytes: 4000,
				})
				if err != nil {
					t.Fatal(err)
				}
				w := newRestWorld(t, b)
				for id := 'A'; b.journal.Unfiled() < 4000; id++ {
					if err := pushOne(b, "fill", string(id)); err != nil {
						t.Fatal(err)
					}
				}
				b.journal.Refuse(refusalOf(errors.New("no room for a segment")))
				if err := row.do(w); errors.Is(err, ErrStorageFull) != row.grows {
					t.Errorf("while nothing is filed: %v", err)
				}
				b.journal.Refuse(nil)
				if row.grows {
					var answered atomic.Bool
					go func() {
						if err := row.do(w); err != nil {
							t.Error(err)
						}
						answered.Store(true)
					}()
					synctest.Wait()
					if answered.Load() {
						t.Error("answered while the journal is full")
					}
					if _, err := b.checkpoint(); err != nil {
						t.Error(err)
					}
					synctest.Wait()
					if !answered.Load() {
						t.Error("still waits when there is room")
					}
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
