package broker

import (
	"errors"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/segment"
)

const (
	// drainMessages and drainBytes are about how much is moved before the disk is waited
	// for, and before the drain asks again whether it may go on.
	drainMessages = 4096
	drainBytes    = 16 << 20
	// maxRunBytes bounds the payloads that are appended at once.
	maxRunBytes = 4 << 20
	// sweepMessages and sweepBytes are how much may be left in the spool when the last
	// of it is moved while pushes are held up.
	sweepMessages = 4096
	sweepBytes    = 32 << 20
	// drainRetry is the pause of a drain that cannot go on.
	drainRetry = 500 * time.Millisecond
)

// errBacklog makes the drain wait for a checkpoint.
var errBacklog = errors.New("broker: too much is unfiled")

// drainer moves what is spooled to where it was pushed to, oldest first. It appends runs of
// messages of one partition; the entry that holds a run also moves the drain's cursor
// over it, so a crash finds both or neither, and every message is moved once.
type drainer struct {
	b      *Broker
	cursor drained // of the spool; next is one past what was moved

	// The run at hand.
	tenant Tenant
	sub    []byte
	items  []PushItem
	ids    []uuid.UUID
	bytes  int   // of its payloads
	end    int64 // one past its last offset in the spool

	results []PushResult
	last    journal.Ticket
	moved   []pushBatch // appended, and not yet known to be on disk
	passed  int64       // messages of the spool that this settles
	count   int         // messages taken out of it, those of the run included
	taken   int         // bytes of their payloads
}

// drained is where a batch comes from that the drain appends: the spool's partition, and
// the cursor to be moved along. For every other batch it is nil.
type drained struct {
	p       *partition
	c       *cursor
	next    int64       // one past the last offset that the batch empties
	ids     []uuid.UUID // of the items: announced when they were spooled
	nowMs   int64
	unknown bool // whether they are stored already cannot be found out
}

// id returns the announced id of item i, zero if it has none.
func (d *drained) id(i int32) (id uuid.UUID) {
	if d != nil {
		id = d.ids[i]
	}
	return id
}

func (d *drained) unchecked() bool { return d != nil && d.unknown }

// advanceLocked moves the cursor to d.next and appends its record. The spool's partition
// is locked, after that of the batch.
func (d *drained) advanceLocked(b *Broker, dst []byte) []byte {
	b.changed.cursor(d.p, d.c) // before the record is appended: see changes
	d.c.commit(d.p, d.next-1, d.nowMs)
	return d.c.appendRecord(dst, d.p, b.clock)
}

// drainSpool is the goroutine that drains the spool while push maintenance is off.
func (b *Broker) drainSpool() {
	retry := time.NewTimer(math.MaxInt64)
	defer retry.Stop()
	b.maintenance.pokeDrain() // what Open has left
	said := ""
	for {
		select {
		case <-b.closeC:
			return
		case <-b.maintenance.drainC:
		case <-retry.C:
		}
		err := b.drain(b.backlog)
		if errors.Is(err, ErrStorageFailed) {
			return
		}
		if err == nil {
			said = ""
			continue
		}
		if text := err.Error(); text != said && !errors.Is(err, errBacklog) {
			said = text
			b.outlived(zerolog.WarnLevel, err).Int64("buffered", b.buffered()).Msg("spool drain waits")
		}
		retry.Reset(drainRetry)
	}
}

// drainLeftover drains, before the broker serves, what a process left in the spool that
// ended during a drain. What cannot be drained now is left to the background: without
// room on the disk, only a broker that serves can make some.
func (b *Broker) drainLeftover() error {
	err := b.drain(b.journal.Admit)
	if errors.Is(err, ErrStorageFailed) || errors.Is(err, journal.ErrFailed) {
		return err
	}
	if err != nil {
		b.outlived(zerolog.WarnLevel, err).Int64("buffered", b.buffered()).Msg("spool drain waits")
	}
	return nil
}

// backlog refuses to add to what is unfiled when there is too much. It does not wait as
// pushes do: the drain has to end when the broker closes.
func (b *Broker) backlog() error {
	if b.journal.Unfiled() < b.o.MaxUnfiledBytes {
		return nil
	}
	b.poke()
	return errBacklog
}

// drain moves all that is spooled and then ends the diversion, unless push maintenance
// is on. admit is asked before anything is moved. What stalls it is not lost and not
// passed over: messages behind it would overtake it.
func (b *Broker) drain(admit func() error) error {
	m := &b.maintenance
	for m.diverting.Load() && !m.push.Load() {
		select {
		case <-b.closeC:
			return nil
		default:
		}
		if !b.hasSpace() {
			return ErrStorageFull
		}
		if err := admit(); err != nil {
			return err
		}
		err := b.drainSome()
		m.stalled.Store(err != nil && !errors.Is(err, ErrStorageFailed))
		if err != nil {
			return err
		}
	}
	return nil
}

// drainSome moves some of the spool, or the last of it.
func (b *Broker) drainSome() error {
	if d := b.newDrain(); d != nil {
		v, end := d.view()
		if !d.isLast(v, end) {
			return d.moveSome(v, end)
		}
	}
	return b.sweepSpool()
}

// isLast reports whether so little is left, and all of it in memory, that it can be moved
// while pushes are held up.
func (d *drainer) isLast(v view, end int64) bool {
	next := d.cursor.next
	if next < v.filedEnd || end-next > sweepMessages {
		return false
	}
	bytes := 0
	for _, batch := range v.tail[tailIndex(v.tail, next):] {
		bytes += len(batch)
	}
	return bytes <= sweepBytes
}

// moveSome moves some of what is on disk.
func (d *drainer) moveSome(v view, end int64) error {
	if v.hwm == d.cursor.next {
		if err := d.b.journal.Join().Wait(); err != nil {
			return d.b.storageError(err)
		}
		d.b.publish(d.cursor.p, end)
		return nil
	}
	return errors.Join(d.move(v, v.hwm, false), d.settle())
}

// newDrain returns a drain that goes on where the cursor stands, or nil if nothing was
// ever spooled.
func (b *Broker) newDrain() *drainer {
	p := b.spooled()
	if p == nil {
		return nil
	}
	g := b.ensureGroup(p.queue, spoolGroup)
	b.announceGroup(g)
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.cursorLocked(g)
	if c == nil {
		c = p.addCursorLocked(g, p.start-1)
	}
	return &drainer{b: b, cursor: drained{p: p, c: c, next: c.committed + 1}}
}

// view returns the spool as it is now, and one past its last message, on disk or not.
func (d *drainer) view() (v view, end int64) {
	d.cursor.p.mu.Lock()
	defer d.cursor.p.mu.Unlock()
	return d.cursor.p.viewLocked(), d.cursor.p.end
}

// sweepSpool moves the last of the spool and ends the diversion: every push comes before
// that, and is in the spool, or behind it, and finds all of the spool in its place.
// Pushes are held up meanwhile, but nothing waits for the disk until they go on.
func (b *Broker) sweepSpool() error {
	m := &b.maintenance
	m.mu.Lock()
	d, deleted, ticket, err := b.sweepLocked()
	m.mu.Unlock()
	if d != nil {
		err = errors.Join(err, d.settle())
	}
	if deleted == nil {
		return err
	}
	if waitErr := ticket.Wait(); waitErr != nil {
		err = errors.Join(err, b.storageError(waitErr))
	}
	b.forgetPartitions(deleted)
	b.poke() // its segments go with the next checkpoint
	b.log.Info().Msg("spool drained")
	return err
}

func (b *Broker) sweepLocked() (d *drainer, deleted *queue, ticket journal.Ticket, err error) {
	m := &b.maintenance
	if m.push.Load() {
		return nil, nil, ticket, nil // on again
	}
	if d = b.newDrain(); d != nil {
		v, end := d.view()
		if !d.isLast(v, end) {
			return nil, nil, ticket, nil // more has come in meanwhile
		}
		if err := d.move(v, end, true); err != nil {
			return d, nil, ticket, err
		}
	}
	deleted, ticket = b.deleteQueue(spoolKey.tenant, spoolKey.name)
	m.diverting.Store(false)
	return d, deleted, ticket, nil
}

// move appends what is spooled up to end: all of it, or about as much as goes in one step.
func (d *drainer) move(v view, end int64, all bool) error {
	if d.cursor.next >= end {
		return nil
	}
	var moveErr error
	err := d.b.batches(v, d.cursor.next, func(h *segment.Header, batch []byte) bool {
		if h.BaseOffset >= end {
			return false
		}
		moveErr = d.moveBatch(h, batch)
		return moveErr == nil && (all || d.count < drainMessages && d.taken < drainBytes)
	})
	// What comes before a place that cannot be read is moved all the same.
	return errors.Join(err, moveErr, d.flush())
}

// moveBatch takes a batch of the spool apart.
func (d *drainer) moveBatch(h *segment.Header, batch []byte) error {
	next := max(d.cursor.next, d.end)
	if h.Lost() {
		return d.passLost(h.EndOffset(), next)
	}
	s, err := newSpan(h, batch, next, math.MaxInt)
	if err != nil {
		return err
	}
	for m := range s.messages() {
		it, err := decodeSpoolItem(m.Payload)
		if err != nil {
			return err
		}
		if len(d.items) > 0 && (!d.sameRun(&it) || len(d.items) >= maxBatchMessages || d.bytes >= maxRunBytes) {
			if err := d.flush(); err != nil {
				return err
			}
		}
		d.tenant, d.sub = it.tenant, it.sub
		d.items = append(d.items, PushItem{
			Queue: it.queue, Partition: it.partition, TransactionID: it.key, Payload: it.payload, encrypted: it.encrypted,
		})
		d.ids = append(d.ids, it.id)
		d.bytes += len(it.payload)
		d.taken += len(it.payload)
		d.count++
		next++
		d.end = next
	}
	return nil
}

// passLost moves the cursor over spooled messages that a repair has marked as lost.
func (d *drainer) passLost(end, next int64) error {
	if err := d.flush(); err != nil {
		return err
	}
	d.end = end
	d.cursor.next, d.cursor.ids, d.cursor.nowMs = end, nil, d.b.clock.stamp()
	d.passed += end - next
	return d.advance()
}

// flush appends the run at hand.
func (d *drainer) flush() error {
	if len(d.items) == 0 {
		return nil
	}
	d.cursor.next, d.cursor.ids, d.cursor.nowMs = d.end, d.ids, d.b.clock.stamp()
	if cap(d.results) < len(d.items) {
		d.results = make([]PushResult, len(d.items))
	}
	d.results = d.results[:len(d.items)]
	err := d.push(false)
	if isDamage(err) {
		// What is stored there cannot be compared with. Better twice than never.
		d.b.outlived(zerolog.WarnLevel, err).Bytes("queue", d.items[0].Queue).Bytes("partition", d.items[0].Partition).
			Int("messages", len(d.items)).Msg("drained without a look for duplicates")
		err = d.push(true)
	}
	if err != nil {
		return err
	}
	d.passed += int64(len(d.items))
	d.items, d.ids, d.bytes = d.items[:0], d.ids[:0], 0
	return nil
}

func isDamage(err error) bool {
	var corrupt *segment.CorruptError
	return errors.As(err, &corrupt) || errors.Is(err, segment.ErrCorrupt)
}

// push appends the run as a push would, and the cursor with it.
func (d *drainer) push(unchecked bool) error {
	s := pushPool.Get().(*pushState)
	defer s.release()
	d.cursor.unknown = unchecked
	s.items, s.results, s.sub, s.drained = d.items, d.results, d.sub, &d.cursor
	s.group()
	batch := &s.batches[0]
	if err := d.b.pushBatch(d.tenant, s, batch); err != nil {
		return err
	}
	if batch.p == nil {
		return d.advance() // all of them are stored already
	}
	d.last = s.last
	d.moved = append(d.moved, *batch)
	return nil
}

// advance moves the cursor over messages that are not stored again.
func (d *drainer) advance() error {
	p := d.cursor.p
	p.mu.Lock()
	defer p.mu.Unlock()
	stored, ticket := d.b.journal.Append(d.cursor.advanceLocked(d.b, nil), false)
	d.last = ticket
	if stored == nil {
		return d.b.storageError(ticket.Wait()) // refused: there is nothing to wait for
	}
	return nil
}

// settle waits until everything moved is on disk and shows it.
func (d *drainer) settle() error {
	if err := d.last.Wait(); err != nil {
		return d.b.storageError(err)
	}
	for i := range d.moved {
		d.b.publish(d.moved[i].p, d.moved[i].end)
	}
	d.b.maintenance.buffered.Add(-d.passed)
	return nil
}
