package acceptance

import (
	"testing"
	"time"
)

// hideRoutes are the ways to pop that visibility holds for.
var hideRoutes = map[string]func(w *world, params ...string) *popAnswer{
	"queue":     func(w *world, params ...string) *popAnswer { return w.pop("ns.q", params...) },
	"pinned":    func(w *world, params ...string) *popAnswer { return w.popFrom("ns.q", "p", params...) },
	"discovery": func(w *world, params ...string) *popAnswer { return w.discover(append(params, "namespace=ns")...) },
	"auto ack":  func(w *world, params ...string) *popAnswer { return w.pop("ns.q", append(params, "autoAck=true")...) },
	"group": func(w *world, params ...string) *popAnswer {
		return w.pop("ns.q", append(params, "consumerGroup=g")...)
	},
}

// Hidden at once, there when the delay is over, and a parked pop wakes.
func TestM260DelayedProcessing(t *testing.T) {
	for name, pop := range hideRoutes {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.configureRaw(`{"queue":"ns.q","namespace":"ns","options":{"delayedProcessing":1}}`)
			start := time.Now()
			w.queued(msg("ns.q", "p", "a"))
			w.nothing(pop(w))
			w.want(pop(w, "wait=true", "timeout=20000"), "a")
			if d := time.Since(start); d < 990*time.Millisecond || d > 3*time.Second {
				t.Errorf("visible after %v", d)
			}
		})
	}
}

func TestM261DelayIsExact(t *testing.T) {
	w := open(t)
	w.configure("q", `{"delayedProcessing":30}`)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
	w.clock.advance(28 * time.Second)
	w.queued(msg("q", "p", "c"))
	w.nothing(w.popFrom("q", "p"))
	w.clock.advance(2 * time.Second)
	w.want(w.popFrom("q", "p", "consumerGroup=g"), "a", "b") // the newest tail is cut off
	w.ackAll("", w.want(w.popFrom("q", "p"), "a", "b"))
	w.nothing(w.popFrom("q", "p"))
	w.clock.advance(28 * time.Second)
	w.want(w.popFrom("q", "p"), "c")
}

// The delay is looked at when a pop is made, so changing it shows and hides what is stored.
func TestM260ChangedDelay(t *testing.T) {
	w := open(t)
	w.configure("q", `{"delayedProcessing":3600}`)
	w.queued(msg("q", "p", "a"))
	w.nothing(w.pop("q"))
	got := later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=20000") })
	w.parked(1)
	w.configure("q", `{}`)
	w.ackAll("", w.want(<-got, "a"))
	w.queued(msg("q", "p", "b"))
	w.configure("q", `{"delayedProcessing":3600}`)
	w.nothing(w.pop("q"))
	w.nothing(w.popFrom("q", "p"))
	w.clock.advance(time.Hour)
	w.want(w.popFrom("q", "p"), "b")
}

func TestM262WindowBuffer(t *testing.T) {
	for name, pop := range hideRoutes {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.configureRaw(`{"queue":"ns.q","namespace":"ns","options":{"windowBuffer":1}}`)
			start := time.Now()
			for _, id := range []string{"a", "b", "c"} {
				w.queued(msg("ns.q", "p", id))
			}
			w.nothing(pop(w, "batch=4"))
			w.want(pop(w, "batch=4", "wait=true", "timeout=20000"), "a", "b", "c")
			if d := time.Since(start); d < 990*time.Millisecond || d > 3*time.Second {
				t.Errorf("visible after %v", d)
			}
		})
	}
}

// A partition that is written to all the time opens nevertheless.
func TestM263WindowBufferIsBounded(t *testing.T) {
	w := open(t)
	w.configure("q", `{"windowBuffer":35}`)
	for _, id := range []string{"a", "b", "c", "d"} {
		w.nothing(w.popFrom("q", "p"))
		w.queued(msg("q", "p", id))
		w.clock.advance(10 * time.Second)
	}
	p := w.want(w.popFrom("q", "p"), "a", "b", "c", "d")
	w.ackAll("", p)

	w.queued(numbered("q", "p", "m", 99)...)
	w.nothing(w.popFrom("q", "p"))
	w.queued(msg("q", "p", "the hundredth"))
	if p := w.popFrom("q", "p"); len(p.ids()) != 100 {
		t.Errorf("popped %v", p.ids())
	}
}

func TestM263HundredMessagesWake(t *testing.T) {
	w := open(t)
	w.configure("q", `{"windowBuffer":3600}`)
	w.queued(numbered("q", "p", "m", 60)...)
	got := later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=20000", "batch=500") })
	w.parked(1)
	w.queued(numbered("q", "p", "n", 60)...)
	if p := <-got; len(p.ids()) != 120 {
		t.Errorf("popped %v", p.ids())
	}
}

// A gate that is closed leaves no trace: no lease, no cursor.
func TestM262ClosedGateLeavesNoTrace(t *testing.T) {
	w := open(t)
	w.configure("q", `{"windowBuffer":3600}`)
	w.queued(msg("q", "p", "a"))
	w.nothing(w.popFrom("q", "p", "consumerGroup=g"))
	w.nothing(w.pop("q", "partitions=0"))
	if d := w.queue("q"); d.Totals.Processing != 0 || d.Totals.Pending != 1 {
		t.Errorf("totals %+v", d.Totals)
	}
	w.configure("q", `{}`)
	w.want(w.popFrom("q", "p", "consumerGroup=g"), "a")
}

func TestM265TheLongerHoldDecides(t *testing.T) {
	for _, row := range []struct {
		options string
		held    time.Duration
	}{{`{"delayedProcessing":30,"windowBuffer":10}`, 30 * time.Second}, {`{"delayedProcessing":10,"windowBuffer":30}`, 30 * time.Second}} {
		t.Run(row.options, func(t *testing.T) {
			w := open(t)
			w.configure("q", row.options)
			w.queued(msg("q", "p", "a"))
			w.clock.advance(row.held - 2*time.Second)
			w.nothing(w.popFrom("q", "p"))
			w.clock.advance(2 * time.Second)
			w.want(w.popFrom("q", "p"), "a")
		})
	}
}

// A hundred messages open the window, not the delay.
func TestM265DelayHoldsAHundredMessages(t *testing.T) {
	w := open(t)
	w.configure("q", `{"delayedProcessing":30,"windowBuffer":10}`)
	w.queued(numbered("q", "p", "m", 150)...)
	w.nothing(w.popFrom("q", "p"))
	w.clock.advance(30 * time.Second)
	if p := w.popFrom("q", "p"); len(p.ids()) != 150 {
		t.Errorf("popped %v", p.ids())
	}
}

func TestM260DelayAcrossRestart(t *testing.T) {
	w := open(t)
	w.configure("q", `{"delayedProcessing":1}`)
	w.queued(msg("q", "p", "a"))
	w.restart()
	w.want(w.pop("q", "wait=true", "timeout=20000"), "a")
}
