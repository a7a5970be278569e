package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const (
	// slew is the part of the time by which stamps fall back to a wall clock that has
	// been set back: one in fifty. Standing still would hold delayed messages for as long
	// as the step was; following it would turn the times of a partition around.
	slew = 50
	// maxStep is how far the wall clock may step forward and be believed at once. A clock
	// that is wrong for a moment, after a resume or before the first answer of a time
	// server, must not make every message look old: what retention drops is gone.
	maxStep = time.Minute
	// stepPatience is for how long a larger step has to stand to be believed.
	stepPatience = 5 * time.Minute
	// maxAbsence is how much later than the newest message of a directory the clock may be
	// when it is opened. What is beyond has to stand like a step.
	maxAbsence = 365 * 24 * time.Hour
	// jitter is what two readings of one clock differ by.
	jitter = time.Second
)

// clock is the broker's time, in Unix milliseconds. mono never jumps: it starts at the
// wall clock of Open and follows the monotonic clock; leases and waits live by it. stamp
// follows the wall clock, but never goes back, and follows it forward only where that may
// be believed. Messages are stamped with it, and their age is counted by it.
//
// What the wall clock does is seen in its offset: how far it is ahead of mono. That
// changes only when somebody sets the clock.
type clock struct {
	now, wall func() time.Time // wall is nil where now says both
	log       zerolog.Logger
	start     time.Time // by now
	baseMs    int64     // mono at start

	offset atomic.Int64 // of the wall clock, as far as it is believed
	// floor is where the line begins that no stamp falls below. It rises more slowly than
	// time, and is raised to every stamp that is above it.
	floor atomic.Int64

	doubting atomic.Bool // there is a step that is not believed yet
	mu       sync.Mutex
	doubted  int64 // the offset after it
	sinceMs  int64 // when it was first seen, by mono
	beganMs  int64 // the stamp when there began to be one

	late atomic.Pointer[late] // nil: no step was believed
}

// late says which stamps were given out while the latest step was in doubt that was believed
// then, and by how much they are behind.
type late struct{ fromMs, toMs, byMs int64 }

func newClock(now, wall func() time.Time, log zerolog.Logger) *clock {
	c := &clock{now: now, wall: wall, log: log, start: now()}
	_, c.baseMs = c.read()
	c.floor.Store(c.baseMs)
	return c
}

// read returns the time since start, and the wall clock.
func (c *clock) read() (elapsed, wallMs int64) {
	now := c.now()
	elapsed = now.Sub(c.start).Milliseconds()
	if c.wall != nil {
		now = c.wall()
	}
	return elapsed, now.UnixMilli()
}

func (c *clock) mono() int64 { return c.baseMs + c.now().Sub(c.start).Milliseconds() }

// StampMs is the time that a message pushed now would have.
func (b *Broker) StampMs() int64 { return b.clock.stamp() }

func (c *clock) stamp() int64 {
	elapsed, wall := c.read()
	mono := c.baseMs + elapsed
	rise := elapsed - elapsed/slew // of the line so far
	line := c.floor.Load() + rise
	stamp := mono + c.believed(wall-mono, mono, line)
	if stamp <= line {
		return line
	}
	raise(&c.floor, stamp-rise)
	return stamp
}

// believed returns the offset that stamps go by. A step back is believed at once, since
// the line holds stamps where they are, and so is one forward that is small, or leads
// to where stamps already are.
func (c *clock) believed(offset, mono, line int64) int64 {
	old := c.offset.Load()
	switch {
	case offset > max(old, line-mono)+maxStep.Milliseconds():
		return c.doubt(offset, mono, line)
	case offset > old+jitter.Milliseconds(), offset < old-jitter.Milliseconds():
		c.offset.Store(offset)
	}
	if c.doubting.Load() {
		c.doubting.Store(false)
		c.log.Warn().Msg("the clock has stepped back again, its step is forgotten")
	}
	return offset
}

// doubt returns the offset that counts while the clock is far ahead: the old one, until
// it has been so for long enough.
func (c *clock) doubt(offset, mono, line int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.offset.Load()
	if offset <= old+maxStep.Milliseconds() {
		return offset // somebody else has come to believe it just now
	}
	ahead, stamp := time.Duration(offset-old)*time.Millisecond, max(mono+old, line)
	doubting := c.doubting.Swap(true)
	if !doubting {
		c.beganMs = stamp
	}
	if moved := offset - c.doubted; !doubting || max(moved, -moved) > maxStep.Milliseconds() {
		c.doubted, c.sinceMs = offset, mono
		c.log.Warn().Stringer("ahead", ahead).Stringer("patience", stepPatience).Msg("the clock has stepped forward, not believed yet")
		return old
	}
	if mono-c.sinceMs < stepPatience.Milliseconds() {
		return old
	}
	c.doubting.Store(false)
	c.late.Store(&late{fromMs: c.beganMs, toMs: stamp, byMs: mono + offset - stamp})
	c.offset.Store(offset)
	c.log.Warn().Stringer("ahead", ahead).Msg("the clock has stepped forward, and is believed")
	return offset
}

// since returns the instant from which on stamps are no older than window at nowMs, a stamp
// too. Those that are late would look old: a machine that has slept must not drop what was
// stored in the minutes after.
func (c *clock) since(nowMs, windowMs int64) int64 {
	at, l := nowMs-windowMs, c.late.Load()
	if l == nil || at <= l.fromMs || at-l.byMs > l.toMs {
		return at
	}
	return max(at-l.byMs, l.fromMs)
}

// dated returns when that was stored what has the stamp: itself, unless it is late.
func (c *clock) dated(stampMs int64) int64 {
	if l := c.late.Load(); l != nil && stampMs >= l.fromMs && stampMs <= l.toMs {
		return stampMs + l.byMs
	}
	return stampMs
}

// resume goes on from the newest stamp of a directory that is opened, 0 for none. With a
// clock that has been set back meanwhile, time would otherwise stand still until it had
// caught up, and delayed messages with it. Recovery is alone with the clock, and may call
// it again when it knows of a newer stamp.
func (c *clock) resume(newestMs int64) {
	if newestMs == 0 {
		return
	}
	elapsed, wall := c.read()
	from := max(wall, newestMs)
	if wall-newestMs > maxAbsence.Milliseconds() {
		from = newestMs
		c.offset.Store(newestMs - c.baseMs - elapsed)
	} else {
		c.offset.Store(wall - c.baseMs - elapsed)
	}
	c.floor.Store(from - elapsed + elapsed/slew)
}

// wallMs is the wall clock as it is.
func (c *clock) wallMs() int64 {
	_, wall := c.read()
	return wall
}

// wallOf turns a deadline by mono into the wall clock's, for records and answers.
func (c *clock) wallOf(monoMs int64) int64 {
	elapsed, wall := c.read()
	return monoMs - c.baseMs - elapsed + wall
}

// monoOf turns a recorded wall clock deadline into one by mono.
func (c *clock) monoOf(wallMs int64) int64 {
	elapsed, wall := c.read()
	return wallMs - wall + c.baseMs + elapsed
}
