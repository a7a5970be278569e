package broker

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// strayBatch is a batch of a partition as the journal holds it.
func strayBatch(partition uint64) []byte {
	raw := segment.AppendMessage(nil, &segment.Message{TransactionID: []byte("a"), Payload: []byte("1")})
	dst := record.BeginFrame(nil, record.KindBatch)
	start := len(dst)
	dst = segment.AppendBatch(dst, &segment.Header{Count: 1}, raw)
	segment.Seal(dst[start:], partition, 0, 1, uuid.New())
	return record.EndFrame(dst, 0)
}

// A partition whose queue has no record, or a batch whose partition has none, is left out
// if a deletion is on record. Otherwise messages would go in silence: the start is refused,
// and says what is missing. R6.
func TestLostOwner(t *testing.T) {
	const queue, number = 1, 1 // given out once, and forgotten
	partition := record.AppendPartition(nil, &record.Partition{Number: number, Queue: queue, Name: "lost-p"})
	deletion := record.AppendQueueDeleted(nil, queue)
	for name, row := range map[string]struct {
		frames [][]byte
		want   string // in the error; "": it opens
	}{
		"partition":                   {[][]byte{partition}, `partition "lost-p" of queue 1,`},
		"partition and batch":         {[][]byte{partition, strayBatch(number)}, `partition "lost-p" of queue 1,`},
		"partition, deleted later":    {[][]byte{partition, strayBatch(number), deletion}, ""},
		"partition, deleted before":   {[][]byte{deletion, partition, strayBatch(number)}, ""},
		"another queue is deleted":    {[][]byte{partition, record.AppendQueueDeleted(nil, queue+1)}, `queue 1,`},
		"batch":                       {[][]byte{strayBatch(number)}, "offset 0 of partition 1,"},
		"batch, its queue is deleted": {[][]byte{strayBatch(number), deletion}, ""},
		"batch, partition removed":    {[][]byte{strayBatch(number), record.AppendPartitionDeleted(nil, number)}, ""},
		"batch of a future partition": {[][]byte{strayBatch(number + 50)}, "no record made partition 51"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := faultfs.New()
			b := mustOpen(t, fsys, nil)
			if err := errors.Join(
				pushOne(b, "p", "x"), second(b.DeleteQueue(DefaultTenant, "q")),
				second(b.checkpoint()), second(b.checkpoint()),
			); err != nil {
				t.Fatal(err)
			}
			b.checkpointMu.Lock() // the deletion has asked for a checkpoint, which may be late
			err := b.rewriteCatalog()
			for _, frames := range row.frames {
				_, ticket := b.journal.Append(frames, false)
				err = errors.Join(err, ticket.Wait())
			}
			crashed := fsys.CrashStrict()
			b.checkpointMu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			after, err := openOn(crashed)
			if err == nil {
				defer closeBroker(t, after)
			}
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %v, want %q", err, row.want)
			}
			if row.want != "" && err != nil && !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("%v is not an ErrCorrupt", err)
			}
		})
	}
}

// A push that has found its queue alive may append when the queue is deleted. However many
// checkpoints and rewritings come in between, the deletion stays on record until then.
func TestDeletionOutlivesLateRecords(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	if err := errors.Join(pushOne(b, "p", "x"), second(b.checkpoint())); err != nil {
		t.Fatal(err)
	}
	q, ticket := b.deleteQueue(DefaultTenant, "q")
	if err := errors.Join(
		ticket.Wait(), second(b.checkpoint()), b.rewriteAlone(), second(b.checkpoint()), b.rewriteAlone(),
	); err != nil {
		t.Fatal(err)
	}
	late := record.AppendPartition(nil, &record.Partition{Number: b.nextPartition.Add(1) - 1, Queue: q.number, Name: "late"})
	if _, ticket = b.journal.Append(late, false); ticket.Wait() != nil {
		t.Fatal("append")
	}
	mustOpen(t, fsys.CrashStrict(), nil)

	b.forgetPartitions(q)
	if err := errors.Join(second(b.checkpoint()), second(b.checkpoint())); err != nil {
		t.Fatal(err)
	}
	if n := len(b.changed.take().deleted); n != 0 {
		t.Errorf("%d deletions are kept for ever", n)
	}
	mustOpen(t, fsys.CrashStrict(), nil)
}
