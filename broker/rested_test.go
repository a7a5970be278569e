package broker

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// restWorld has a message in partition p of queue q under a lease of group g, and a dead
// letter of another one.
type restWorld struct {
	t       *testing.T
	b       *Broker
	lease   string
	p       uuid.UUID
	letter  uuid.UUID
	buriedP uuid.UUID // partition of the dead letter, whose message was "dead"
}

func newRestWorld(t *testing.T, b *Broker) *restWorld {
	w := newWitness(b)
	if err := errors.Join(w.push("buried", "dead"), w.consume("buried", 1, AckDeadLetter), w.push("p", "a", "b")); err != nil {
		t.Fatal(err)
	}
	letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 1})
	if err != nil || len(letters) != 1 {
		t.Fatalf("%+v, %v", letters, err)
	}
	_, res := popAll(t, b, PopRequest{Partition: "p", Pinned: true, Group: "g", Batch: 2, SubscriptionMode: "all"})
	return &restWorld{t, b, res.LeaseID.String(), res.Parts[0].PartitionID, letters[0].ID, letters[0].PartitionID}
}

func (w *restWorld) ack(status AckStatus) error {
	r := make([]AckResult, 1)
	return w.b.Acknowledge(DefaultTenant, "g", []Ack{
		{TransactionID: "a", PartitionID: w.p.String(), LeaseID: w.lease, Status: status},
	}, r)
}

func (w *restWorld) extend() error {
	_, _, err := w.b.Extend(DefaultTenant, w.lease, 60)
	return err
}
func (w *restWorld) deleteQueue() error { return second(w.b.DeleteQueue(DefaultTenant, "q")) }
func (w *restWorld) deleteGroup() error {
	return second(w.b.DeleteGroup(DefaultTenant, "g", "q", false))
}
func (w *restWorld) purge() error { return second(w.b.PurgeDeadLetters(DefaultTenant, "q", "")) }
func (w *restWorld) replay() error {
	return gone(w.b.ReplayDeadLetter(DefaultTenant, w.letter, nil, nil))
}
func (w *restWorld) replayAt() error {
	return gone(w.b.ReplayDeadLetterAt(DefaultTenant, w.buriedP, "dead"))
}
func (w *restWorld) deleteLetter() error {
	return second(w.b.DeleteDeadLetter(DefaultTenant, w.buriedP, "dead"))
}

func second[T any](_ T, err error) error { return err }

// gone is second, for what others may have taken.
func gone[T any](_ T, err error) error {
	if errors.Is(err, ErrDeadLetterNotFound) || errors.Is(err, ErrQueueNotFound) || errors.Is(err, ErrPartitionNotFound) {
		return nil
	}
	return err
}

// That something is not there, or not any more, is answered when the change that has taken
// it is on disk: after a power cut it might be there again. R1.
func TestAbsenceRestsOnTheDisk(t *testing.T) {
	end := SeekTarget{ToEnd: true}
	for name, row := range map[string]struct{ change, ask func(w *restWorld) error }{
		"ack under a lease that another one has ended": {
			func(w *restWorld) error { return w.ack(AckFailed) },
			func(w *restWorld) error { return w.ack(AckCompleted) },
		},
		"ack of a deleted group": {(*restWorld).deleteGroup, func(w *restWorld) error { return w.ack(AckCompleted) }},
		"ack in a deleted queue": {(*restWorld).deleteQueue, func(w *restWorld) error { return w.ack(AckCompleted) }},

		"extension of a lease that has ended": {func(w *restWorld) error { return w.ack(AckFailed) }, (*restWorld).extend},

		"deletion of a queue":           {(*restWorld).deleteQueue, (*restWorld).deleteQueue},
		"deletion of a group":           {(*restWorld).deleteGroup, (*restWorld).deleteGroup},
		"deletion of a group that went": {(*restWorld).deleteQueue, (*restWorld).deleteGroup},
		"deletion of a group everywhere": {(*restWorld).deleteGroup, func(w *restWorld) error {
			return second(w.b.DeleteGroups(DefaultTenant, "g", false))
		}},
		"seek in a deleted queue": {(*restWorld).deleteQueue, func(w *restWorld) error {
			return gone(w.b.Seek(DefaultTenant, "g", "q", end))
		}},
		"seek in a partition that went": {(*restWorld).deleteQueue, func(w *restWorld) error {
			return gone(0, w.b.SeekPartition(DefaultTenant, "g", "q", "p", end))
		}},
		"subscription of a deleted group": {(*restWorld).deleteGroup, func(w *restWorld) error {
			return second(w.b.MoveSubscription(DefaultTenant, "g", 1))
		}},

		"deletion of a dead letter":            {(*restWorld).deleteLetter, (*restWorld).deleteLetter},
		"deletion of a replayed dead letter":   {(*restWorld).replay, (*restWorld).deleteLetter},
		"deletion of a purged dead letter":     {(*restWorld).purge, (*restWorld).deleteLetter},
		"deletion of a dead letter that went":  {(*restWorld).deleteQueue, (*restWorld).deleteLetter},
		"purge":                                {(*restWorld).purge, (*restWorld).purge},
		"purge of a deleted queue":             {(*restWorld).deleteQueue, (*restWorld).purge},
		"replay":                               {(*restWorld).replay, (*restWorld).replay},
		"replay of a deleted dead letter":      {(*restWorld).deleteLetter, (*restWorld).replay},
		"replay by address":                    {(*restWorld).replayAt, (*restWorld).replayAt},
		"replay by address of a deleted one":   {(*restWorld).deleteLetter, (*restWorld).replayAt},
		"replay by address of a replayed one":  {(*restWorld).replay, (*restWorld).replayAt},
		"replay of what has gone with a queue": {(*restWorld).deleteQueue, (*restWorld).replay},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := &gateFS{FS: faultfs.New()}
				b, err := Open(Options{FS: fsys, Dir: "data", DiskHighPercent: 100})
				if err != nil {
					t.Fatal(err)
				}
				w := newRestWorld(t, b)
				open := fsys.shut()
				var answered atomic.Int32
				for _, fn := range []func(w *restWorld) error{row.change, row.ask} {
					go func() {
						if err := fn(w); err != nil {
							t.Error(err)
						}
						answered.Add(1)
					}()
					synctest.Wait()
				}
				if n := answered.Load(); n != 0 {
					t.Errorf("%d answered before the change is on disk", n)
				}
				open()
				synctest.Wait()
				if n := answered.Load(); n != 2 {
					t.Errorf("%d answered", n)
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
