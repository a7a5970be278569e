package server

import (
	"time"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/log/journal"
)

// batchOps are the operations whose commits the metrics tell of. All else in the journal is
// for an operator, or the broker's own.
var batchOps = [...]struct {
	op   journal.Op
	name string
}{
	{journal.OpPush, "push"}, {journal.OpPop, "pop"}, {journal.OpAck, "ack"}, {journal.OpTransaction, "transaction"},
}

// batches tells how well requests share commits. One commit serves several operations, and is
// counted for each.
func batches(out scrape, st *broker.Stats, lately *systemMinute) {
	for _, x := range batchOps {
		total, minute := &st.Journal.Ops[x.op], &lately.commits[x.op]
		out.add(batchesFired, float64(total.Groups), x.name)
		out.add(batchItems, float64(total.Frames), x.name)
		out.add(itemsPerBatch, float64(minute.Frames)/float64(max(minute.Groups, 1)), x.name)
		for _, q := range shownQuantiles {
			out.add(batchTook, milliseconds(minute.Took.Quantile(quantile(q))), x.name, q)
		}
	}
}

func pops(out scrape, st *broker.Stats) {
	out.add(targetedPops, float64(st.PinnedPops))
	out.add(wildcardPops, float64(st.OtherPops))
	out.add(heldPops, float64(st.HeldPops))
	out.add(heldTime, float64(st.HeldTime/time.Microsecond))
}
