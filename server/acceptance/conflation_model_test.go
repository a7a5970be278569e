package acceptance

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

// latestModel is what a conflating group does in one partition, without the broker: every
// message is its offset, and everything is on disk at once.
type latestModel struct {
	end       int // messages pushed
	committed int // messages completed, or passed over
	leased    int // the one delivered, -1 for none
	live      bool
	failures  int
	buried    int
}

// newest returns what a pop has to deliver, -1 for nothing.
func (m *latestModel) newest() int {
	if m.live || m.committed == m.end {
		return -1
	}
	return m.end - 1
}

func (m *latestModel) release() { m.leased, m.live = -1, false }

// TestM280AgainstAModel does what it likes, comes back from restarts and crashes, and
// compares every answer with the model's.
func TestM280AgainstAModel(t *testing.T) {
	const limit = 2
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			option := func(*world) {}
			if seed%2 == 1 {
				option = eagerCheckpoints
			}
			w := open(t, option)
			rng := rand.New(rand.NewPCG(seed, 280))
			w.configure("q", fmt.Sprintf(`{"retryLimit":%d}`, limit))
			w.idle(fromQ, asked, applied)
			m := &latestModel{leased: -1}
			var held message
			for range 120 {
				switch op := rng.IntN(20); {
				case op < 6:
					n := 1 + rng.IntN(4)
					var items []item
					for range n {
						items = append(items, msg("q", "p", fmt.Sprint(m.end)))
						m.end++
					}
					w.queued(items...)
				case op < 12:
					want := m.newest()
					if want < 0 {
						if a := w.call("GET", fromP+"?"+query(asked), ""); a.status != http.StatusOK || string(a.body) != applied {
							t.Fatalf("popped %d %s, want nothing: %+v", a.status, a.body, m)
						}
						continue
					}
					held = w.latest(fromP, asked, fmt.Sprint(want)).Messages[0]
					m.leased, m.live = want, true
				case op < 17:
					if m.leased >= 0 && m.live {
						w.endLease(m, held, []string{"completed", "completed", "retry", "failed", "dlq"}[rng.IntN(5)], limit)
					}
				case op == 17:
					w.clock.advance(time.Hour)
					m.live = false
				case op == 18:
					w.restart()
				default:
					w.crashAfterAll()
				}
			}
			if got := len(w.buriedIDs("q", "limit=1000")); got != m.buried {
				t.Errorf("%d dead letters, want %d", got, m.buried)
			}
		})
	}
}

// endLease acknowledges the leased message in the broker and in the model.
func (w *world) endLease(m *latestModel, held message, status string, limit int) {
	w.t.Helper()
	before := *m
	m.release()
	switch {
	case status == "completed":
		w.clean(held, int64(before.leased-before.committed))
		m.committed, m.failures = before.leased+1, 0
	case status == "dlq" || status == "failed" && m.failures >= limit:
		w.buried(w.ack("g", held.as(status)))
		m.committed, m.failures, m.buried = before.leased+1, 0, m.buried+1
	default:
		w.ok(true, w.ack("g", held.as(status)))
		if status == "failed" {
			m.failures++
		}
	}
}
