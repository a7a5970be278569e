package broker

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// MessageFilter selects stored messages; zero fields match all.
type MessageFilter struct {
	Queue     string
	Partition string
	Namespace string
	Task      string
	// Status selects by StoredMessage.Status, but for StatusDeadLetter, which selects
	// the messages that have a dead letter, whoever filed it. A text that is no status
	// matches nothing.
	Status MessageStatus
	FromMs *int64 // append time, inclusive; nil: an hour ago
	ToMs   *int64 // the minute that this lies in is the last one; nil: now
	Limit  int    // 1 to 1,000; beyond, the nearest of them
	Offset int    // matching messages to pass over
}

// StoredMessage is a message of a partition, and what became of it.
type StoredMessage struct {
	Message          // only with its time, if it is not Available
	Available   bool // it was there to be read
	Queue       string
	Namespace   string
	Task        string
	Partition   string
	PartitionID uuid.UUID
	Offset      int64
	Status      MessageStatus
	QueueStatus MessageStatus // of the queue mode alone
	DoneBy      int           // named groups that are done with it
	Groups      int           // named groups that have a place in the partition
	LeaseMs     int64         // when the lease that covers it ends, wall clock; 0: none
}

// MessagePage is a page of stored messages, newest first.
type MessagePage struct {
	Messages    []StoredMessage
	Consumption Consumption // of the queues that were searched
	// Truncated says that there may be more messages that match, which this call did
	// not come to: it would have had to read too much, the answer would have become too
	// large, or a partition is damaged.
	Truncated bool
}

// What one call of Messages may do, whatever it is asked. Then it answers what it has.
const (
	browseSteps   = 200_000  // batches looked at; opening a partition counts as several
	browseBytes   = 64 << 20 // of those batches, and once more of those of the page
	browseOpening = 8        // steps
	browseLanes   = 25_000   // partitions considered, those with the newest messages
	browseLetters = 100_000  // dead letters considered, those filed last
	maxBrowsePage = 1000
	browseWindow  = time.Hour // back from now, without FromMs
)

// browse is one call of Messages on its way.
type browse struct {
	b      *Broker
	f      *MessageFilter
	queues []*queue
	fromMs int64
	toMs   int64 // exclusive
	skip   int
	limit  int

	steps int
	bytes int64
	lanes laneHeap
	found []located
	cut   bool
}

// Messages returns stored messages, newest first over all partitions that match; of one
// partition the last first, and partitions with messages of the same time in the order
// they were made. Everything retained can be found. Selection goes by offsets, times and
// cursors, and payloads are read for the page alone; only a filter by status has to look
// into the messages of partitions that have dead letters. See MessagePage.Truncated for
// its bounds.
func (b *Broker) Messages(t Tenant, f MessageFilter) (MessagePage, error) {
	br := &browse{
		b: b, f: &f, queues: b.browsedQueues(t, &f), steps: browseSteps, bytes: browseBytes,
		limit: min(max(f.Limit, 1), maxBrowsePage), skip: max(f.Offset, 0),
	}
	br.setTimes()
	if err := br.selectMessages(); err != nil {
		return MessagePage{}, err
	}
	page := MessagePage{Consumption: br.consumption()}
	var err error
	page.Messages, err = br.read()
	page.Truncated = br.cut && len(page.Messages) < br.limit
	return page, err
}

func (b *Broker) browsedQueues(t Tenant, f *MessageFilter) []*queue {
	return slices.DeleteFunc(b.deadLetterQueues(t, f.Queue), func(q *queue) bool {
		o := q.options.Load()
		return f.Namespace != "" && o.Namespace != f.Namespace || f.Task != "" && o.Task != f.Task
	})
}

func (br *browse) setTimes() {
	now := br.b.clock.stamp()
	br.fromMs, br.toMs = now-browseWindow.Milliseconds(), now
	if br.f.FromMs != nil {
		br.fromMs = *br.f.FromMs
	}
	if br.f.ToMs != nil {
		br.toMs = *br.f.ToMs
	}
	minute := time.Minute.Milliseconds()
	br.toMs += minute - (br.toMs%minute+minute)%minute
}

func (br *browse) selectMessages() error {
	switch br.f.Status {
	case StatusDeadLetter:
		return br.selectDeadLetters()
	case "", StatusPending, StatusProcessing, StatusCompleted:
		br.collectLanes()
		return br.selectFromLanes()
	}
	return nil
}

// partitions calls fn with every partition of the queues that the filter names.
func (br *browse) partitions(fn func(*partition)) {
	for _, q := range br.queues {
		if br.f.Partition == "" {
			for _, p := range q.snapshot() {
				fn(p)
			}
		} else if p := q.partition(br.f.Partition); p != nil {
			fn(p)
		}
	}
}

// consumption says who consumes what was searched.
func (br *browse) consumption() (c Consumption) {
	names := map[string]bool{}
	if br.f.Partition != "" {
		br.partitions(func(p *partition) {
			p.mu.Lock()
			s := br.b.standingLocked(p)
			p.mu.Unlock()
			for i := range s.groups {
				names[s.groups[i].name] = true
			}
		})
	} else {
		for _, q := range br.queues {
			for _, g := range *q.groupList.Load() {
				if g.announced.Load() || g.sub.Load().registered {
					names[g.name] = true
				}
			}
		}
	}
	c.QueueMode = names[QueueMode]
	delete(names, QueueMode)
	c.Groups = len(names)
	return c
}

// located is a selected message.
type located struct {
	p          *partition
	offset     int64
	appendedMs int64
}

// shelf is a partition from which messages of the page are read.
type shelf struct {
	standing standing
	finder   finder
}

func (b *Broker) newShelf(p *partition) *shelf {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.viewLocked()
	return &shelf{b.standingLocked(p), finder{b: b, v: v, limit: v.hwm}}
}

// read reads the selected messages.
func (br *browse) read() ([]StoredMessage, error) {
	shelves := map[*partition]*shelf{}
	messages := make([]StoredMessage, 0, len(br.found))
	size, loaded := int64(0), int64(0)
	for _, at := range br.found {
		s := shelves[at.p]
		if s == nil {
			s = br.b.newShelf(at.p)
			shelves[at.p] = s
		}
		loaded -= s.finder.loaded
		m, err := br.b.storedMessage(s, at)
		if err != nil {
			return nil, err
		}
		loaded += s.finder.loaded
		// The payload stands in the answer twice.
		size += messageOverhead + int64(2*len(m.Payload)+len(m.TransactionID)+2*len(m.Queue)+2*len(m.Partition))
		if (size > br.b.o.MaxAnswerBytes || loaded > browseBytes) && len(messages) > 0 {
			br.cut = true
			break
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// storedMessage reads one message. One that is gone, or whose batch is damaged, is not
// available.
func (b *Broker) storedMessage(s *shelf, at located) (StoredMessage, error) {
	q := at.p.queue
	o := q.options.Load()
	m := StoredMessage{
		Queue: q.name, Namespace: o.Namespace, Task: o.Task, Partition: at.p.name,
		PartitionID: partitionID(b.directory, at.p.number), Offset: at.offset,
	}
	var err error
	if m.Message, m.Available, err = s.finder.at(at.offset); err != nil {
		if err = b.passDamage(at.p, err); err != nil {
			return m, err
		}
		m.Message, m.Available = Message{}, false
	}
	m.CreatedAtMs = at.appendedMs
	dead := m.Available && q.dead.of(at.p.number) && q.dead.ofMessage(at.p.number, &m.Message) != nil
	m.describe(&s.standing, dead)
	return m, nil
}

func (m *StoredMessage) describe(s *standing, dead bool) {
	m.Status = s.status(m.Offset, m.CreatedAtMs, dead)
	m.QueueStatus = s.queueStatus(m.Offset, m.CreatedAtMs, dead)
	m.DoneBy, m.Groups = s.doneBy(m.Offset, m.CreatedAtMs), len(s.named())
	m.LeaseMs = s.leaseMs(m.Offset)
}

// passDamage takes p out of service if err is a failed checksum, and returns every other
// error: a list goes on without a damaged partition.
func (b *Broker) passDamage(p *partition, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err = b.damageLocked(p, err); p.damaged {
		return nil
	}
	return err
}
