package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// stamp writes an instant as clients do.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// TestM273SubscriptionMatrix makes first contact in every way and says which of the
// messages reach the group: old ones, recent ones, and those that come after. Partition
// "early" is there at the contact, "late" is not.
func TestM273SubscriptionMatrix(t *testing.T) {
	const (
		everything = "old recent after late"
		recent     = "recent after late"
		only       = "after late"
	)
	for _, row := range []struct {
		name, mode, from string // from "recent" is the instant between old and recent
		want, pinned     string
	}{
		{"absent", "", "", everything, everything},
		{"all", "all", "", everything, everything},
		{"from beginning", "from_beginning", "", everything, everything},
		{"typo", "News", "", everything, everything},
		{"new", "new", "", only, only},
		{"from now", "", "now", only, only},
		{"all from now", "all", "now", only, only},
		{"instant", "", "recent", recent, recent},
		{"instant beats new", "new", "recent", recent, recent},
		{"old instant", "new", "2001-02-03T04:05:06Z", everything, everything},
		{"old day", "", "2001-02-03", everything, everything},
		{"instant with offset", "", "2001-02-03T04:05:06+02:00", everything, everything},
		{"unparsable", "", "yesterday", only, only},
		{"unparsable beats all", "all", "yesterday", only, only},
	} {
		for _, route := range []string{"queue", "discovery", "pinned", "queue mode"} {
			for _, again := range []string{"", "restart", "crash", "segments"} {
				t.Run(strings.Join([]string{row.name, route, again}, "/"), func(t *testing.T) {
					var options []func(*world)
					if again == "segments" {
						options = append(options, eagerCheckpoints)
					}
					w := open(t, options...)
					w.queued(msg("ns.q", "early", "old"))
					w.clock.advance(10 * time.Second)
					between := w.clock.now()
					w.clock.advance(10 * time.Second)
					w.queued(msg("ns.q", "early", "recent"))

					from := row.from
					if from == "recent" {
						from = stamp(between)
					}
					params := []string{"subscriptionMode=" + row.mode, "subscriptionFrom=" + from, "consumerGroup=g", "batch=1"}
					want := row.want
					switch route {
					case "pinned":
						want = strings.TrimSuffix(row.pinned, " late") // it registers nothing
					case "queue mode":
						want, params[2] = everything, "consumerGroup="
					}
					contact := func() *popAnswer { return w.pop("ns.q", params...) }
					switch route {
					case "discovery":
						contact = func() *popAnswer { return w.discover(append(params, "namespace=ns")...) }
					case "pinned":
						contact = func() *popAnswer { return w.popFrom("ns.q", "early", params...) }
					}
					group := strings.TrimPrefix(params[2], "consumerGroup=")
					var got []string
					take := func(p *popAnswer) {
						for ; p != nil; p = contact() {
							got = append(got, p.ids()...)
							w.ackAll(group, p)
						}
					}
					take(contact())
					switch again {
					case "restart", "segments":
						w.restart()
					case "crash":
						w.crash()
					}
					w.queued(msg("ns.q", "early", "after"))
					if route != "pinned" {
						w.queued(msg("ns.q", "late", "late"))
					}
					// Another mode now means nothing: the group has its place.
					params[0], params[1] = "subscriptionMode=new", "subscriptionFrom=now"
					take(contact())
					// The order of partitions is the broker's choice.
					inEarly := slices.DeleteFunc(slices.Clone(got), func(id string) bool { return id == "late" })
					wantEarly := strings.Fields(strings.TrimSuffix(want, " late"))
					if !slices.Equal(inEarly, wantEarly) || len(got) != len(strings.Fields(want)) {
						t.Errorf("got %v, want %v", got, want)
					}
				})
			}
		}
	}
}

// The default mode of the server, D-01; queue mode is not asked.
func TestM273DefaultMode(t *testing.T) {
	w := open(t, func(w *world) { w.server.DefaultSubscriptionMode = "new" })
	w.queued(msg("q", "p", "a"))
	w.nothing(w.pop("q", "consumerGroup=g"))
	w.nothing(w.popFrom("q", "p", "consumerGroup=h"))
	w.want(w.pop("q", "consumerGroup=i", "subscriptionMode=all"), "a")
	w.want(w.pop("q"), "a")
}

// An empty first pop fixes the place of the group in all partitions.
func TestM272FirstContactSeedsAllPartitions(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", again), func(t *testing.T) {
			w := open(t)
			for p := range 5 {
				w.queued(msg("q", fmt.Sprint(p), "old"))
			}
			w.nothing(w.pop("q", "consumerGroup=g", "subscriptionMode=new"))
			if again {
				w.restart()
			}
			for p := range 5 {
				w.queued(msg("q", fmt.Sprint(p), "new"))
			}
			p := w.pop("q", "consumerGroup=g", "partitions=0")
			if got := p.ids(); !slices.Equal(got, slices.Repeat([]string{"new"}, 5)) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// A registered group has a cursor in partitions it never popped: its acks are decided.
func TestM272AckWithoutAPop(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "a", "1"), msg("q", "b", "1"), msg("q", "b", "2"))
	w.ackAll("h", w.popFrom("q", "a", "consumerGroup=h"))
	m := w.popFrom("q", "b").Messages
	w.refused(w.ack("g", m[0].as("completed").leaseless()), consumerNotFound)
	p := w.pop("q", "consumerGroup=g", "batch=1")
	other := map[string]message{"a": m[0], "b": w.popFrom("q", "a").Messages[0]}[p.Partition]
	w.ok(false, w.ack("g", other.as("completed").leaseless()))
}

// A pinned pop gives the group a place in its partition alone.
func TestM276PinnedPopDoesNotRegister(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "a", "1"), msg("q", "b", "1"))
	w.nothing(w.popFrom("q", "a", "consumerGroup=g", "subscriptionMode=new"))
	w.queued(msg("q", "a", "2"))
	// First contact with the queue: all for b, and a keeps its place.
	p := w.pop("q", "consumerGroup=g", "partitions=0", "subscriptionMode=all")
	ids := p.ids()
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"1", "2"}) || p.Claimed != 2 {
		t.Errorf("got %v", ids)
	}
}

// A pinned pop in a partition that the registered group has not touched.
func TestM276PinnedPopUsesTheRecord(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "a", "1"))
	w.nothing(w.pop("q", "consumerGroup=g", "subscriptionMode=new"))
	w.queued(msg("q", "b", "2"))
	w.want(w.popFrom("q", "b", "consumerGroup=g", "subscriptionMode=new"), "2")
	w.nothing(w.popFrom("q", "a", "consumerGroup=g", "subscriptionMode=all"))
}

func TestM278QueuePopMakesTheQueue(t *testing.T) {
	w := open(t)
	w.nothing(w.popFrom("pinned", "p", "consumerGroup=g"))
	w.nothing(w.discover("namespace=disco", "consumerGroup=g"))
	w.nothing(w.pop("bill.inv.q", "consumerGroup=g", "subscriptionMode=new"))
	q := w.queues()
	if len(q) != 1 || q[0].Name != "bill.inv.q" || q[0].Namespace != "bill" || q[0].Task != "inv" || q[0].Partitions != 0 {
		t.Errorf("queues %+v", q)
	}
	if d := w.queue("bill.inv.q"); d.Options.LeaseTime != 60 {
		t.Errorf("options %+v", d.Options)
	}
	w.crash()
	w.queued(msg("bill.inv.q", "p", "a"))
	w.want(w.pop("bill.inv.q", "consumerGroup=g"), "a")
}

// Within one push all or nothing: a group never starts in the middle of one.
func TestM279InstantWithinAUnit(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
	at := w.popFrom("q", "p").Messages[0].CreatedAt
	w.want(w.pop("q", "consumerGroup=g", "subscriptionFrom="+at), "a", "b")
	parsed, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	w.nothing(w.pop("q", "consumerGroup=h", "subscriptionFrom="+stamp(parsed.Add(time.Millisecond))))
	w.nothing(w.pop("q", "consumerGroup=i", "subscriptionFrom="+stamp(parsed.Add(time.Hour))))
	w.queued(msg("q", "p", "c"))
	w.want(w.pop("q", "consumerGroup=h"), "c")
}

// A group whose instant lies ahead gets nothing that is older, in old partitions and in new.
func TestM274InstantAhead(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	at := stamp(w.clock.now().Add(100 * time.Second))
	w.nothing(w.pop("q", "consumerGroup=g", "subscriptionFrom="+at))
	w.queued(msg("q", "new", "b"))
	w.clock.advance(200 * time.Second)
	w.queued(msg("q", "new", "c"))
	w.want(w.pop("q", "consumerGroup=g", "partitions=0"), "c")
}
