package broker

import (
	"sync"

	"github.com/skepmq/skep/index/dedup"
	partlog "github.com/skepmq/skep/log/partition"
	"github.com/skepmq/skep/log/record"
)

// changes is what the homes do not hold yet, kept so that a checkpoint need not look at
// anything that did not change.
//
// Everything is marked here before its record goes to the journal. So when a checkpoint
// first seals the journal's generations and then takes the changes, it has all that the
// sealed generations hold; that it may have more does no harm. Transaction ids are the
// exception, since they need the offset: see take.
type changes struct {
	mu         sync.Mutex
	partitions []*partition
	cursors    []cursorRef
	queues     map[*queue]struct{}
	groups     map[*group]struct{}
	deleted    []*queue
	frames     []byte               // records that go to the catalogue as they are: dead letters
	segments   []uint32             // to be dropped; behind the starts that free them, see reap.go
	rewritten  []*partlog.Rewritten // to be used, in the same way
	entries    []dedup.Entry

	deletedGroups []*group // their deletion is on its way to the journal, or there
}

type cursorRef struct {
	p *partition
	c *cursor
}

// partition marks p. Its lock is held.
func (ch *changes) partition(p *partition) {
	if p.dirty {
		return
	}
	p.dirty = true
	ch.mu.Lock()
	ch.partitions = append(ch.partitions, p)
	ch.mu.Unlock()
}

// cursor marks c of p, whose lock is held.
func (ch *changes) cursor(p *partition, c *cursor) {
	if c.dirty {
		return
	}
	c.dirty = true
	ch.mu.Lock()
	ch.cursors = append(ch.cursors, cursorRef{p, c})
	ch.mu.Unlock()
}

func (ch *changes) queue(q *queue) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.queues == nil {
		ch.queues = map[*queue]struct{}{}
	}
	ch.queues[q] = struct{}{}
}

func (ch *changes) group(g *group) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.groups == nil {
		ch.groups = map[*group]struct{}{}
	}
	ch.groups[g] = struct{}{}
}

func (ch *changes) deleteQueue(q *queue) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.deleted = append(ch.deleted, q)
}

// finalDeletions marks the queues whose records, that of their deletion included, all lie
// in the journal by now.
func (ch *changes) finalDeletions() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for _, q := range ch.deleted {
		q.final = q.forgotten.Load()
	}
}

// appendDeletions appends the records of the deletions that the next checkpoint files.
func (ch *changes) appendDeletions(dst []byte) []byte {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for _, q := range ch.deleted {
		dst = record.AppendQueueDeleted(dst, q.number)
	}
	return dst
}

func (ch *changes) deleteGroup(g *group) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.deletedGroups = append(ch.deletedGroups, g)
}

func (ch *changes) record(frames []byte) {
	if len(frames) == 0 {
		return
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.frames = append(ch.frames, frames...)
}

func (ch *changes) dropSegments(ids []uint32) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.segments = append(ch.segments, ids...)
}

func (ch *changes) replaceSegments(r *partlog.Rewritten) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.rewritten = append(ch.rewritten, r)
}

func (ch *changes) ids(entries []dedup.Entry) {
	if len(entries) == 0 {
		return
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.entries = append(ch.entries, entries...)
}

// taken is a set of changes that a checkpoint works on.
type taken struct {
	partitions []*partition
	cursors    []cursorRef
	queues     map[*queue]struct{}
	groups     map[*group]struct{}
	deleted    []*queue
	frames     []byte
	entries    []dedup.Entry
	segments   []uint32
	rewritten  []*partlog.Rewritten

	deletedGroups []*group
}

// take empties ch but for the transaction ids, which takeIDs takes when the tails are
// captured.
func (ch *changes) take() taken {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	t := taken{
		ch.partitions, ch.cursors, ch.queues, ch.groups, ch.deleted, ch.frames, nil, ch.segments, ch.rewritten, ch.deletedGroups,
	}
	ch.partitions, ch.cursors, ch.queues, ch.groups = nil, nil, nil, nil
	ch.deleted, ch.frames, ch.segments, ch.rewritten, ch.deletedGroups = nil, nil, nil, nil, nil
	return t
}

// takeIDs empties the list of transaction ids.
func (ch *changes) takeIDs() []dedup.Entry {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	entries := ch.entries
	ch.entries = nil
	return entries
}

// giveBack undoes take after a checkpoint that failed.
func (ch *changes) giveBack(t taken) {
	for _, p := range t.partitions {
		p.mu.Lock()
		ch.partition(p)
		p.mu.Unlock()
	}
	for _, r := range t.cursors {
		r.p.mu.Lock()
		ch.cursor(r.p, r.c)
		r.p.mu.Unlock()
	}
	for q := range t.queues {
		ch.queue(q)
	}
	for g := range t.groups {
		ch.group(g)
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.deleted = append(t.deleted, ch.deleted...)
	ch.deletedGroups = append(t.deletedGroups, ch.deletedGroups...)
	ch.frames = append(t.frames, ch.frames...)
	ch.segments = append(t.segments, ch.segments...)
	ch.rewritten = append(t.rewritten, ch.rewritten...)
	ch.entries = append(t.entries, ch.entries...)
}
