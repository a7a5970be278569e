package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// QueueMode is the group of every request that names none.
const QueueMode = "__QUEUE_MODE__"

// Model is what a broker with this history should know. The zero value has seen nothing;
// its clock is set by Tick. It is not safe for concurrent use.
type Model struct {
	// RoughBacklog lets a partition report all it has as the backlog of a group that has
	// not come to it yet, wherever the group's subscription begins.
	RoughBacklog bool

	// With the one pushes are spooled, with the other pops are empty.
	PushMaintenance, PopMaintenance bool

	nowMs   int64
	queues  map[string]*queue
	batches int // stored so far
	spool   []spooled

	interrupted bool // see Interrupt
}

// Tick sets the clock, in Unix milliseconds. It moves on between any two operations, so
// that a message's time says which of them stored it.
func (m *Model) Tick(nowMs int64) {
	m.nowMs = nowMs
	for _, q := range m.queues {
		for _, p := range q.partitions {
			for _, msg := range p.messages {
				msg.outlived = msg.outlived || msg.createdMs < nowMs-q.options.ackWindowMs()
			}
		}
	}
}

// Options are the options of a queue that change what happens to messages.
type Options struct {
	Namespace                 string `json:"namespace"`
	Task                      string `json:"task"`
	LeaseTime                 int64  `json:"leaseTime"`
	RetryLimit                int64  `json:"retryLimit"`
	DeadLetterQueue           bool   `json:"deadLetterQueue"`
	DLQAfterMaxRetries        bool   `json:"dlqAfterMaxRetries"`
	DedupWindowSeconds        int64  `json:"dedupWindowSeconds"`
	DelayedProcessing         int64  `json:"delayedProcessing"`
	WindowBuffer              int64  `json:"windowBuffer"`
	RetentionEnabled          bool   `json:"retentionEnabled"`
	RetentionSeconds          int64  `json:"retentionSeconds"`
	CompletedRetentionSeconds int64  `json:"completedRetentionSeconds"`
	MaxWaitTimeSeconds        int64  `json:"maxWaitTimeSeconds"`
	MinPopWaitTime            int64  `json:"minPopWaitTime"`
}

// configured are the options of a configure call that names none.
func configured() Options {
	return Options{LeaseTime: 300, RetryLimit: 3, DeadLetterQueue: true, DLQAfterMaxRetries: true, DedupWindowSeconds: 3600}
}

// implied are the options of a queue that a push or pop makes.
func implied(name string) Options {
	o := configured()
	o.LeaseTime = 60
	namespace, rest, dotted := strings.Cut(name, ".")
	o.Namespace = namespace
	if dotted {
		o.Task, _, _ = strings.Cut(rest, ".")
	}
	return o
}

// ackWindowMs is for how long a key is found after its message was stored.
func (o *Options) ackWindowMs() int64 {
	return max(o.DedupWindowSeconds, o.CompletedRetentionSeconds, 900) * 1000
}

type queue struct {
	name       string
	id         string // "" until an answer has told it
	createdMs  int64
	options    Options
	partitions map[string]*partition
	// registered are the subscriptions of named groups.
	registered map[string]subscription
	// polled says that queue mode has been here. It may have looked at partitions that had
	// nothing for it yet, and so have a cursor there; and since it begins with the oldest
	// message wherever it comes, it may count as having a place everywhere.
	polled  bool
	floorMs int64     // no message to come is older, see Model.afterAll
	letters []*letter // oldest first
}

type subscription struct {
	mode       mode
	instantMs  int64
	createdMs  int64
	conflation bool
	dormant    bool // the cursors were deleted; it decides again at the next contact
}

type mode uint8

const (
	modeAll mode = iota
	modeNew
	modeTimestamp
)

func (m mode) String() string { return [...]string{"all", "new", "timestamp"}[m] }

type partition struct {
	queue     *queue
	name      string
	id        string // "" until an answer has told it
	createdMs int64
	messages  []*message // by offset; those below start are removed
	sum       uint64     // of all messages
	start     int64
	cursors   map[string]*cursor // by group
}

type message struct {
	offset    int64
	id        string
	key       string // the transaction id
	payload   string
	traceID   string
	createdMs int64
	batch     int // that it was stored in
	// outlived says that its key was once too old for the ack index. The broker may have
	// forgotten it, and need not find it again when the window grows later.
	outlived bool
}

// cursor is one group's place in one partition.
type cursor struct {
	committed int64
	lease     *lease // the batch that was handed out and not released, expired or not
	retries   int64
	// attempt counts the batches that have been handed out from attemptStart on.
	attempt, attemptStart int64
	consumed              int64 // messages passed by acks
	// implied says that nothing has touched it: it follows from the subscription.
	implied bool
	// unsure says that the broker may not have it: see queue.polled.
	unsure bool
	// seal is one past where an empty pop may have moved the cursor to, see Model.seal.
	seal int64
}

type lease struct {
	id         string
	expiryMs   int64
	from, end  int64 // offsets, both inclusive
	conflating bool
	// prior is the batch as it was before, which a crash may bring back: see Crash.
	prior *lease
}

// letter is a dead letter.
type letter struct {
	id        string // "" until an answer has told it
	partition *partition
	group     string
	key       string
	messageID string
	payload   string
	traceID   string
	reason    string
	retries   int64
	createdMs int64
	failedMs  int64
}

func (m *Model) queue(name string) *queue { return m.queues[name] }

func (m *Model) ensureQueue(name string, options func(string) Options) *queue {
	q := m.queues[name]
	if q == nil {
		if m.queues == nil {
			m.queues = map[string]*queue{}
		}
		q = &queue{
			name: name, createdMs: m.nowMs, options: options(name),
			partitions: map[string]*partition{}, registered: map[string]subscription{},
		}
		m.queues[name] = q
	}
	return q
}

func (m *Model) ensurePartition(q *queue, name string) *partition {
	p := q.partitions[name]
	if p == nil {
		p = &partition{queue: q, name: name, createdMs: m.nowMs, cursors: map[string]*cursor{}}
		q.partitions[name] = p
	}
	return p
}

// sorted returns the values of a map by key, so that walks are the same in every run.
func sorted[V any](byName map[string]V) []V {
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	values := make([]V, 0, len(names))
	for _, name := range names {
		values = append(values, byName[name])
	}
	return values
}

// partitions returns every partition of every queue, in the order of their names.
func (m *Model) partitions() (all []*partition) {
	for _, q := range sorted(m.queues) {
		all = append(all, sorted(q.partitions)...)
	}
	return all
}

// partitionNamed returns nil if there is none.
func (m *Model) partitionNamed(queue, name string) *partition {
	if q := m.queue(queue); q != nil {
		return q.partitions[name]
	}
	return nil
}

// partitionByID returns nil for an id that no live partition is known by.
func (m *Model) partitionByID(id string) *partition {
	for _, p := range m.partitions() {
		if p.id != "" && p.id == id {
			return p
		}
	}
	return nil
}

// messageByID returns nil if no partition holds a message with that id.
func (m *Model) messageByID(id string) (*partition, *message) {
	for _, p := range m.partitions() {
		for _, msg := range p.retained() {
			if msg.id == id {
				return p, msg
			}
		}
	}
	return nil, nil
}

// stampMs is how much later than by the clock a message may be dated: an instant at which a
// group begins is behind all messages before it, and those to come are not before it.
const stampMs = 10

// Stamp dates a message that has just been stored as the broker has. It is dated when the
// broker decides on it, which is after sentMs and may be long before it is on disk and can
// be seen.
func (m *Model) Stamp(id string, atMs, sentMs int64) error {
	if _, msg := m.messageByID(id); msg != nil && msg.createdMs != atMs {
		if atMs < sentMs || atMs > msg.createdMs+stampMs {
			return fmt.Errorf("message %s is of %d, sent at %d and stored at %d", id, atMs, sentMs, msg.createdMs)
		}
		msg.createdMs = atMs
	}
	return nil
}

func (p *partition) end() int64 { return int64(len(p.messages)) }

func (p *partition) retained() []*message { return p.messages[p.start:] }

func (p *partition) String() string { return fmt.Sprintf("%s/%s", p.queue.name, p.name) }

// at returns the group's cursor: the one it has, or the one that follows from its
// subscription, or nil. An implied cursor is not stored; keep stores it.
func (p *partition) at(group string) *cursor {
	if c := p.cursors[group]; c != nil {
		return c
	}
	if s, ok := p.queue.registered[group]; ok && !s.dormant {
		return &cursor{committed: p.seed(s.mode, s.instantMs), implied: true}
	}
	if group == QueueMode && p.queue.polled {
		return &cursor{committed: p.start - 1, unsure: true}
	}
	return nil
}

// met reports whether the group has touched a partition of the queue.
func (q *queue) met(group string) bool {
	for _, p := range q.partitions {
		if p.cursors[group] != nil {
			return true
		}
	}
	return false
}

// keep stores a cursor that something has touched.
func (p *partition) keep(group string, c *cursor) {
	c.implied, c.unsure = false, false
	p.cursors[group] = c
}

// seed is the committed offset of a group that starts now.
func (p *partition) seed(mode mode, instantMs int64) int64 {
	switch mode {
	case modeAll:
		return p.start - 1
	case modeNew, modeTimestamp:
		for _, msg := range p.retained() {
			if msg.createdMs >= instantMs {
				return msg.offset - 1
			}
		}
		return p.end() - 1
	}
	panic("BUG: model: no such mode")
}

// live reports whether the cursor's lease excludes others.
func (c *cursor) live(nowMs int64) bool { return c.lease != nil && c.lease.expiryMs > nowMs }

// lag is how many retained messages lie above the cursor.
func (c *cursor) lag(p *partition) int64 { return p.end() - max(c.committed+1, p.start) }

// commit moves the cursor forward.
func (c *cursor) commit(p *partition, committed int64) {
	if committed > c.committed {
		c.consumed += committed - max(c.committed, p.start-1)
		c.committed = committed
	}
}

// holder returns the partitions and groups whose live lease has this id.
func (m *Model) holders(leaseID string) (held []*cursor) {
	for _, p := range m.partitions() {
		for _, c := range sorted(p.cursors) {
			if c.live(m.nowMs) && c.lease.id == leaseID {
				held = append(held, c)
			}
		}
	}
	return held
}

func compareLetters(a, b *letter) int {
	return cmp.Compare(b.failedMs, a.failedMs)
}
