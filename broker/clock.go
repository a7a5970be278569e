package broker

import (
	"sync/atomic"
	"time"
)

// clock is the broker's time, in Unix milliseconds. mono never jumps: it starts at the
// wall clock of Open and follows the monotonic clock; leases and waits live by it. stamp
// follows the wall clock forward and never goes back; messages are stamped with it.
type clock struct {
	now   func() time.Time
	start time.Time
	ahead atomic.Int64 // largest wall - mono seen
}

func newClock(now func() time.Time) *clock {
	return &clock{now: now, start: now()}
}

func (c *clock) mono() int64 {
	return c.start.UnixMilli() + c.now().Sub(c.start).Milliseconds()
}

func (c *clock) stamp() int64 {
	now := c.now()
	mono := c.start.UnixMilli() + now.Sub(c.start).Milliseconds()
	ahead := c.ahead.Load()
	for wall := now.UnixMilli(); wall-mono > ahead; {
		if c.ahead.CompareAndSwap(ahead, wall-mono) {
			ahead = wall - mono
			break
		}
		ahead = c.ahead.Load()
	}
	return mono + ahead
}

// atLeast moves stamps on to stampMs. After a restart it is called with the newest stamp
// there is: with a wall clock that has been set back meanwhile, time would otherwise stand
// still until it had caught up, and delayed messages with it.
func (c *clock) atLeast(stampMs int64) {
	raise(&c.ahead, stampMs-c.mono())
}

// wallOf turns a deadline by mono into the wall clock's, for records and answers.
func (c *clock) wallOf(monoMs int64) int64 {
	now := c.now()
	return monoMs - (c.start.UnixMilli() + now.Sub(c.start).Milliseconds()) + now.UnixMilli()
}

// monoOf turns a recorded wall clock deadline into one by mono.
func (c *clock) monoOf(wallMs int64) int64 {
	now := c.now()
	return wallMs - now.UnixMilli() + c.start.UnixMilli() + now.Sub(c.start).Milliseconds()
}
