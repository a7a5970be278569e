package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestP16LongPollDoesNotSleepThroughItsMessage(t *testing.T) {
	w := open(t)
	const partitions, groups, idle = 200, 3, 10
	polls := make([]<-chan *popAnswer, partitions)
	for i := range polls {
		polls[i] = later(func() *popAnswer {
			return w.popFrom("q", fmt.Sprint("p", i), fmt.Sprint("consumerGroup=g", i%groups), "wait=true", "timeout=60000")
		})
	}
	w.parked(partitions)
	// Others wait for what does not come: nobody wakes them with an empty answer.
	others := make([]<-chan *popAnswer, idle)
	for i := range others {
		others[i] = later(func() *popAnswer { return w.popFrom("q", "none", "wait=true", "timeout=60000") })
	}
	w.parked(partitions + idle)
	for i, poll := range polls {
		id := fmt.Sprint("m", i)
		w.queued(msg("q", fmt.Sprint("p", i), id))
		w.want(<-poll, id)
	}
	w.parked(idle)
	w.running.broker.StopWaiting() // as a stop begins
	for _, poll := range others {
		w.nothing(<-poll)
	}
}

func TestP19IdleGroupKeepsItsPlace(t *testing.T) {
	w := open(t, retaining)
	w.configure("q", `{"retentionEnabled":true,"retentionSeconds":1000,"completedRetentionSeconds":10}`)
	w.queued(numbered("q", "p", "m", 5)...)
	w.ackAll("g", w.pop("q", "consumerGroup=g"))
	for _, again := range []func(){w.restart, w.crash} {
		again()
		w.after(300 * 24 * time.Hour)
		w.total("q", 0)
	}
	w.queued(msg("q", "p", "next"))
	w.want(w.pop("q", "consumerGroup=g"), "next")
	w.nothing(w.pop("q", "consumerGroup=g", "partitions=0"))
}

// A group that is deleted and made again begins as at its first contact, whatever it had
// consumed. In a partition that comes later it begins with the first message.
func TestP20RecreatedGroup(t *testing.T) {
	for _, row := range []struct {
		name, mode, from string
		first, again     string // of "old recent", and of "old recent late a b"
	}{
		{"default", "", "", "old recent", "old recent late a b"},
		{"all", "all", "", "old recent", "old recent late a b"},
		{"new", "new", "", "", ""},
		{"now", "", "now", "", ""},
		{"past", "", "past", "recent", "recent late a b"},
		{"unparsable", "", "soon", "", ""},
	} {
		for _, group := range []string{"g", queueMode} {
			t.Run(row.name+"/"+group, func(t *testing.T) {
				w := open(t)
				w.queued(msg("q", "early", "old"))
				w.clock.advance(10 * time.Second)
				between := w.clock.now()
				w.clock.advance(10 * time.Second)
				w.queued(msg("q", "early", "recent"))
				first, again := row.first, row.again
				if group == queueMode { // is asked for nothing
					first, again = "old recent", "old recent late a b"
				}
				contact := func() []string {
					return w.drain(group, "q", "subscriptionMode="+row.mode, "subscriptionFrom="+strings.Replace(row.from, "past", stamp(between), 1))
				}
				sameSet(t, "at first", contact(), strings.Fields(first)...)
				w.queued(msg("q", "new", "a"), msg("q", "new", "b"), msg("q", "early", "late"))
				sameSet(t, "then", contact(), "a", "b", "late")
				if d := w.deleteGroup(group, ""); d.Deleted != 2 {
					t.Errorf("deleted %+v", d)
				}
				w.crash()
				sameSet(t, "made again", contact(), strings.Fields(again)...)
				w.queued(msg("q", "newer", "c"), msg("q", "early", "later"))
				sameSet(t, "at last", contact(), "c", "later")
			})
		}
	}
}

func TestP21SeekMovesEverything(t *testing.T) {
	w := open(t)
	const partitions = 500
	var old, recent []item
	var want []string
	for p := range partitions {
		old = append(old, msg("q", fmt.Sprint(p), fmt.Sprint("old", p)))
		recent = append(recent, msg("q", fmt.Sprint(p), fmt.Sprint("a", p)), msg("q", fmt.Sprint(p), fmt.Sprint("b", p)))
		want = append(want, fmt.Sprint("a", p), fmt.Sprint("b", p))
	}
	w.queued(old...)
	w.clock.advance(10 * time.Second)
	middle := w.clock.now()
	w.clock.advance(10 * time.Second)
	w.queued(recent...)
	if got := w.drain("g", "q"); len(got) != 3*partitions {
		t.Fatalf("drained %d", len(got))
	}
	w.queued(msg("q", "0", "leased"))
	leased := w.want(w.pop("q", "consumerGroup=g"), "leased").Messages[0]

	var mu sync.Mutex
	var got []string
	inOrder := true
	var consumers sync.WaitGroup
	for range 4 {
		consumers.Go(func() {
			for {
				p := w.pop("q", "consumerGroup=g", "partitions=20", "batch=100", "wait=true", "timeout=60000")
				if p == nil {
					return
				}
				mu.Lock()
				for i, id := range p.ids() {
					if strings.HasPrefix(id, "b") && (i == 0 || p.ids()[i-1] != "a"+id[1:]) {
						inOrder = false
					}
				}
				got = append(got, p.ids()...)
				all := len(got) == len(want)+1
				mu.Unlock()
				w.ackAll("g", p)
				if all {
					w.running.broker.StopWaiting()
				}
			}
		})
	}
	w.parked(4)
	w.seek("g", "q", since(middle))
	w.refused(w.ack("g", leased.as("completed")), leaseInvalid)
	consumers.Wait()
	sameSet(t, "replayed", got, append(want, "leased")...)
	if !inOrder {
		t.Error("out of order")
	}
	w.crash()
	w.nothing(w.pop("q", "consumerGroup=g"))

	w.seek("g", "q", since(middle))
	w.crash() // right after the answer
	if n := len(w.drain("g", "q")); n != len(want)+1 {
		t.Errorf("%d replayed after a kill", n)
	}
	w.seek("g", "q", toBegin)
	w.queued(msg("q", "0", "skipped"))
	w.seek("g", "q", toEnd)
	w.crash()
	w.queued(msg("q", "0", "next"))
	if got := w.drain("g", "q"); !slices.Equal(got, []string{"next"}) {
		t.Errorf("behind the end: %v", got)
	}
}

func TestP22PartialConfigure(t *testing.T) {
	w := open(t)
	w.configureRaw(`{"queue":"q","namespace":"n","task":"t","options":` + allOptions + `}`)
	merge := func(options string) configureAnswer {
		return w.configureRaw(`{"queue":"q","mode":"merge","options":` + options + `}`)
	}
	want := all
	want.LeaseTime = 61
	merge(`{"leaseTime":61}`)
	w.crash()
	if d := w.queue("q"); d.Options.options != want || d.Namespace != "n" || d.Task != "t" {
		t.Errorf("merged %+v, want %+v", d.Options, want)
	}
	want.RetryLimit = defaults.RetryLimit
	if c := merge(`{"retryLimit":null}`); c.Options != want {
		t.Errorf("one default %+v, want %+v", c.Options, want)
	}
	// Beside pushes neither loses anything.
	const each = 20
	together(3, func(i int) {
		for n := range each {
			switch i {
			case 0:
				w.queued(msg("q", "p", fmt.Sprint(n)))
			case 1:
				merge(fmt.Sprintf(`{"leaseTime":%d}`, 100+n))
			case 2:
				merge(fmt.Sprintf(`{"priority":%d}`, 200+n))
			}
		}
	})
	want.LeaseTime, want.Priority = 100+each-1, 200+each-1
	w.crash()
	if d := w.queue("q"); d.Options.options != want || d.Totals.Total != each {
		t.Errorf("%d messages, %+v, want %+v", d.Totals.Total, d.Options, want)
	}
	w.configure("q", `{"leaseTime":5}`) // replaces all of it
	want = defaults
	want.LeaseTime = 5
	if d := w.queue("q"); d.Options.options != want {
		t.Errorf("replaced %+v, want %+v", d.Options, want)
	}
}
