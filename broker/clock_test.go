package broker

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// watchHand is a clock of which both hands are moved by hand: run lets time pass, set
// sets the wall clock, as an operator or a time server does.
type watchHand struct{ passed, ahead atomic.Int64 }

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func (h *watchHand) now() time.Time  { return noon.Add(time.Duration(h.passed.Load())) }
func (h *watchHand) wall() time.Time { return h.now().Add(time.Duration(h.ahead.Load())) }

func (h *watchHand) run(d time.Duration) { h.passed.Add(int64(d)) }
func (h *watchHand) set(d time.Duration) { h.ahead.Add(int64(d)) }

func (h *watchHand) clock() *clock { return newClock(h.now, h.wall, zerolog.Nop()) }

func (h *watchHand) options(o *Options) { o.Now, o.Wall = h.now, h.wall }

// R12: stamps follow the wall clock, but for what is in doubt, and never go back.
func TestR12Stamps(t *testing.T) {
	const (
		run  = iota // let time pass, reading the clock every second
		idle        // the same, without
		set         // the wall clock
	)
	type step struct {
		what int
		by   time.Duration
		want time.Duration // stamp after noon
	}
	for name, steps := range map[string][]step{
		"runs":                         {{run, time.Hour, time.Hour}},
		"idle":                         {{idle, 240 * time.Hour, 240 * time.Hour}},
		"small step":                   {{set, 59 * time.Second, 59 * time.Second}, {run, time.Minute, 119 * time.Second}},
		"small steps":                  {{set, 50 * time.Second, 50 * time.Second}, {set, 50 * time.Second, 100 * time.Second}, {set, 50 * time.Second, 150 * time.Second}},
		"large step stands":            {{set, time.Hour, 0}, {run, 4 * time.Minute, 4 * time.Minute}, {run, 61 * time.Second, time.Hour + 301*time.Second}},
		"large step after a small one": {{set, 50 * time.Second, 50 * time.Second}, {set, time.Hour, 50 * time.Second}, {run, time.Minute, 110 * time.Second}},
		"large step, taken back": {
			{set, 24 * time.Hour, 0}, {run, 4 * time.Minute, 4 * time.Minute}, {set, -24 * time.Hour, 4 * time.Minute},
			{run, time.Hour, 64 * time.Minute},
		},
		"doubt begins anew with another step": {
			{set, 24 * time.Hour, 0}, {run, 4 * time.Minute, 4 * time.Minute}, {set, -22 * time.Hour, 4 * time.Minute},
			{run, 2 * time.Minute, 6 * time.Minute}, {run, 4 * time.Minute, 2*time.Hour + 10*time.Minute},
		},
		"doubt begins anew after it was over": {
			{set, 24 * time.Hour, 0}, {run, time.Minute, time.Minute}, {set, -24 * time.Hour, time.Minute},
			{idle, 10 * time.Minute, 11 * time.Minute}, {set, 24 * time.Hour, 11 * time.Minute},
		},
		"2099": {{set, 73 * 365 * 24 * time.Hour, 0}, {run, time.Minute, time.Minute}, {set, -73 * 365 * 24 * time.Hour, time.Minute}},
		// A step back slows stamps down by a fiftieth until the wall clock is there.
		"back":               {{set, -time.Minute, 0}, {run, 50 * time.Second, 49 * time.Second}, {run, 50 * 59 * time.Second, 49 * 60 * time.Second}, {run, time.Hour, 109 * time.Minute}},
		"back and forth":     {{set, -time.Hour, 0}, {run, 50 * time.Second, 49 * time.Second}, {set, time.Hour, 50 * time.Second}},
		"back, a small step": {{set, -time.Hour, 0}, {set, 30 * time.Second, 0}, {run, 50 * time.Second, 49 * time.Second}},
		"believed, and back": {{set, time.Minute, time.Minute}, {set, -time.Minute, time.Minute}, {run, 50 * time.Minute, 50 * time.Minute}},
		"1970":               {{set, -56 * 365 * 24 * time.Hour, 0}, {run, 50 * time.Second, 49 * time.Second}, {set, 56 * 365 * 24 * time.Hour, 50 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &watchHand{}
			c := h.clock()
			last := c.stamp()
			for i, s := range steps {
				switch s.what {
				case set:
					h.set(s.by)
				case idle:
					h.run(s.by)
				case run:
					for range int(s.by / time.Second) {
						h.run(time.Second)
						if now := c.stamp(); now < last {
							t.Fatalf("step %d: stamp %d after %d", i, now, last)
						} else {
							last = now
						}
					}
				}
				mono := c.mono()
				got := time.Duration(c.stamp()-noon.UnixMilli()) * time.Millisecond
				if got != s.want || mono != h.now().UnixMilli() {
					t.Fatalf("step %d: stamp %v after noon, want %v", i, got, s.want)
				}
			}
		})
	}
}

// R12: whatever the wall clock does, stamps do not decrease, and time passes: no second
// takes more than a fiftieth longer.
func TestR12StampsNeverStandStill(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	h := &watchHand{}
	c := h.clock()
	last := c.stamp()
	for i := range 100_000 {
		if rng.IntN(20) == 0 {
			h.set(time.Duration(rng.NormFloat64() * float64(time.Minute) * float64(uint64(1)<<rng.IntN(16))))
		}
		passed := time.Duration(rng.IntN(2000)) * time.Millisecond
		h.run(passed)
		now := c.stamp()
		if now-last < (passed-passed/slew).Milliseconds()-1 {
			t.Fatalf("seed %d, step %d: %v passed, stamps by %d ms", seed, i, passed, now-last)
		}
		last = now
	}
}

// R12: where time goes on after a restart.
func TestR12Resume(t *testing.T) {
	const day = 24 * time.Hour
	for name, row := range map[string]struct {
		newest, first, settled time.Duration // after noon; the second one after ten minutes
	}{
		"new directory":     {-time.Duration(noon.UnixMilli()) * time.Millisecond, 0, 10 * time.Minute},
		"a moment later":    {-time.Second, 0, 10 * time.Minute},
		"after a long rest": {-300 * day, 0, 10 * time.Minute},
		"set back":          {time.Hour, time.Hour, time.Hour + 10*time.Minute - 12*time.Second},
		"1970":              {56 * 365 * day, 56 * 365 * day, 56*365*day + 10*time.Minute - 12*time.Second},
		"far ahead":         {-73 * 365 * day, -73 * 365 * day, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			h := &watchHand{}
			h.run(-7 * time.Minute)
			c := h.clock()
			h.run(7 * time.Minute) // a directory is large
			c.resume(noon.Add(row.newest).UnixMilli())
			for _, want := range []time.Duration{row.first, row.settled} {
				if got := time.UnixMilli(c.stamp()).Sub(noon); got != want {
					t.Errorf("stamp %v after noon, want %v", got, want)
				}
				h.run(10 * time.Minute)
			}
		})
	}
	h := &watchHand{}
	c := h.clock()
	c.resume(noon.Add(-73 * 365 * day).UnixMilli())
	c.resume(noon.Add(-time.Hour).UnixMilli()) // the journal knew more than the catalogue
	if got := time.UnixMilli(c.stamp()).Sub(noon); got != 0 {
		t.Errorf("stamp %v after noon", got)
	}
}

func TestClockDeadlines(t *testing.T) {
	h := &watchHand{}
	c := h.clock()
	h.set(-time.Hour)
	deadline := c.mono() + 1000
	if got := c.wallOf(deadline); got != h.wall().UnixMilli()+1000 {
		t.Errorf("by the wall clock %d, want %d", got, h.wall().UnixMilli()+1000)
	}
	if got := c.monoOf(c.wallOf(deadline)); got != deadline {
		t.Errorf("a deadline came back as %d, want %d", got, deadline)
	}
}

// R12: a machine that comes up in 2099 with the messages of today drops none of them, and
// forgets no transaction id, while its clock is put right within five minutes.
func TestR12RetentionWaitsForTheClock(t *testing.T) {
	fsys := faultfs.New()
	h := &watchHand{}
	b := mustOpen(t, fsys, h.options)
	_, err := b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
		o.RetentionEnabled, o.RetentionSeconds = true, 3600
		return o, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := newWitness(b).push("p", "m"); err != nil {
		t.Fatal(err)
	}
	h.set(73 * 365 * 24 * time.Hour)
	b = mustOpen(t, fsys.CrashStrict(), h.options)
	left := func() int64 {
		b.retain()
		if _, err := b.checkpoint(); err != nil { // which forgets ids
			t.Fatal(err)
		}
		p := b.queue(DefaultTenant, "q").partition("p")
		return p.end - p.start
	}
	h.run(4 * time.Minute)
	if n := left(); n != 1 {
		t.Fatalf("%d messages left in 2099", n)
	}
	h.set(-73 * 365 * 24 * time.Hour)
	h.run(50 * time.Minute)
	if n := left(); n != 1 {
		t.Fatalf("%d messages left after 54 minutes", n)
	}
	results := make([]PushResult, 1)
	item := PushItem{Queue: []byte("q"), Partition: []byte("p"), TransactionID: []byte("m"), Payload: []byte("1")}
	if err := b.Push(DefaultTenant, []PushItem{item}, nil, results); err != nil || results[0].Status != Duplicate {
		t.Fatalf("pushed again: %+v, %v", results[0], err)
	}
	h.run(7 * time.Minute)
	if n := left(); n != 0 {
		t.Fatalf("%d messages left after 61 minutes", n)
	}
}

// R12: what is stored while a step is in doubt is dated by the clock of before, and is kept
// for as long as anything, and its transaction id, when the step is believed.
func TestR12StoredInDoubt(t *testing.T) {
	h := &watchHand{}
	b := mustOpen(t, faultfs.New(), h.options)
	_, err := b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
		o.RetentionEnabled, o.RetentionSeconds, o.DedupWindowSeconds = true, 3600, 3600
		return o, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	left := func() int64 {
		b.retain()
		if _, err := b.checkpoint(); err != nil { // which forgets ids
			t.Fatal(err)
		}
		p := b.queue(DefaultTenant, "q").partition("p")
		return p.end - p.start
	}
	push := func(id string) PushStatus {
		results := make([]PushResult, 1)
		item := PushItem{Queue: []byte("q"), Partition: []byte("p"), TransactionID: []byte(id), Payload: []byte("1")}
		if err := b.Push(DefaultTenant, []PushItem{item}, nil, results); err != nil {
			t.Fatal(err)
		}
		return results[0].Status
	}
	push("before")
	h.run(time.Second)
	h.set(24 * time.Hour) // the machine has slept
	b.clock.stamp()
	h.run(time.Second)
	push("a")
	h.run(4 * time.Minute)
	push("b")
	for _, step := range []struct {
		run  time.Duration
		want int64
	}{{30 * time.Second, 3}, {time.Minute, 2}, {50 * time.Minute, 2}, {9 * time.Minute, 0}} {
		h.run(step.run)
		if n := left(); n != step.want {
			t.Fatalf("%v later %d messages are left, want %d", step.run, n, step.want)
		}
		if step.want > 0 && (push("a") != Duplicate || push("b") != Duplicate) {
			t.Fatalf("%v later ids are forgotten", step.run)
		}
		if due := b.queue(DefaultTenant, "q").aging.due; step.want == 2 {
			at := noon.Add(24*time.Hour + 2*time.Second + time.Hour + time.Millisecond) // of "a"
			if due[0].At != at.UnixMilli() {
				t.Errorf("%v later the next look is at %v, want %v", step.run, time.UnixMilli(due[0].At).UTC(), at)
			}
		}
	}
	if push("a") != Queued {
		t.Error("an id is known after its window")
	}
}

// R12: who has waited while another came to believe a step goes by it too.
func TestR12DoubtIsOver(t *testing.T) {
	const hour = 3_600_000
	h := &watchHand{}
	c := h.clock()
	c.offset.Store(hour)
	if got := c.doubt(hour, c.baseMs, c.baseMs); got != hour || c.doubting.Load() {
		t.Errorf("offset %d, in doubt %t", got, c.doubting.Load())
	}
}

// R12: the age of a stamp, with and without a step that has been believed.
func TestR12Since(t *testing.T) {
	const window = 60_000
	c := &clock{}
	if at := c.since(100_000, window); at != 40_000 {
		t.Errorf("without a step since %d", at)
	}
	c.late.Store(&late{fromMs: 1000, toMs: 2000, byMs: 500_000}) // 2000 was 502000
	for now, want := range map[int64]int64{
		61_000:  1000, // nothing late is old enough yet
		502_000: 1000, 561_000: 1000, 561_001: 1001, 562_000: 2000,
		562_001: 502_001, 700_000: 640_000,
	} {
		if at := c.since(now, window); at != want {
			t.Errorf("at %d since %d, want %d", now, at, want)
		}
	}
}
