package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// statusRow shows status, queueStatus, consumedBy of totalGroups.
func statusRow(m storedMessage) string {
	lease := ""
	if m.Lease != nil {
		lease = " leased"
	}
	return fmt.Sprintf("%s %s %s %d/%d%s", m.TransactionID, m.Status, m.QueueStatus, m.Bus.ConsumedBy, m.Bus.TotalGroups, lease)
}

func TestG302Statuses(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(w *world)
		mode consumption
		want []string // newest first
	}{
		{"none", func(*world) {}, consumption{false, 0, "none"}, []string{
			"m3 pending pending 0/0", "m2 pending pending 0/0", "m1 pending pending 0/0", "m0 pending pending 0/0",
		}},
		{"queue", func(w *world) {
			w.ackAll("", w.popFrom("q", "p", "batch=1"))
			w.popFrom("q", "p", "batch=2")
		}, consumption{true, 0, "queue"}, []string{
			"m3 pending pending 0/0", "m2 processing processing 0/0 leased", "m1 processing processing 0/0 leased", "m0 completed completed 0/0",
		}},
		{"expired lease", func(w *world) {
			w.popFrom("q", "p", "batch=2")
			w.lapse()
		}, consumption{true, 0, "queue"}, []string{
			"m3 pending pending 0/0", "m2 pending pending 0/0", "m1 pending pending 0/0", "m0 pending pending 0/0",
		}},
		{"bus", func(w *world) {
			w.ackAll("g", w.popFrom("q", "p", "consumerGroup=g", "batch=3"))
			w.ackAll("h", w.popFrom("q", "p", "consumerGroup=h", "batch=1"))
			w.popFrom("q", "p", "consumerGroup=h", "batch=2")
		}, consumption{false, 2, "bus"}, []string{
			"m3 pending pending 0/2", "m2 pending pending 1/2 leased", "m1 pending pending 1/2 leased", "m0 completed pending 2/2",
		}},
		{"hybrid", func(w *world) {
			w.ackAll("g", w.popFrom("q", "p", "consumerGroup=g", "batch=3"))
			w.ackAll("", w.popFrom("q", "p", "batch=1"))
			w.popFrom("q", "p", "batch=1")
		}, consumption{true, 1, "hybrid"}, []string{
			"m3 pending pending 0/1", "m2 pending pending 1/1", "m1 processing processing 1/1 leased", "m0 completed completed 1/1",
		}},
		{"dead letter of the queue mode", func(w *world) {
			w.ackAll("", w.popFrom("q", "p", "batch=1"))
			w.buried(w.fail("", "dlq"))
		}, consumption{true, 0, "queue"}, []string{
			"m3 pending pending 0/0", "m2 pending pending 0/0", "m1 dead_letter dead_letter 0/0", "m0 completed completed 0/0",
		}},
		{"dead letter of a group", func(w *world) {
			w.buried(w.fail("g", "dlq"))
			w.fail("h", "retry")
		}, consumption{false, 2, "bus"}, []string{
			"m3 pending pending 0/2", "m2 pending pending 0/2", "m1 pending pending 0/2", "m0 pending dead_letter 1/2",
		}},
	} {
		for _, again := range []string{"", "restart", "segments"} {
			t.Run(row.name+again, func(t *testing.T) {
				w := open(t)
				if again == "segments" {
					w.stop()
					eagerCheckpoints(w)
					w.start()
				}
				w.queued(numbered("q", "p", "m", 4)...)
				row.do(w)
				if again == "segments" {
					w.filed()
				}
				if again != "" {
					w.crashAfterAll()
				}
				l := w.messages("queue=q", "partition=p")
				var got []string
				for _, m := range l.Messages {
					got = append(got, statusRow(m))
				}
				if !slices.Equal(got, row.want) || l.Mode != row.mode {
					t.Errorf("got %q %+v\nwant %q %+v", got, l.Mode, row.want, row.mode)
				}
				if mode := w.messages().Mode; mode != row.mode {
					t.Errorf("mode of all: %+v", mode)
				}
				w.checkStatusFilters(l)
			})
		}
	}
}

// checkStatusFilters compares the lists of each status with the whole one, and each
// message with its description.
func (w *world) checkStatusFilters(whole messageList) {
	w.t.Helper()
	for _, status := range []string{"pending", "processing", "completed", "dead_letter"} {
		var want []string
		for _, m := range whole.Messages {
			if status == m.Status || status == "dead_letter" && m.QueueStatus == status {
				want = append(want, m.TransactionID)
			}
		}
		w.listed(strings.Join(want, " "), "status="+status)
		for i := range want {
			w.listed(want[i], "queue=q", "status="+status, "limit=1", fmt.Sprint("offset=", i))
		}
	}
	for _, m := range whole.Messages {
		d := w.message(m.PartitionID, m.TransactionID)
		if d.Status != m.Status || d.ID != m.ID || d.Mode != whole.Mode || string(d.Payload) != string(m.Payload) || string(d.Data) != string(m.Data) ||
			d.CreatedAt != m.CreatedAt || (d.Error != nil) != (m.QueueStatus == "dead_letter") || (d.Lease == nil) != (m.Lease == nil) {
			w.t.Errorf("described %+v, listed %+v", d, m)
		}
		done := 0
		for _, g := range d.Groups {
			if g.Consumed && g.Name != queueMode {
				done++
			}
		}
		if done != m.Bus.ConsumedBy {
			w.t.Errorf("%d groups described as done, %d listed", done, m.Bus.ConsumedBy)
		}
	}
}

// G-302: a group without a stored cursor stands where its subscription says.
func TestG302ImpliedCursors(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.queued(msg("q", "other", "x"))
		for i := range 3 {
			w.queued(msg("q", "p", fmt.Sprint(i)))
			w.clock.advance(time.Minute)
		}
		from := w.messages("partition=p").Messages[1].CreatedAt
		w.pop("q", "consumerGroup=new", "subscriptionMode=new")
		w.pop("q", "consumerGroup=all", "subscriptionMode=all") // leases the first partition
		w.pop("q", "consumerGroup=from", "subscriptionFrom="+from)
		w.queued(msg("q", "p", "3"))
		w.lapse()
		again()
		got := w.messages("partition=p")
		var rows []string
		for _, m := range got.Messages {
			rows = append(rows, statusRow(m))
		}
		want := []string{"3 pending pending 0/3", "2 pending pending 1/3", "1 pending pending 1/3", "0 pending pending 2/3"}
		if !slices.Equal(rows, want) || got.Mode != (consumption{false, 3, "bus"}) {
			w.t.Errorf("got %q %+v\nwant %q", rows, got.Mode, want)
		}
		for id, want := range map[string]string{"0": "all false from true new true", "1": "all false from false new true", "3": "all false from false new false"} {
			var groups []string
			for _, g := range w.message(got.Messages[0].PartitionID, id).Groups {
				groups = append(groups, g.Name, fmt.Sprint(g.Consumed))
			}
			if strings.Join(groups, " ") != want {
				w.t.Errorf("groups of %s: %v, want %s", id, groups, want)
			}
		}
		w.placedOnly()
	})
}

// placedOnly compares the filter by status where the subscriptions alone decide.
func (w *world) placedOnly() {
	w.t.Helper()
	w.queued(msg("late", "p", "l0"))
	w.clock.advance(time.Minute)
	w.pop("late", "consumerGroup=new", "subscriptionMode=new")
	w.queued(msg("late", "p", "l1"))
	w.listed("l0", "queue=late", "status=completed")
	w.listed("l1", "queue=late", "status=pending")
	w.listed("", "queue=late", "status=processing")
}
