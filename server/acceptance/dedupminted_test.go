package acceptance

import (
	"testing"
	"time"
)

// An id that the broker has minted is a message's key like any other: who pushes a
// delivered message again with its id has pushed it twice.
func TestM150MintedID(t *testing.T) {
	w := open(t, eagerCheckpoints)
	first := w.queued(msg("q", "p", ""), msg("q", "p", ""), msg("q", "p", "own"))
	w.filed()
	for _, again := range []func(){func() {}, w.restart, w.crash} {
		again()
		for i, r := range w.push(msg("q", "p", first[0]), msg("q", "p", first[1])) {
			if r.Status != "duplicate" || r.MessageID != first[i] {
				t.Errorf("item %d: %+v, want a duplicate of %s", i, r, first[i])
			}
		}
	}
	w.queued(msg("q", "elsewhere", first[0]))
	w.clock.advance(time.Hour + time.Second)
	w.queued(msg("q", "p", first[0]))
}

// With the check off, the id leads an ack to the message that the group has yet to do.
func TestM331MintedIDPushedAgain(t *testing.T) {
	w := open(t)
	w.configure("q", `{"dedupWindowSeconds":0}`)
	id := w.queued(msg("q", "p", ""))[0]
	p := w.want(w.popFrom("q", "p"), id)
	w.ackAll("", p)
	w.queued(msg("q", "p", id))
	w.ok(false, w.ack("", p.Messages[0].as("completed").leaseless()))
	w.nothing(w.popFrom("q", "p"))
}
