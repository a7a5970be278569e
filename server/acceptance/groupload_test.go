package acceptance

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// workedOff is what the consumers of a test have acknowledged.
type workedOff struct {
	mu   sync.Mutex
	acks []ackedAt
}

// ackedAt is a message whose ack was answered with success.
type ackedAt struct {
	id             string
	sent, answered int64 // by the test's counter of events
}

// Groups are moved and deleted while others push and consume. After the last seek, which
// goes to the beginning, everything comes once, and nothing twice: not lost between the
// old group and the new, and not under two leases.
func TestM602UnderLoad(t *testing.T) {
	for _, row := range []struct {
		name   string
		option func(*world)
	}{{"memory", func(*world) {}}, {"segments", eagerCheckpoints}} {
		t.Run(row.name, func(t *testing.T) {
			w := open(t, row.option)
			const producers, consumers, partitions, rounds = 2, 3, 5, 30
			var (
				events           atomic.Int64
				done             workedOff
				began, ended     int64 // of the last seek
				producing, seeks sync.WaitGroup
				finished         atomic.Bool
			)
			w.queued(msg("q", "0", "first"))
			producing.Add(producers)
			seeks.Add(1)
			together(producers+1+consumers, func(i int) {
				switch {
				case i < producers:
					defer producing.Done()
					for n := range rounds {
						w.push(msg("q", fmt.Sprint(n%partitions), fmt.Sprintf("%d-%d", i, n)))
					}
				case i == producers:
					for n := range rounds {
						w.disturb(n)
					}
					began = events.Add(1)
					w.seek("g", "q", toBegin)
					ended = events.Add(1)
					seeks.Done()
					producing.Wait()
					await(t, "the group to be done", func() bool { return w.depth("q", "g").Pending == 0 })
					finished.Store(true)
				default:
					for !finished.Load() {
						w.workOff("q", "g", &events, &done)
					}
				}
			})
			seeks.Wait()
			all, late := map[string]bool{}, map[string]int{}
			for _, a := range done.acks {
				if a.answered > began {
					all[a.id] = true
				}
				if a.sent > ended {
					late[a.id]++
				}
			}
			if len(all) != producers*rounds+1 {
				t.Errorf("%d messages after the last seek, want %d", len(all), producers*rounds+1)
			}
			for id, n := range late {
				if n > 1 {
					t.Errorf("%s was worked off %d times", id, n)
				}
			}
		})
	}
}

// disturb does something to group g, another thing each time.
func (w *world) disturb(n int) {
	switch n % 6 {
	case 0:
		w.seek("g", "q", toBegin)
	case 1:
		w.seekIn("g", "q", "0", toEnd)
	case 2:
		w.deleteGroup("g", "q", "deleteMetadata=false")
	case 3:
		w.seek("g", "q", toEnd)
	case 4:
		w.deleteGroup("g", "")
	case 5:
		w.seekIn("g", "q", "0", toBegin)
	}
}

// workOff pops once for a group and acknowledges what comes.
func (w *world) workOff(queue, group string, events *atomic.Int64, done *workedOff) {
	p := w.pop(queue, "consumerGroup="+group, "partitions=2", "batch=7", "wait=true", "timeout=50")
	if p == nil {
		return
	}
	var acks []ack
	for _, m := range p.Messages {
		acks = append(acks, m.as("completed"))
	}
	sent := events.Add(1)
	results := w.ackBatch(group, acks...)
	answered := events.Add(1)
	done.mu.Lock()
	defer done.mu.Unlock()
	for _, r := range results {
		if r.Success && !r.Noop {
			done.acks = append(done.acks, ackedAt{r.TransactionID, sent, answered})
		}
	}
}
