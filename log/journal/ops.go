package journal

import (
	"sync/atomic"
	"time"
)

// Op is what frames are appended for. It is counted, and nothing else.
type Op uint8

// What frames are appended for.
const (
	OpOther Op = iota
	OpPush
	OpPop
	OpAck
	OpTransaction
	Ops // how many there are
)

// OpStats are the counters of one Op.
type OpStats struct {
	Groups int64      // entries that held any of its appends
	Frames int64      // its appends
	Took   SyncCounts // how long these entries took to write, and to sync where it is waited for
}

// Minus returns what has come since earlier.
func (s *OpStats) Minus(earlier *OpStats) OpStats {
	return OpStats{s.Groups - earlier.Groups, s.Frames - earlier.Frames, s.Took.Minus(&earlier.Took)}
}

// Add adds other to s.
func (s *OpStats) Add(other *OpStats) {
	s.Groups += other.Groups
	s.Frames += other.Frames
	for i := range s.Took {
		s.Took[i] += other.Took[i]
	}
}

type opCounters struct {
	groups, frames atomic.Int64
	took           [len(SyncBounds) + 1]atomic.Int64
}

func (c *opCounters) load() (s OpStats) {
	s.Groups, s.Frames = c.groups.Load(), c.frames.Load()
	for i := range s.Took {
		s.Took[i] = c.took[i].Load()
	}
	return s
}

// committed counts a group, once for each of the operations that it served.
func (c *counters) committed(g *group, took time.Duration) {
	for op, frames := range g.ops {
		if frames == 0 {
			continue
		}
		o := &c.ops[op]
		o.groups.Add(1)
		o.frames.Add(int64(frames))
		o.took[SyncBucket(took)].Add(1)
	}
}
