package lease

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const tick = 10 * time.Millisecond

const day = int64(24 * time.Hour / time.Millisecond)

// TestWheelFires moves the clock along a script. want lists the keys, here the
// deadlines themselves, that each Advance must return.
func TestWheelFires(t *testing.T) {
	type step struct {
		add     []int64
		advance int64
		want    []int64
	}
	tests := []struct {
		name  string
		start int64
		steps []step
	}{
		{"nothing", 0, []step{{nil, 100, nil}}},
		{"on its tick", 0, []step{{[]int64{20}, 19, nil}, {nil, 20, []int64{20}}, {nil, 30, nil}}},
		{"rounded up, not down", 0, []step{{[]int64{11}, 11, nil}, {nil, 19, nil}, {nil, 20, []int64{11}}}},
		{"start between ticks", 1005, []step{{[]int64{1006}, 1009, nil}, {nil, 1010, []int64{1006}}}},
		{"already past", 1000, []step{{[]int64{7, 1000, -5}, 1000, []int64{-5, 7, 1000}}}},
		{"in order", 0, []step{{[]int64{5000, 10, 700, 123456}, day, []int64{10, 700, 5000, 123456}}}},
		{"edges of every level", 0, []step{
			{[]int64{630, 640, 650, 40950, 40960, 40970, 2621430, 2621440}, 639, []int64{630}},
			{nil, 40959, []int64{640, 650, 40950}},
			{nil, 2621439, []int64{40960, 40970, 2621430}},
			{nil, 2621440, []int64{2621440}},
		}},
		{"years ahead", 5, []step{{[]int64{3000 * day}, 3000*day - 1, nil}, {nil, 3000 * day, []int64{3000 * day}}}},
		{"end of time", 0, []step{{[]int64{math.MaxInt64}, 1e15, nil}, {[]int64{2e15}, 3e15, []int64{2e15}}}},
		{"step back keeps what is on the wheel", 10000, []step{
			{[]int64{12000}, 5000, nil},
			{nil, 11999, nil},
			{nil, 12000, []int64{12000}},
		}},
		{"step back, new deadlines by the new clock", 10000, []step{
			{nil, 5000, nil},
			{[]int64{5200, 5100, 9000}, 5099, nil},
			{nil, 5100, []int64{5100}},
			{nil, 5050, nil},
			{nil, 5300, []int64{5200}},
			{nil, 20000, []int64{9000}},
		}},
		{"before 1970", -500, []step{{[]int64{-400}, -450, []int64{-400}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWheel[int64](tt.start, tick)
			for i, s := range tt.steps {
				for _, d := range s.add {
					w.Add(d, d)
				}
				if got := w.Advance(s.advance, nil); !slices.Equal(got, s.want) {
					t.Fatalf("step %d: Advance(%d) got %v, want %v", i, s.advance, got, s.want)
				}
			}
		})
	}
}

func TestWheelNext(t *testing.T) {
	w := NewWheel[int](1000, tick)
	if _, ok := w.Next(); ok {
		t.Fatal("Next of an empty wheel reported a deadline")
	}
	w.Add(math.MaxInt64, 1)
	if next, ok := w.Next(); !ok || next <= 1000 {
		t.Errorf("Next got %d, %v, want a time after now", next, ok)
	}
	w.Add(1015, 2)
	if next, ok := w.Next(); !ok || next != 1020 {
		t.Errorf("Next got %d, %v, want 1020", next, ok)
	}
	w.Add(3, 3)
	if next, ok := w.Next(); !ok || next != 10 {
		t.Errorf("Next with an entry overdue got %d, %v, want 10", next, ok)
	}
}

// TestWheelNextReachesEveryDeadline sleeps as the owner does, from Next to Next, and
// must see each entry at its tick with few wake-ups for nothing.
func TestWheelNextReachesEveryDeadline(t *testing.T) {
	w := NewWheel[int64](0, tick)
	deadlines := []int64{10, 640, 650, 41000, 99990, 5 * day, 500 * day}
	for _, d := range deadlines {
		w.Add(d, d)
	}
	var got []int64
	wakeups := 0
	for {
		next, ok := w.Next()
		if !ok {
			break
		}
		wakeups++
		before := len(got)
		got = w.Advance(next, got)
		for _, d := range got[before:] {
			if d != next {
				t.Errorf("deadline %d fired at %d", d, next)
			}
		}
	}
	if !slices.Equal(got, deadlines) {
		t.Errorf("got %v, want %v", got, deadlines)
	}
	if limit := levels * len(deadlines); wakeups > limit {
		t.Errorf("%d wake-ups for %d deadlines, want at most %d", wakeups, len(deadlines), limit)
	}
}

// TestWheelModel compares the wheel with a list that is searched: whatever the
// deadlines and the clock do, each entry fires once, at the first Advance that has
// reached its tick.
func TestWheelModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tickMs := rapid.SampledFrom([]int64{1, 10, 64}).Draw(t, "tickMs")
		now := rapid.Int64Range(0, 1<<40).Draw(t, "start")
		w := NewWheel[int](now, time.Duration(tickMs)*time.Millisecond)
		due := map[int]int64{} // key to the time of its first tick
		key := 0
		distance := rapid.OneOf(rapid.Int64Range(-100, 1000), rapid.Int64Range(-100, 1<<20), rapid.Int64Range(0, 1<<45))
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				deadline := now + distance.Draw(t, "in")
				w.Add(deadline, key)
				due[key] = max(0, deadline+tickMs-1) / tickMs * tickMs
				key++
			},
			"advance": func(t *rapid.T) {
				now = max(0, now+distance.Draw(t, "by"))
				fireModel(t, w, due, now)
			},
			"step back": func(t *rapid.T) {
				now = max(0, now-rapid.Int64Range(0, 1<<22).Draw(t, "by"))
				fireModel(t, w, due, now)
			},
			"": func(t *rapid.T) {
				if w.Len() != len(due) {
					t.Fatalf("Len got %d, want %d", w.Len(), len(due))
				}
				next, ok := w.Next()
				if ok != (len(due) > 0) {
					t.Fatalf("Next reported %v with %d entries", ok, len(due))
				}
				for k, at := range due {
					if next > at {
						t.Fatalf("Next got %d, but key %d is due at %d", next, k, at)
					}
				}
			},
		})
	})
}

func fireModel(t *rapid.T, w *Wheel[int], due map[int]int64, now int64) {
	last := int64(math.MinInt64)
	for _, k := range w.Advance(now, nil) {
		at, ok := due[k]
		if !ok || at > now {
			t.Fatalf("key %d fired at %d: known %v, due at %d", k, now, ok, at)
		}
		if at < last {
			t.Fatalf("key %d of tick %d fired after tick %d", k, at, last)
		}
		last = at
		delete(due, k)
	}
	for k, at := range due {
		if at <= now {
			t.Fatalf("key %d due at %d did not fire at %d", k, at, now)
		}
	}
}

// TestWheelGivesBack checks that a burst does not stay as unused memory.
func TestWheelGivesBack(t *testing.T) {
	w := NewWheel[int](0, tick)
	for i := range 100_000 {
		w.Add(int64(1000+i%1000), i)
		w.Add(-1, i) // overdue
	}
	if got := len(w.Advance(1<<20, nil)); got != 200_000 {
		t.Fatalf("fired %d, want 200000", got)
	}
	if w.inUseLen != 0 || w.freeLen > spareChunks {
		t.Errorf("%d chunks in use and %d free, want 0 and at most %d", w.inUseLen, w.freeLen, spareChunks)
	}
	if cap(w.late) > spareEntries {
		t.Errorf("late entries keep room for %d", cap(w.late))
	}
}

type benchKey struct {
	partition uint64
	_         uint64 // as large as a Key
}

// BenchmarkWheel renews leases of 60 s under a clock that moves 10 ms at a time:
// each operation is one entry fired and added again.
func BenchmarkWheel(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"entries=1k", 1_000}, {"entries=1M", 1_000_000}} {
		b.Run(size.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			w := NewWheel[benchKey](0, tick)
			for i := range size.n {
				w.Add(rng.Int64N(60_000), benchKey{partition: uint64(i)})
			}
			var fired []benchKey
			var now int64
			b.ReportAllocs()
			for n := 0; n < b.N; {
				now += 10
				fired = w.Advance(now, fired[:0])
				for _, k := range fired {
					w.Add(now+60_000, k)
				}
				n += len(fired)
			}
		})
	}
}
