package broker

import (
	"slices"

	"github.com/google/uuid"

	"github.com/skepmq/skep/log/journal"
)

// Transaction is what one Transact does, all or nothing. Everything in it is borrowed.
type Transaction struct {
	Pushes []PushItem
	Acks   []Ack
	Groups []string // of Acks, in their places; "" means QueueMode
	// Leases are lease ids that the caller holds, for acks that name none; "" is none.
	Leases []string
	Sub    []byte // of the producer; nil: none
}

// TransactionResult is the outcome of a Transact.
type TransactionResult struct {
	Rollback *Rollback    // nil: committed
	Pushed   []PushResult // in the places of Pushes: Queued, or Duplicate of an earlier one
	Acked    []AckResult  // in the places of Acks
}

// Rollback says why a transaction has changed nothing.
type Rollback struct {
	Reason string // one of the constants below
	Text   string
}

// The reasons of a Rollback.
const (
	RollbackDuplicate = "duplicate"         // a pushed transaction id is stored already
	RollbackAck       = "ack_rejected"      // an acknowledgement cannot be carried out
	RollbackTooLarge  = "payload_too_large" // it would not fit into one entry of the journal
)

const (
	rolledBack = "; transaction rolled back"

	errUnknownAck = "QTXN ack references unknown transactionId" + rolledBack
	errTooLarge   = "QTXN messages and dead letters exceed 512 MiB" + rolledBack
)

// maxTransactionBytes bounds the bytes of one transaction: it is one entry of the
// journal, and dead letters add payloads that no request has sent.
const maxTransactionBytes = 512 << 20

// Transact carries out pushes and acknowledgements of any number of queues, partitions
// and groups in one durable step, or none of them. It returns when all is on disk and
// visible, which it becomes at once; a rollback when what it rests on is on disk. Queues
// and partitions that do not exist are made when nothing speaks against the rest.
//
// Acks of one partition and group are decided together, see decide. An ack is under the
// lease it names. One that names none, while any lease id came along, is under the live
// lease of its partition and group, whose id must then be among those that came along:
// a worker whose lease has passed to another cannot commit.
//
// Errors, with nothing changed unless said otherwise: ErrStorageFull and ErrNoKey when there
// are pushes, ErrPartitionDamaged and those of the disk, ErrClosed; ErrStorageFailed, with
// unknown outcome. Safe for concurrent use.
func (b *Broker) Transact(t Tenant, x *Transaction) (TransactionResult, error) {
	r := TransactionResult{Pushed: make([]PushResult, len(x.Pushes)), Acked: make([]AckResult, len(x.Acks))}
	if len(x.Pushes) > 0 {
		if !b.hasSpace() {
			return TransactionResult{}, b.refused(ErrStorageFull)
		}
		if err := b.journal.Admit(); err != nil {
			return TransactionResult{}, b.storageError(err)
		}
		if err := b.mayStore(t, x.Pushes); err != nil {
			return TransactionResult{}, err
		}
	}
	s := pushPool.Get().(*pushState)
	defer s.release()
	s.items, s.results, s.sub = x.Pushes, r.Pushed, x.Sub
	tx := newTransaction(b, t, s)
	tx.preparePushes()
	tx.prepareAcks(x, r.Acked)
	rollback, err := tx.run()
	if err != nil {
		return TransactionResult{}, err
	}
	if rollback != nil {
		// A repeat takes a rollback for the proof that the first one has committed.
		tx.ticket = b.journal.Join()
	}
	if err := tx.ticket.Wait(); err != nil {
		return TransactionResult{}, b.storageError(err)
	}
	if rollback != nil {
		return TransactionResult{Rollback: rollback}, nil
	}
	if tx.bundle != nil {
		b.reveal(tx.bundle)
	}
	tx.count(x, &r)
	return r, nil
}

// transaction is one Transact on its way.
type transaction struct {
	b *Broker
	t Tenant
	s *pushState // items, results and, from encodePushes on, the frames of all lanes

	limit int64 // maxTransactionBytes, less in tests

	lanes    []pushLane
	encoded  bool
	tooLarge bool           // something cannot be encrypted
	acks     []*acknowledge // one a partition and group
	refusal  string         // of an ack that names no partition and group; "": all do
	fenced   bool           // a lease id came along
	supplied map[uuid.UUID]bool

	moves []move // of those acks that change a cursor

	partitions []*partition // that exist, in the order of their locks
	graves     []*grave     // locked after them, by commitLocked
	graveOf    map[*queue]*grave

	bundle *bundle // nil: nothing changed
	ticket journal.Ticket
}

// pushLane is what a transaction pushes to one partition.
type pushLane struct {
	batch  *pushBatch
	q      *queue     // nil: does not exist
	p      *partition // nil: does not exist
	parts  []part     // of pushState.frame
	hashed *partition // whose number is in the hashes of the items
	sealed
}

func newTransaction(b *Broker, t Tenant, s *pushState) *transaction {
	return &transaction{b: b, t: t, s: s, limit: maxTransactionBytes}
}

// preparePushes groups the pushes by partition.
func (tx *transaction) preparePushes() {
	s := tx.s
	s.group()
	tx.lanes = make([]pushLane, len(s.batches))
	for i := range s.batches {
		tx.lanes[i].batch = &s.batches[i]
		s.findLeaders(tx.b, &s.batches[i], 0, true)
	}
}

// encodePushes encodes the pushes, unless they are as their queues ask for. A transaction
// stores all of its items that do not repeat one another, or none, so what is stored already
// does not change the bytes.
func (tx *transaction) encodePushes() {
	s := tx.s
	for i := range tx.lanes {
		l := &tx.lanes[i]
		if keys := tx.b.keysOf(l.q); keys != l.batch.keys {
			l.batch.keys, tx.encoded = keys, false
		}
	}
	if tx.encoded {
		return
	}
	tx.encoded = true
	s.frame, s.parts = s.frame[:0], s.parts[:0]
	ends := make([]int, len(tx.lanes))
	for i := range tx.lanes {
		if !s.encryptable(tx.lanes[i].batch, tx.b.maxEncrypted) {
			tx.tooLarge = true
			return
		}
		s.encodeNext(tx.lanes[i].batch)
		ends[i] = len(s.parts)
	}
	from := 0
	for i, to := range ends {
		tx.lanes[i].parts = s.parts[from:to]
		from = to
	}
}

// prepareAcks groups the acks by partition and group, and collects the lease ids.
func (tx *transaction) prepareAcks(x *Transaction, results []AckResult) {
	for _, id := range x.Leases {
		tx.supply(id)
	}
	type target struct {
		p     *partition
		group string
	}
	var at *acknowledge
	byTarget := map[target]*acknowledge{}
	for i := range x.Acks {
		ack := &x.Acks[i]
		if i == 0 || ack.LeaseID != x.Acks[i-1].LeaseID {
			tx.supply(ack.LeaseID)
		}
		if at == nil || ack.PartitionID != x.Acks[i-1].PartitionID || x.Groups[i] != x.Groups[i-1] {
			group := x.Groups[i]
			if group == "" {
				group = QueueMode
			}
			p, g, refusal := tx.b.ackTarget(tx.t, ack.PartitionID, group)
			if refusal != "" {
				tx.refusal = refusal
				return // nothing will be acknowledged
			}
			if at = byTarget[target{p, group}]; at == nil {
				at = &acknowledge{b: tx.b, acks: x.Acks, results: results, goneAt: -1, p: p, g: g}
				byTarget[target{p, group}] = at
				tx.acks = append(tx.acks, at)
			}
		}
		at.items = append(at.items, int32(i))
	}
}

func (tx *transaction) supply(leaseID string) {
	if leaseID == "" {
		return
	}
	tx.fenced = true
	if id, err := uuid.Parse(leaseID); err == nil {
		if tx.supplied == nil {
			tx.supplied = map[uuid.UUID]bool{}
		}
		tx.supplied[id] = true
	}
}

// run decides everything under the locks of all partitions and commits it. What has to
// be read or made before is read and made without locks, and then it starts over.
func (tx *transaction) run() (*Rollback, error) {
	for {
		missing := tx.resolve()
		tx.lock()
		v := tx.decideLocked()
		if v == (verdict{}) && !missing {
			tx.commitLocked()
			tx.unlock()
			return nil, nil
		}
		tx.unlock()
		switch {
		case v.rollback != nil || v.err != nil:
			return v.rollback, v.err
		case v.unread:
			if rollback, err := tx.read(); rollback != nil || err != nil {
				return rollback, err
			}
		case v.stale:
			if err := tx.awaitRemovals(); err != nil {
				return nil, err
			}
		case missing:
			if tx.b.memory.high.Load() {
				return nil, ErrMemoryHigh
			}
			tx.create()
		}
	}
}

// resolve finds the partitions that exist, and encodes what goes there. missing says that
// some do not.
func (tx *transaction) resolve() (missing bool) {
	tx.partitions = tx.partitions[:0]
	for i := range tx.lanes {
		l := &tx.lanes[i]
		item := &tx.s.items[l.batch.first]
		l.p = nil
		if l.q = tx.b.queueBytes(tx.t, item.Queue); l.q != nil {
			l.p = l.q.partitionBytes(item.Partition)
		}
		missing = missing || l.p == nil || !l.q.announced.Load()
		if l.p == nil {
			continue
		}
		if l.hashed != l.p {
			tx.s.findLeaders(tx.b, l.batch, l.p.number, true)
			l.hashed = l.p
		}
		tx.partitions = append(tx.partitions, l.p)
	}
	for _, a := range tx.acks {
		if a.g.deleted.Load() && !a.regroup() {
			tx.refusal = errConsumerNotFound
		}
		tx.partitions = append(tx.partitions, a.p)
	}
	slices.SortFunc(tx.partitions, (*partition).before)
	tx.partitions = slices.Compact(tx.partitions)
	tx.encodePushes()
	return missing
}

// awaitRemovals returns when partitions that were found removed can be made anew.
func (tx *transaction) awaitRemovals() error {
	for i := range tx.lanes {
		if p := tx.lanes[i].p; p != nil {
			if err := tx.b.awaitRemoval(tx.s, p); err != nil {
				return tx.b.storageError(err)
			}
		}
	}
	return nil
}

func (tx *transaction) lock() {
	for _, p := range tx.partitions {
		p.mu.Lock()
	}
}

func (tx *transaction) unlock() {
	for _, p := range tx.partitions {
		p.mu.Unlock()
	}
}

// create makes what resolve found missing. It runs when nothing else speaks against the
// transaction, so that one that is rolled back leaves no queue behind. Should something
// come up just now all the same, there is an empty queue, as after a pop.
func (tx *transaction) create() {
	for i := range tx.lanes {
		l := &tx.lanes[i]
		item := &tx.s.items[l.batch.first]
		q, created := tx.b.ensureQueue(tx.t, string(item.Queue), DefaultOptions)
		if !q.announced.Load() {
			tx.b.announceQueue(q)
		}
		tx.b.ensurePartition(q, item.Partition)
		if created {
			tx.b.wakeMade(tx.t, q.name)
		}
	}
}

// read reads what the acks could not tell from memory.
func (tx *transaction) read() (*Rollback, error) {
	held := int64(len(tx.s.frame))
	for _, a := range tx.acks {
		if a.need == nil {
			continue
		}
		need := a.need
		a.need = nil
		if err := need(); err != nil {
			a.p.mu.Lock()
			defer a.p.mu.Unlock()
			return nil, tx.b.damageLocked(a.p, err)
		}
		if a.poison != nil {
			held += int64(len(a.poison.Payload))
		}
		if held > tx.limit {
			return &Rollback{RollbackTooLarge, errTooLarge}, nil
		}
	}
	return nil, nil
}
