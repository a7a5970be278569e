package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// machine drives a broker and a model through one history.
type machine struct {
	w       *world
	m       *Model // of the tenant whose turn it is
	tenants tenants

	history []string
	failed  bool            // it ends with a disagreement
	over    bool            // it ends, since nothing will tell what the broker has done
	line    strings.Builder // of the operation in progress

	payloads   int
	leases     []string // every lease id so far
	partitions []string // every partition id so far, those of deleted queues included
	features   features

	restarts, crashes int

	next *operation // what looks at a deadline that was just reached
}

// operation does one thing to both sides and says how they disagree.
type operation struct {
	name   string
	weight int
	run    func(*machine, *rapid.T) error
}

// operations are what histories are made of, whatever the broker offers beyond.
var operations = []operation{
	{"push", 20, (*machine).push},
	{"pop", 22, (*machine).pop},
	{"ack", 14, (*machine).ackSome},
	{"finish", 8, (*machine).finish},
	{"extend", 3, (*machine).extend},
	{"advance", 8, (*machine).advance},
	{"crowd", 1, (*machine).crowd},
	{"configure", 5, (*machine).configure},
	{"delete queue", 1, (*machine).deleteQueue},
	{"inspect", 8, (*machine).inspect},
	{"letters", 4, (*machine).listLetters},
	{"messages", 4, (*machine).listStored},
	{"remove letters", 1, (*machine).removeLetters},
	{"replay", 3, (*machine).replay},
	{"maintenance", 2, (*machine).maintenance},
	{"checkpoint", 1, func(x *machine, _ *rapid.T) error { return x.file() }},
	{"restart", 1, (*machine).restart},
	{"crash", 1, (*machine).crash},
}

// weighted is one name an operation for each of its weights. They take turns, since what
// stands in front is drawn more often.
func weighted(ops []operation) (names []string) {
	for round, found := 0, true; found; round++ {
		found = false
		for _, o := range ops {
			if o.weight > round {
				names, found = append(names, o.name), true
			}
		}
	}
	return names
}

func newMachine(t *rapid.T) (*machine, error) {
	x := &machine{w: newWorld(t), tenants: newTenants(t)}
	x.turnTo(0)
	x.w.serves.TenancyHeader = true
	x.w.options.CheckpointBytes = x.checkpointBytes(t)
	x.w.serves.DeliveryDetails = rapid.Bool().Draw(t, "details")
	x.w.serves.DefaultSubscriptionMode = rapid.SampledFrom([]string{"all", "all", "new"}).Draw(t, "default mode")
	retention := x.w.retainsOnlyAtOpen()
	if err := x.w.start(); err != nil {
		return x, err
	}
	var err error
	x.features, err = x.w.probe()
	x.features.retention = retention
	for _, m := range x.tenants.models {
		m.RoughBacklog = !x.features.groups
	}
	return x, err
}

// checkpointBytes makes the broker file what it has never, or after every change.
func (x *machine) checkpointBytes(t *rapid.T) int64 {
	return rapid.SampledFrom([]int64{0, 1}).Draw(t, "checkpointBytes")
}

// step does one operation. The clock moves on before each.
func (x *machine) step(t *rapid.T) {
	if x.over {
		return
	}
	ops := slices.Concat(operations, x.features.operations())
	name := rapid.SampledFrom(weighted(ops)).Draw(t, "operation")
	o := ops[slices.IndexFunc(ops, func(o operation) bool { return o.name == name })]
	if x.next != nil && !chance(t, 4, "something else") {
		o = *x.next
	} else if len(x.tenants.models) > 1 && chance(t, 3, "another tenant") {
		x.turnTo(1 - x.tenants.at)
	}
	x.next = nil
	x.do(t, o)
}

func (x *machine) do(t *rapid.T, o operation) {
	x.tick(1)
	x.line.Reset()
	buffered := x.m.Buffered()
	err := o.run(x, t)
	x.tellOthers(buffered)
	x.history = append(x.history, fmt.Sprintf("%4d  %-12s %s%s%s", len(x.history), x.elapsed(), strings.Repeat("(other tenant) ", x.tenants.at), o.name, x.line.String()))
	if err != nil {
		x.history = append(x.history, "      DISAGREE: "+err.Error())
		x.failed = true
		// The text is the same for all histories that fail here, which is how rapid
		// tells that a shorter one shows the same.
		t.Fatalf("broker and model disagree on %q", o.name)
	}
}

func (x *machine) elapsed() string {
	return (time.Duration(x.m.nowMs-startMs) * time.Millisecond).String()
}

// short is an id as the history shows it.
func short(id string) string {
	if len(id) < 20 {
		return id
	}
	return "…" + id[len(id)-6:]
}

// note adds to the history's line of this operation.
func (x *machine) note(format string, args ...any) { fmt.Fprintf(&x.line, " "+format, args...) }

// audit ends a history: every number, every dead letter, and every message once more, by
// a group that is new.
func (x *machine) audit(t *rapid.T) {
	x.do(t, operation{name: "final switch", run: func(x *machine, _ *rapid.T) error {
		return errors.Join(x.switchPops(false), x.switchPushes(false))
	}})
	if x.over {
		return
	}
	for i := range x.tenants.models {
		x.turnTo(i)
		x.auditTenant(t)
	}
}

func (x *machine) auditTenant(t *rapid.T) {
	x.do(t, operation{name: "final inspect", run: func(x *machine, _ *rapid.T) error { return x.inspectAll() }})
	x.do(t, operation{name: "final messages", run: (*machine).listStored})
	x.do(t, operation{name: "final letters", run: func(x *machine, _ *rapid.T) error { return x.compareLetters("", "") }})
	for _, q := range queueNames {
		if x.m.queue(q) == nil {
			continue
		}
		x.do(t, operation{name: "final pop", run: func(x *machine, _ *rapid.T) error {
			return x.sendPop(&Pop{Queue: q, Group: "audit", Mode: "all", Batch: 1_000_000}, false)
		}})
	}
}

// What histories are about: few names, so that they meet.
var (
	queueNames     = []string{"a", "b.x", "b.y.z"}
	partitionNames = []string{"Default", "p", "q"}
	groupNames     = []string{"", "g", "h"}
)

func pickName(t *rapid.T, names []string, label string) string {
	return rapid.SampledFrom(names).Draw(t, label)
}

// chance is true once in n times.
func chance(t *rapid.T, n int, label string) bool {
	return rapid.IntRange(0, n-1).Draw(t, label) == n-1
}

// held are the batches that were handed out and not released, expired ones included.
type held struct {
	p     *partition
	group string
	c     *cursor
}

func (x *machine) held(group string, all bool) (found []held) {
	for _, p := range x.m.partitions() {
		for _, g := range append([]string{QueueMode, "audit"}, groupNames[1:]...) {
			if c := p.cursors[g]; c != nil && c.lease != nil && (all || g == group) {
				found = append(found, held{p, g, c})
			}
		}
	}
	return found
}

// anyMessage returns a message that is or was stored, or nil.
func (x *machine) anyMessage(t *rapid.T) *message {
	var all []*message
	for _, p := range x.m.partitions() {
		all = append(all, p.messages...)
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(t, "message")
}

func (x *machine) restart(t *rapid.T) error {
	x.restarts++
	x.w.options.CheckpointBytes = x.checkpointBytes(t)
	if err := x.w.restart(); err != nil {
		return err
	}
	return x.retain()
}

// retain comes with every open of the directory. Where a partition starts is not on disk
// then but with the next checkpoint: without one, what was dropped comes back if the
// directory is opened again when the rule is gone.
func (x *machine) retain() error {
	if !x.features.retention {
		return nil
	}
	dropped := false
	err := x.each(func() error {
		dropped = x.m.Retain() || dropped
		return x.learnStarts()
	})
	if err != nil || !dropped {
		return err
	}
	return x.file()
}

// file has the broker file everything.
func (x *machine) file() error {
	before, err := x.w.generations()
	if err != nil {
		return err
	}
	// The queue that goes makes the broker file everything.
	if err := x.barrier(); err != nil {
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		now, err := x.w.generations()
		if err != nil || !slices.ContainsFunc(now, func(name string) bool { return slices.Contains(before, name) }) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no checkpoint: %q, then %q", before, now)
		}
	}
}

// retainNow lets the rules apply while the broker serves, and sees what they have dropped.
func (x *machine) retainNow(*rapid.T) error {
	x.w.broker.Retain()
	return x.each(x.learnStarts)
}

// learnStarts asks where partitions start that need not start there.
func (x *machine) learnStarts() error {
	for _, q := range sorted(x.m.queues) {
		if !x.m.mayDrop(q) {
			continue
		}
		var d queueDetail
		if _, err := x.w.fetch("GET", "/api/v1/resources/queues/"+q.name, nil, &d, 200); err != nil {
			return err
		}
		for _, got := range d.Partitions {
			start := int64(0)
			if p := q.partitions[got.Name]; p != nil {
				start = p.end() - got.Stats.Total
			}
			x.note("%s/%s from %d;", q.name, got.Name, start)
			if err := x.m.Dropped(q.name, got.Name, start); err != nil {
				return err
			}
		}
	}
	return nil
}

// crash loses nothing: whatever was done is on disk before.
func (x *machine) crash(t *rapid.T) error {
	x.crashes++
	if err := x.barrier(); err != nil {
		return err
	}
	x.w.options.CheckpointBytes = x.checkpointBytes(t)
	if err := x.w.crash(); err != nil {
		return err
	}
	return x.retain()
}

// barrier has everything on disk that no request waits for: a change that is answered
// takes along all that came before it.
func (x *machine) barrier() error {
	var ignored any
	if _, err := x.w.fetch("POST", "/api/v1/configure", map[string]any{"queue": "unrelated"}, &ignored, 200); err != nil {
		return err
	}
	_, err := x.w.fetch("DELETE", "/api/v1/resources/queues/unrelated", nil, &ignored, 200)
	return err
}
