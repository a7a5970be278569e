package server

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/history"
)

// counting is a broker in which a message more is stored with each look at it.
type counting struct {
	*fake
	pushed atomic.Int64
	full   bool
}

func (c *counting) Stats() broker.Stats {
	st := broker.Stats{DiskFull: c.full}
	st.Traffic[broker.PushedMessages] = c.pushed.Add(1)
	return st
}

func (c *counting) Traffic(bool) []broker.QueueTraffic {
	q := broker.QueueTraffic{ID: uuid.UUID{1}, Name: "q"}
	q.Traffic[broker.PushedMessages] = c.pushed.Load()
	return []broker.QueueTraffic{q}
}

func (c *counting) EachTraffic(roll bool, look func(*broker.QueueTraffic)) {
	look(&c.Traffic(roll)[0])
}

func kept(dir string) (all []history.Minute) {
	for m := range history.New(history.Options{Dir: dir}).Minutes(0, 1<<60) {
		all = append(all, *m)
	}
	return all
}

// Minutes end one after the other, and none after the stop.
func TestMinutesEndInTurn(t *testing.T) {
	dir := t.TempDir()
	s := New(Options{Broker: &counting{fake: newFake()}, MetricsDir: dir})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				s.RollMetrics()
			}
		})
	}
	wg.Wait()
	shutDown(t, s)
	s.RollMetrics()
	all := kept(dir)
	if len(all) != 201 {
		t.Errorf("%d minutes, want 201", len(all))
	}
	for i := range all {
		if got := all[i].Traffic[broker.PushedMessages]; got != 1 {
			t.Errorf("minute %d: %d messages, want 1", i, got)
		}
	}
}

// The first minute begins with the server, and what the process has used before is not of it.
func TestFirstMinuteHasALength(t *testing.T) {
	dir := t.TempDir()
	before := readUsage()
	now := time.UnixMilli(1_000_000)
	s := New(Options{Broker: &counting{fake: newFake()}, MetricsDir: dir, Now: func() time.Time { return now }})
	now = now.Add(20 * time.Second)
	shutDown(t, s)
	if all := kept(dir); len(all) != 1 || all[0].StartMs != 1_000_000 || all[0].LengthMs != 20_000 {
		t.Errorf("got %+v", all)
	} else if used := readUsage(); all[0].Process.UserNs > int64(used.user-before.user) {
		t.Errorf("%d ns of %v", all[0].Process.UserNs, used.user-before.user)
	}
}

// G-151: the totals outlive a process whose disk was full.
func TestG151TotalsOfAFullDisk(t *testing.T) {
	dir := t.TempDir()
	o := Options{Broker: &counting{fake: newFake(), full: true}, MetricsDir: dir}
	shutDown(t, New(o))
	if all := kept(dir); len(all) != 1 || len(all[0].Queues) != 0 {
		t.Errorf("kept %+v", all)
	}
	if got := New(o).minutes.base[broker.PushedMessages]; got != 1 {
		t.Errorf("%d messages after the restart, want 1", got)
	}
}
