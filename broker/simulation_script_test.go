package broker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// simOp is one operation of a script, with what its answer promises.
type simOp struct {
	name, text string
	durable    bool // if it has changed anything, an answer says that it is on disk
	waits      bool // an answer says that everything so far is on disk
	several    bool // its units are decided one by one
	makes      bool // what it makes, queues and groups, may be there without the rest
	drains     bool // it may stop anywhere in the spool
	lines      func(simKey) bool
	run        func(b *Broker) (answer string, err error)
	check      func(before, after *simState) error
}

// simClient makes up operations, and knows what a client would know.
type simClient struct {
	sim   *simulation
	rng   *rand.Rand
	sent  int
	tried map[string]bool // transaction ids sent, by "queue/partition=id"
	held  []simHeld       // the latest leases
	ahead *atomic.Int64   // of the clock, in nanoseconds

	faulty   bool  // the disk may fail
	latestMs int64 // that the broker's stamps have come to
	setBack  bool  // the clock was, between a power cut and a recovery
}

type simHeld struct {
	group, lease string
	parts        []simHeldPart
}

type simHeldPart struct {
	name  string // queue/partition
	id    uuid.UUID
	first int64
	keys  []string
}

func newSimClient(sim *simulation, rng *rand.Rand) *simClient {
	return &simClient{sim: sim, rng: rng, tried: map[string]bool{}, ahead: &atomic.Int64{}}
}

// branch returns a client that goes its own way from here.
func (c *simClient) branch(rng *rand.Rand) *simClient {
	b := &simClient{sim: c.sim, rng: rng, sent: c.sent, tried: maps.Clone(c.tried), held: slices.Clone(c.held), ahead: &atomic.Int64{}, latestMs: c.latestMs, setBack: c.setBack}
	b.ahead.Store(c.ahead.Load())
	return b
}

// Few names, so that operations meet.
var (
	simQueues     = []string{"a", "b.x"}
	simPartitions = []string{"p", "q", "r"}
	simGroups     = []string{"", "g", "h", "last"}
)

func simPick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// simWeights say how often an operation is made up.
var simWeights = []struct {
	weight int
	make   func(*simClient, *simState) *simOp
}{
	{20, (*simClient).push},
	{16, (*simClient).pop},
	{14, (*simClient).ack},
	{8, (*simClient).transact},
	{8, (*simClient).checkpoint},
	{6, (*simClient).beside},
	{3, (*simClient).rewrite},
	{3, (*simClient).extend},
	{4, (*simClient).seek},
	{2, (*simClient).deleteGroup},
	{1, (*simClient).subscribe},
	{5, (*simClient).configure},
	{1, (*simClient).deleteQueue},
	{5, (*simClient).retain},
	{6, (*simClient).advance},
	{3, (*simClient).rest},
	{3, (*simClient).pushMaintenance},
	{3, (*simClient).drain},
	{1, (*simClient).popMaintenance},
	{4, (*simClient).replay},
	{2, (*simClient).removeLetters},
	{2, (*simClient).again},
	{5, (*simClient).snapshot},
}

// next makes up the next operation; s is the state it meets.
func (c *simClient) next(s *simState) *simOp {
	total := 0
	for _, w := range simWeights {
		total += w.weight
	}
	for {
		n := c.rng.IntN(total)
		for _, w := range simWeights {
			if n -= w.weight; n < 0 {
				if op := w.make(c, s); op != nil {
					return op
				}
				break
			}
		}
	}
}

func simUnit(prefixes ...string) func(simKey) bool {
	return func(k simKey) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(k.unit, p) })
	}
}

func simNothing(simKey) bool { return false }

// simPush is the items of a request and what became of them.
type simPush struct {
	c       *simClient
	items   []PushItem
	results []PushResult
	tried   []bool // the key was sent before
}

func (c *simClient) items(n int) *simPush {
	p := &simPush{c: c}
	for range n {
		p.add(simPick(c.rng, simQueues), simPick(c.rng, simPartitions), c.key())
	}
	return p
}

// key returns a transaction id: a new one, one of before, or none.
func (c *simClient) key() string {
	switch c.rng.IntN(8) {
	case 0, 1:
		return ""
	case 2, 3:
		return fmt.Sprint("k", c.rng.IntN(c.sent+1))
	}
	return fmt.Sprint("k", c.sent)
}

func (p *simPush) add(queue, partition, key string) {
	c := p.c
	size := 0
	if c.rng.IntN(8) == 0 {
		size = c.rng.IntN(9000)
	}
	payload := fmt.Appendf(nil, `"%d `, c.sent)
	for range size {
		payload = append(payload, byte('a'+c.rng.IntN(26)))
	}
	c.sent++
	name := queue + "/" + partition + "=" + key
	p.tried = append(p.tried, c.tried[name])
	c.tried[name] = true
	p.items = append(p.items, PushItem{
		Queue: []byte(queue), Partition: []byte(partition), TransactionID: []byte(key), Payload: append(payload, '"'),
	})
}

func (p *simPush) text() string {
	var text []string
	for _, it := range p.items {
		text = append(text, fmt.Sprintf("%s/%s=%s(%d)", it.Queue, it.Partition, it.TransactionID, len(it.Payload)))
	}
	return strings.Join(text, " ")
}

func (p *simPush) answer() string {
	var text []string
	for _, r := range p.results {
		text = append(text, fmt.Sprintf("%d:%s@%d", r.Status, r.MessageID, r.Offset))
	}
	return strings.Join(text, " ")
}

// check compares the results with the states around the push.
func (p *simPush) check(before, after *simState) error {
	for i := range p.items {
		if err := p.checkItem(i, before, after); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

func (p *simPush) checkItem(i int, before, after *simState) error {
	it, r := &p.items[i], &p.results[i]
	name, key := string(it.Queue)+"/"+string(it.Partition), string(it.TransactionID)
	was, is := before.parts[name], after.parts[name]
	switch r.Status {
	case Buffered:
		// Its line in the spool is a matter of the frame; here, that nothing is stored.
		if was != nil && is != nil && is.end != was.end {
			return fmt.Errorf("buffered, and %s has grown", name)
		}
		return nil
	case Failed:
		if !p.c.faulty {
			return fmt.Errorf("failed")
		}
		return nil
	case Queued:
		if is == nil || r.Offset < is.start || r.Offset >= is.end || was != nil && was.id == is.id && r.Offset < was.end {
			return fmt.Errorf("queued at offset %d, which is not there", r.Offset)
		}
		m := is.messages[r.Offset-is.start]
		if m.id != r.MessageID || m.payload != simPayload(it.Payload) || m.explicit != (key != "") || key != "" && m.key != key {
			return fmt.Errorf("queued as %s at %d, where there is %s", r.MessageID, r.Offset, m.String())
		}
	}
	if key == "" || was == nil {
		return nil
	}
	first := slices.IndexFunc(was.messages, func(m simMessage) bool { return m.key == key && before.inWindow(was, &m) })
	switch {
	case first >= 0 && (r.Status != Duplicate || r.MessageID != was.messages[first].id):
		return fmt.Errorf("%s is stored at %d, and yet: %d %s", key, was.start+int64(first), r.Status, r.MessageID)
	case first < 0 && r.Status == Duplicate && !p.tried[i]:
		return fmt.Errorf("%s was never sent, and yet is a duplicate of %s", key, r.MessageID)
	}
	return nil
}

// inWindow reports whether a message is surely known by its transaction id.
func (s *simState) inWindow(p *simPart, m *simMessage) bool {
	return m.createdMs > s.latestMs-p.options.DedupWindowSeconds*1000
}

func (c *simClient) push(*simState) *simOp { return c.items(1 + c.rng.IntN(4)).op("push") }

func (p *simPush) op(name string) *simOp {
	return &simOp{
		name: name, text: p.text(), waits: true, several: true,
		lines: simUnit("queue ", "partition ", "spool "), check: p.check,
		run: func(b *Broker) (string, error) {
			p.c.sim.messages += len(p.items)
			p.results = make([]PushResult, len(p.items))
			err := b.Push(DefaultTenant, p.items, []byte("sub"), p.results)
			return p.answer(), err
		},
	}
}

// again pushes what is stored once more. All of it is known, and nothing changes.
func (c *simClient) again(s *simState) *simOp {
	p := &simPush{c: c}
	for _, name := range slices.Sorted(maps.Keys(s.parts)) {
		part := s.parts[name]
		for _, m := range part.messages {
			if m.explicit && s.inWindow(part, &m) && !strings.HasPrefix(m.key, "dlq:") {
				p.add(part.queue, part.name, m.key)
			}
		}
	}
	if len(p.items) == 0 || s.diverting() {
		return nil
	}
	op := p.op("push again")
	op.text = fmt.Sprint(len(p.items), " messages")
	op.lines = simNothing
	return op
}

// diverting reports whether pushes go to the spool.
func (s *simState) diverting() bool {
	for k := range s.lines {
		if strings.HasPrefix(k.unit, "spool ") {
			return true
		}
	}
	return strings.HasPrefix(s.lines[simKey{"switches", ""}], "push true")
}

func (c *simClient) pop(s *simState) *simOp {
	req := PopRequest{
		Tenant: DefaultTenant, Queue: simPick(c.rng, simQueues), Group: simPick(c.rng, simGroups), Batch: 1 + c.rng.IntN(4),
		Partitions: 1 + c.rng.IntN(3), AutoAck: c.rng.IntN(5) == 0, LeaseSeconds: simPick(c.rng, []int{0, 1, 10}),
		SubscriptionMode: simPick(c.rng, []string{"", "", "new", "all"}),
	}
	if req.Group == "last" {
		req.Conflation, req.SubscriptionMode = true, ""
	}
	if c.rng.IntN(3) == 0 {
		req.Pinned, req.Partition = true, simPick(c.rng, simPartitions)
	}
	var res *PopResult
	group := req.Group
	if group == "" {
		group = QueueMode
	}
	return &simOp{
		name: "pop", durable: req.AutoAck, several: true, lines: simUnit("queue ", "group ", "partition "),
		text: fmt.Sprintf("%s/%s by %s, batch %d, %d partitions, auto %t, %s", req.Queue, req.Partition, group, req.Batch, req.Partitions, req.AutoAck, req.SubscriptionMode),
		run: func(b *Broker) (string, error) {
			var err error
			if res, err = b.Pop(&req); err != nil {
				return "", err
			}
			return c.popped(req.Group, res), nil
		},
		check: func(before, after *simState) error { return simCheckPop(&req, group, res, before, after) },
	}
}

// popped remembers what was handed out, and says it.
func (c *simClient) popped(group string, res *PopResult) string {
	h := simHeld{group: group, lease: res.LeaseID.String()}
	for i := range res.Parts {
		part := &res.Parts[i]
		hp := simHeldPart{name: part.Queue + "/" + part.Partition, id: part.PartitionID, first: -1}
		for m := range part.Messages() {
			if hp.first < 0 {
				hp.first = m.Offset
			}
			hp.keys = append(hp.keys, m.transactionID())
		}
		h.parts = append(h.parts, hp)
	}
	if len(h.parts) > 0 && res.LeaseID != (uuid.UUID{}) {
		c.held = append(c.held, h)
		c.held = c.held[max(0, len(c.held)-6):]
	}
	return fmt.Sprintf("%+v", h)
}

// simCheckPop asserts that a pop got what is stored, from the cursor on, where nobody else
// of the group was at work.
func simCheckPop(req *PopRequest, group string, res *PopResult, before, after *simState) error {
	for i := range res.Parts {
		part := &res.Parts[i]
		name := part.Queue + "/" + part.Partition
		was := before.parts[name]
		if was == nil {
			return fmt.Errorf("%s is not there", name)
		}
		next := int64(-1)
		if c := was.cursors[group]; c != nil {
			if c.lease != "" && c.leaseMs > before.wallMs {
				return fmt.Errorf("%s is under a lease until %d", name, c.leaseMs)
			}
			next = max(c.committed+1, was.start)
		}
		for m := range part.Messages() {
			if m.Offset < was.start || m.Offset >= was.end || next >= 0 && m.Offset != next && !res.Conflation {
				return fmt.Errorf("%s: offset %d of %d to %d, next is %d", name, m.Offset, was.start, was.end, next)
			}
			next = m.Offset + 1
			if stored := was.messages[m.Offset-was.start]; stored.id != m.ID || stored.payload != simPayload(m.Payload) || stored.key != m.transactionID() {
				return fmt.Errorf("%s: got %s %s, stored is %s", name, m.ID, m.transactionID(), stored.String())
			}
		}
		is := after.parts[name].cursors[group]
		if is == nil || req.AutoAck && is.committed != next-1 || !req.AutoAck && !strings.HasPrefix(is.lease, res.LeaseID.String()) {
			return fmt.Errorf("%s: the cursor is at %+v", name, is)
		}
	}
	return nil
}

func (c *simClient) rest(*simState) *simOp {
	return &simOp{name: "rest", waits: true, lines: simNothing, run: func(b *Broker) (string, error) {
		time.Sleep(60 * time.Millisecond) // of the bubble: what nobody waits for is synced
		return "", b.journal.Err()
	}}
}

func (c *simClient) advance(*simState) *simOp {
	d := simPick(c.rng, []time.Duration{time.Millisecond, 999 * time.Millisecond, time.Second, 10 * time.Second, 60 * time.Second, 101 * time.Second, time.Hour, 31 * 24 * time.Hour})
	return &simOp{name: "advance", text: d.String(), lines: simNothing, run: func(b *Broker) (string, error) {
		c.ahead.Add(int64(d))
		b.CatchUp()
		return "", nil
	}}
}

func (c *simClient) checkpoint(*simState) *simOp {
	return &simOp{name: "checkpoint", waits: true, lines: simNothing, run: func(b *Broker) (string, error) {
		return "", b.tryCheckpoint()
	}}
}

// beside makes up an operation that meets a checkpoint, which goes on when that is answered.
func (c *simClient) beside(s *simState) *simOp {
	op := simPick(c.rng, []func(*simClient, *simState) *simOp{
		(*simClient).push, (*simClient).transact, (*simClient).ack, (*simClient).replay, (*simClient).removeLetters, (*simClient).deleteGroup,
	})(c, s)
	if op == nil {
		return nil
	}
	run, later := op.run, time.Duration(c.rng.IntN(12_000))
	op.name += " beside a checkpoint"
	op.text += fmt.Sprint(", after ", later)
	op.run = func(b *Broker) (string, error) {
		b.poke()
		time.Sleep(later)
		return run(b)
	}
	return op
}

// rewrite folds both homes, which a broker does when they have grown.
func (c *simClient) rewrite(*simState) *simOp {
	return &simOp{name: "rewrite homes", waits: true, lines: simNothing, run: func(b *Broker) (string, error) {
		b.checkpointMu.Lock()
		err := b.rewriteCatalog()
		if err == nil {
			err = b.rewriteOffsets()
		}
		b.checkpointMu.Unlock()
		if err != nil {
			return "", err
		}
		return "", b.tryCheckpoint()
	}}
}

func (c *simClient) retain(*simState) *simOp {
	return &simOp{name: "retain", several: true, lines: simUnit("partition "), run: func(b *Broker) (string, error) {
		b.retain()
		return "", b.journal.Err()
	}}
}
