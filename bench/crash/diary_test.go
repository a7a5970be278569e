package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// reading drives a diary by hand: one page, groups "g" and "n", of which the latter is
// for conflation.
type reading struct {
	*script
	d *diary
}

func (r *reading) page() *page { return r.d.pages[0] }

// fill stores n messages.
func (r *reading) fill(n int) {
	var pages []*page
	for range n {
		pages = append(pages, r.page())
	}
	req := r.request()
	from := len(r.page().entries)
	items := r.d.write(pages, req.sent)
	r.answer(&req)
	r.d.wrote(items, r.resultsOf(items, from), false)
}

func (r *reading) resultsOf(items []transferItem, from int) (rs []pushResult) {
	for i := range items {
		at := int64(from + i)
		rs = append(rs, pushResult{Index: i, Status: "queued", Offset: &at})
	}
	return rs
}

// pop delivers entries to a group under a lease of a second.
func (r *reading) pop(group string, entries ...int) {
	r.popAs(&pop{group: group, leaseSeconds: 1}, entries)
}

func (r *reading) popAs(p *pop, entries []int) {
	p.request = r.request()
	r.answer(&p.request)
	var ds []delivered
	for _, n := range entries {
		ds = append(ds, delivered{
			ID: "id", TransactionID: fmt.Sprintf("entry-%d", n), Data: fmt.Appendf(nil, `{"n":%d}`, n), Created: fmt.Sprintf("2026-01-01T00:00:%02d.000Z", n),
			PartitionID: "p-0", Partition: lane(0), LeaseID: "lease",
		})
	}
	r.d.popped(p, ds, p.group == "n")
}

func (r *reading) popLost(p *pop) {
	p.request = r.request()
	r.answer(&p.request)
	r.d.losePop(p)
}

// ack completes what g has; answer is nil for none.
func (r *reading) ack(group string, answer *ackResult) {
	_, marks := r.d.leases(group)
	req := r.request()
	r.answer(&req)
	var results []ackResult
	if answer != nil {
		for range marks {
			results = append(results, *answer)
		}
	}
	r.d.acked(&req, marks, results)
}

func (r *reading) move(to func(*page) (lo, hi int)) { r.d.moved("g", nil, to, "move", r.clock) }

func TestDiary(t *testing.T) {
	done, text := &ackResult{Success: true}, "invalid or expired lease"
	refused := &ackResult{Error: &text}
	for _, row := range []struct {
		name   string
		window time.Duration
		run    func(r *reading)
		want   string
	}{
		{"clean", 0, func(r *reading) {
			r.fill(3)
			r.pop("g", 0, 1)
			r.ack("g", done)
			r.pop("g", 2)
			r.ack("g", done)
			r.pop("g")
			if r.d.behind("g", r.clock) || !r.d.behind("n", r.clock) {
				r.t.Error("only n is behind")
			}
		}, ""},
		{"redelivered", 0, func(r *reading) { r.fill(2); r.pop("g", 0, 1); r.ack("g", done); r.pop("g", 1) }, "redelivered after ack"},
		{"skipped", 0, func(r *reading) { r.fill(3); r.pop("g", 0); r.ack("g", done); r.pop("g", 2) }, "skipped"},
		{"skipped within a batch", 0, func(r *reading) { r.fill(3); r.pop("g", 0, 2) }, "skipped"},
		{"out of order", 0, func(r *reading) { r.fill(3); r.pop("g", 0, 1, 1) }, "order"},
		{"phantom", 0, func(r *reading) { r.fill(1); r.pop("g", 0, 1) }, "phantom"},
		{"nothing comes", 0, func(r *reading) { r.fill(1); r.pop("g") }, "lost"},
		{"nothing comes while it is leased", 0, func(r *reading) { r.fill(1); r.pop("g", 0); r.pop("g") }, ""},
		{"nothing comes after the lease", 0, func(r *reading) { r.fill(1); r.pop("g", 0); r.sleep(time.Second); r.pop("g") }, "lost"},
		{"nothing comes after a lost pop", 0, func(r *reading) { r.fill(1); r.popLost(&pop{group: "g", leaseSeconds: 1}); r.pop("g") }, ""},
		{"lost autoAck took it", 0, func(r *reading) {
			r.fill(1)
			r.popLost(&pop{group: "g", autoAck: true})
			if !r.d.behind("g", r.clock) {
				r.t.Error("something may come")
			}
			r.pop("g")
			if r.d.behind("g", r.clock) {
				r.t.Error("nothing can come")
			}
		}, ""},
		{"lost autoAck took nothing", 0, func(r *reading) { r.fill(1); r.popLost(&pop{group: "g", autoAck: true}); r.pop("g", 0) }, ""},
		{"taken twice", 0, func(r *reading) {
			r.fill(1)
			r.popAs(&pop{group: "g", autoAck: true}, []int{0})
			r.kill()
			r.pop("g", 0)
		}, "redelivered after ack"},
		{"lost ack happened", 0, func(r *reading) { r.fill(2); r.pop("g", 0); r.ack("g", nil); r.pop("g", 1) }, ""},
		{"lost ack did not", 0, func(r *reading) { r.fill(2); r.pop("g", 0); r.ack("g", nil); r.pop("g", 0, 1) }, ""},
		{"refused under a good lease", 0, func(r *reading) { r.fill(1); r.pop("g", 0); r.ack("g", refused) }, "lease lost"},
		{"refused under an old lease", 0, func(r *reading) { r.fill(1); r.pop("g", 0); r.sleep(time.Second); r.ack("g", refused) }, ""},
		{"refused after a crash", 0, func(r *reading) { r.fill(1); r.pop("g", 0); r.kill(); r.ack("g", refused) }, ""},
		{"sought to the beginning", 0, func(r *reading) {
			r.fill(2)
			r.pop("g", 0, 1)
			r.ack("g", done)
			r.move(toBeginning)
			r.pop("g", 0, 1)
		}, ""},
		{"sought to the beginning, and it has not moved", 0, func(r *reading) {
			r.fill(2)
			r.pop("g", 0, 1)
			r.ack("g", done)
			r.move(toBeginning)
			r.pop("g")
		}, "lost"},
		{"sought to the end", 0, func(r *reading) {
			r.fill(2)
			r.pop("g", 0)
			r.move(toEnd)
			r.pop("g")
			r.fill(1)
			r.pop("g", 2)
		}, ""},
		{"sought to the end, and it comes again", 0, func(r *reading) { r.fill(2); r.move(toEnd); r.pop("g", 1) }, "redelivered after ack"},
		{"sought to the end, and more was skipped", 0, func(r *reading) { r.fill(2); r.move(toEnd); r.fill(2); r.pop("g", 3) }, "skipped"},
		{"the seek has released the lease", 0, func(r *reading) { r.fill(2); r.pop("g", 0); r.move(toBeginning); r.pop("g") }, "lost"},
		{"the seek does not touch others", 0, func(r *reading) { r.fill(1); r.pop("n", 0); r.ack("n", done); r.move(toBeginning); r.pop("n", 0) }, "redelivered after ack"},
		{"sought to a time", 0, func(r *reading) {
			r.fill(3)
			r.pop("g", 0, 1, 2)
			r.move(toTime(r.d.someTime(func(n int) int { return n / 2 })))
			r.pop("g", 1, 2)
		}, ""},
		{"sought to a time, too late", 0, func(r *reading) {
			r.fill(3)
			r.pop("g", 0, 1, 2)
			r.move(toTime(r.d.someTime(func(n int) int { return n / 2 })))
			r.pop("g", 2)
		}, "skipped"},
		{"sought to a time, too early", 0, func(r *reading) {
			r.fill(3)
			r.pop("g", 0, 1, 2)
			r.move(toTime(r.d.someTime(func(n int) int { return n / 2 })))
			r.pop("g", 0)
		}, "redelivered after ack"},
		{"expired", 2 * time.Second, func(r *reading) { r.fill(2); r.sleep(2 * time.Second); r.fill(1); r.pop("g", 2) }, ""},
		{"expired too early", 2 * time.Second, func(r *reading) { r.fill(2); r.sleep(time.Second); r.fill(1); r.pop("g", 2) }, "skipped"},
		{"expired within a batch", time.Second, func(r *reading) { r.fill(2); r.sleep(time.Second); r.fill(1); r.pop("g", 0, 2) }, ""},
		{"all expired", time.Second, func(r *reading) { r.fill(2); r.sleep(time.Second); r.pop("g") }, ""},
		{"nothing comes, and not all has expired", time.Second, func(r *reading) { r.fill(2); r.sleep(time.Second); r.fill(1); r.pop("g") }, "lost"},
		{"the newest", 0, func(r *reading) {
			r.fill(3)
			r.pop("n", 2)
			r.ack("n", done)
			r.fill(2)
			r.pop("n", 4)
		}, ""},
		{"not the newest", 0, func(r *reading) { r.fill(3); r.pop("n", 1) }, "not the newest"},
		{"the newest again after its ack", 0, func(r *reading) { r.fill(3); r.pop("n", 2); r.ack("n", done); r.pop("n", 2) }, "redelivered after ack"},
		{"the newest again without one", 0, func(r *reading) { r.fill(3); r.pop("n", 2); r.sleep(time.Second); r.fill(1); r.pop("n", 3) }, ""},
		{"stored at another offset", 0, func(r *reading) {
			items := r.d.write([]*page{r.page()}, r.clock)
			r.d.wrote(items, r.resultsOf(items, 1), false)
		}, "offset"},
		{"duplicate at the first try", 0, func(r *reading) {
			items := r.d.write([]*page{r.page()}, r.clock)
			r.d.wrote(items, []pushResult{{Status: "duplicate"}}, false)
		}, "push answer"},
		{"duplicate at the second try", 0, func(r *reading) {
			items := r.d.write([]*page{r.page()}, r.clock)
			r.d.wrote(items, []pushResult{{Status: "duplicate"}}, true)
		}, ""},
		{"time changed", 0, func(r *reading) {
			r.fill(1)
			r.pop("g", 0)
			r.page().entries[0].created = "2025"
			r.pop("g", 0)
		}, "time changed"},
		{"time goes back", 0, func(r *reading) {
			r.fill(2)
			r.pop("g", 0)
			r.page().entries[0].created = "2027"
			r.move(toEnd)
			r.move(toBeginning)
			r.pop("g", 1)
		}, "time goes back"},
	} {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			s := newScript(t)
			r := &reading{s, newDiary(s.checker, "q", row.window, 1, "g", "n")}
			row.run(r)
			checkRule(t, s, row.want)
		})
	}
}

// TestToTime expects the bounds that known times allow.
func TestToTime(t *testing.T) {
	for _, tt := range []struct {
		created string // of the entries, ? for one that was not seen
		lo, hi  int
	}{
		{"", -1, -1}, {"5", -1, -1}, {"1", 0, 0}, {"?", -1, 0}, {"1 5", 0, 0}, {"1 ? 5", 0, 1}, {"1 3 3", 0, 0}, {"? 3", -1, 0}, {"1 2 ?", 1, 2}, {"1 1 4 ? 5", 1, 1},
	} {
		p := &page{}
		for _, c := range strings.Fields(tt.created) {
			p.entries = append(p.entries, entry{created: strings.Trim(c, "?")})
		}
		if lo, hi := toTime("3")(p); lo != tt.lo || hi != tt.hi {
			t.Errorf("%q: got %d to %d want %d to %d", tt.created, lo, hi, tt.lo, tt.hi)
		}
	}
}
