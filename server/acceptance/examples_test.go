package acceptance

import (
	"fmt"
	"slices"
	"testing"
)

// example is the state that each worked example starts from: ten messages of a
// partition, 10 to 19, leased under one lease, those below done and others above.
type example struct {
	*world
	m map[int]message
}

func newExample(t *testing.T) *example {
	w := open(t)
	w.configure("q", `{"retryLimit":3}`)
	var items []item
	for i := range 30 {
		items = append(items, msg("q", "p", fmt.Sprint(i)))
	}
	w.queued(items...)
	e := &example{w, map[int]message{}}
	w.ackAll("", w.popFrom("q", "p", "batch=10"))
	e.lease(10, 19)
	return e
}

// lease pops from one message to another.
func (e *example) lease(from, to int) []message {
	e.t.Helper()
	var want []string
	for i := from; i <= to; i++ {
		want = append(want, fmt.Sprint(i))
	}
	p := e.want(e.popFrom("q", "p", fmt.Sprint("batch=", to-from+1)), want...)
	for i, m := range p.Messages {
		e.m[from+i] = m
	}
	return p.Messages
}

// ackOf sends acks of one call: each is a number and a status.
func (e *example) ackOf(acks ...ack) []ackResult { e.t.Helper(); return e.ackBatch("", acks...) }

// retries finds the retry counter: so many failures are still free. It consumes the
// budget and files the first message that is not committed.
func (e *example) retries(want int) {
	e.t.Helper()
	for n := 3; ; n-- {
		p := e.popFrom("q", "p", "batch=1")
		if p == nil {
			e.t.Fatal("nothing to fail")
		}
		r := e.ack("", p.Messages[0].as("failed"))
		if !r.Success {
			e.t.Fatalf("fail: %s", show(r))
		}
		if r.DeadLetter {
			if n != want {
				e.t.Errorf("retry counter %d, want %d", n, want)
			}
			return
		}
	}
}

// next checks where the group's next batch begins, by a group-wide pop after the lease
// has gone.
func (e *example) next(from int) {
	e.t.Helper()
	p := e.popFrom("q", "p", "batch=1")
	e.want(p, fmt.Sprint(from))
	e.ok(true, e.ack("", p.Messages[0].as("retry")))
}

func TestWorkedExamples(t *testing.T) {
	completed := func(e *example, i int) ack { return e.m[i].as("completed") }
	rows := []struct {
		name string
		run  func(e *example)
	}{
		{"1 completed 19", func(e *example) {
			e.ok(true, e.ackOf(completed(e, 19))...)
			e.next(20)
		}},
		{"2 completed 14", func(e *example) {
			e.ok(false, e.ackOf(completed(e, 14))...)
			e.nothing(e.popFrom("q", "p")) // the lease is kept
			e.ok(true, e.ackOf(completed(e, 19))...)
		}},
		{"3 completed 14 and expiry", func(e *example) {
			e.ok(false, e.ackOf(completed(e, 14))...)
			e.lapse()
			e.next(15)
			e.retries(0)
		}},
		{"4 completed 14, completed 12", func(e *example) {
			e.ok(false, e.ackOf(completed(e, 14))...)
			e.noop(e.ackOf(completed(e, 12))[0])
			e.nothing(e.popFrom("q", "p"))
		}},
		{"5 completed 14, failed 12", func(e *example) {
			e.ok(false, e.ackOf(completed(e, 14))...)
			e.refused(e.ackOf(e.m[12].as("failed"))[0], alreadyCommitted)
			e.nothing(e.popFrom("q", "p"))
			e.lapse()
			e.next(15)
			e.retries(0)
		}},
		{"6 one failure among ten", func(e *example) {
			acks := []ack{completed(e, 10), e.m[11].as("failed")}
			for i := 12; i <= 19; i++ {
				acks = append(acks, completed(e, i))
			}
			e.ok(true, e.ackOf(acks...)...)
			e.lease(11, 19)
			e.ok(true, e.ackOf(e.m[11].as("retry"))...)
			e.retries(1)
		}},
		{"7 all ten failed", func(e *example) {
			var acks []ack
			for i := 10; i <= 19; i++ {
				acks = append(acks, e.m[i].as("failed"))
			}
			e.ok(true, e.ackOf(acks...)...)
			e.next(10)
			e.retries(1)
		}},
		{"8 12 retry, 15 dlq", func(e *example) {
			e.ok(true, e.ackOf(e.m[12].as("retry"), e.m[15].as("dlq"))...)
			if ids := e.buriedIDs("q"); len(ids) > 0 {
				e.t.Errorf("dead letters %v", ids)
			}
			e.next(10)
			e.retries(0)
		}},
		{"9 12 failed and dlq", func(e *example) {
			for _, r := range e.ackOf(e.m[12].as("failed"), e.m[12].as("dlq")) {
				e.buried(r)
			}
			if ids := e.buriedIDs("q"); !slices.Equal(ids, []string{"12"}) {
				e.t.Errorf("dead letters %v", ids)
			}
			e.next(13)
		}},
		{"10 and 11 failed 10 four times", func(e *example) {
			for range 3 {
				e.ok(true, e.ackOf(e.m[10].as("failed"))...)
				e.lease(10, 19)
			}
			e.buried(e.ackOf(e.m[10].as("failed"))[0])
			d := e.deadLetters()
			if len(d) != 1 || d[0].TransactionID != "10" || d[0].RetryCount != 3 {
				e.t.Errorf("dead letters %+v", d)
			}
			e.next(11)
			e.retries(0)
		}},
		{"12 dlq 13 alone", func(e *example) {
			e.buried(e.ackOf(e.m[13].as("dlq"))[0])
			if ids := e.buriedIDs("q"); !slices.Equal(ids, []string{"13"}) {
				e.t.Errorf("dead letters %v", ids)
			}
			e.next(14)
		}},
		{"13 completed 25", func(e *example) {
			e.refused(e.ackOf(completed(e, 10).id("25"))[0], unresolvable)
			e.nothing(e.popFrom("q", "p"))
			e.ok(true, e.ackOf(completed(e, 19))...)
			e.next(20)
		}},
		{"14 expired, completed 19", func(e *example) {
			e.lapse()
			e.refused(e.ackOf(completed(e, 19))[0], leaseInvalid)
			e.next(10)
		}},
		{"15 expired, completed 19 without lease", func(e *example) {
			e.lapse()
			e.ok(true, e.ackOf(completed(e, 19).leaseless())...)
			e.next(20)
		}},
		{"16 leased by another, completed 19 without lease", func(e *example) {
			e.lapse()
			a := e.m[19]
			e.lease(10, 19)
			e.ok(true, e.ackOf(a.as("completed").leaseless())...)
			e.refused(e.ackOf(completed(e, 19))[0], leaseInvalid)
			e.next(20)
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { row.run(newExample(t)) })
	}
}
