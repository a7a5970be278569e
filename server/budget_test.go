package server

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 40) // 60 shared, 40 in reserve
		var first, second, third, fourth grant
		if !b.take(&first, 50, 0) || first.unlimited {
			t.Fatal("50 of 60 refused")
		}
		if !b.take(&second, 20, 0) || !second.unlimited {
			t.Fatal("the reserve was refused")
		}
		if !b.take(&second, 20, 0) {
			t.Fatal("who holds the reserve waits")
		}
		if b.take(&third, 11, time.Second) {
			t.Fatal("11 of 10 granted")
		}
		if b.take(&first, 11, time.Second) {
			t.Fatal("11 of 10 granted to who has some")
		}

		// In order: a small request does not overtake a large one.
		order := make(chan int, 2)
		go func() { order <- map[bool]int{true: 3}[b.take(&third, 30, time.Minute)] }()
		synctest.Wait()
		go func() { order <- map[bool]int{true: 4}[b.take(&fourth, 5, time.Minute)] }()
		synctest.Wait()
		if len(order) > 0 {
			t.Fatal("granted beyond the budget")
		}
		b.giveBack(&second) // the reserve passes to the third, 5 of 10 to the fourth
		synctest.Wait()
		if a, c := <-order, <-order; a+c != 7 || !third.unlimited || fourth.unlimited {
			t.Fatalf("got %d, %d, reserve with the third: %t", a, c, third.unlimited)
		}
		for _, g := range []*grant{&first, &second, &third, &fourth} {
			b.giveBack(g)
		}
		if b.free != 60 || b.reserved || len(b.waiting) > 0 {
			t.Errorf("left %+v", b)
		}
	})
}

// However requests interleave, one of them can always finish.
func TestBudgetNeverLocksUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const body, step = 64, 8
		b := newBudget(4*body, body)
		finished := make(chan bool, 50)
		for range cap(finished) {
			go func() {
				var g grant
				defer b.giveBack(&g)
				for n := 0; n < body; n += step {
					if !b.take(&g, step, time.Hour) {
						finished <- false
						return
					}
					time.Sleep(time.Millisecond) // of the bubble: the others come between
				}
				finished <- true
			}()
		}
		for range cap(finished) {
			if !<-finished {
				t.Fatal("a request starved")
			}
		}
	})
}

// A body that gets no budget is answered, not left hanging.
func TestBudgetExhausted(t *testing.T) {
	s := New(Options{InFlightBytes: 1, MaxBodyBytes: 1 << 20})
	var holder, g grant
	s.bodies.take(&holder, 1, 0)
	if s.bodies.take(&g, 1, 0) {
		t.Fatal("granted twice")
	}
	s.bodies.giveBack(&g)
	s.bodies.giveBack(&holder)
	if !s.bodies.take(&g, 1, 0) {
		t.Fatal("the reserve did not come back")
	}
}

// Who gives up makes room for those behind who want less.
func TestBudgetGivingUpServesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(164, 64)
		var reserve, large, small grant
		if !b.take(&reserve, 101, 0) || !reserve.unlimited {
			t.Fatal("the reserve was not granted")
		}
		gaveUp, served := make(chan bool), make(chan bool)
		go func() { gaveUp <- !b.take(&large, 600, time.Second) }()
		synctest.Wait()
		go func() { served <- b.take(&small, 10, time.Hour) }()
		if !<-gaveUp || !<-served {
			t.Fatal("want the first to give up and the second to be served")
		}
	})
}
