package broker

// Texts of refused acknowledgements; clients match on parts of them.
const (
	errConsumerNotFound = "consumer not found"
	errLeaseInvalid     = "invalid or expired lease"
	errCommitted        = "already committed: the cursor moved past this message before this ack"
	errUnresolvable     = "unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers"
	errNoBatch          = "no leased batch"
	errPayloadGone      = "dlq rejected"
	errPartitionID      = "invalid partitionId"
	errFlush            = "ack flush failed; lease will expire and redeliver"
)

// resolved is one acknowledgement after its transaction id was looked up.
type resolved struct {
	status AckStatus
	offset int64 // the smallest match above committed, within the leased batch if there is one; -1 for none
	below  bool  // some match lies at or below committed
	// delivered says that the id was found in the leased batch.
	delivered bool
}

// cursorState is what a decision depends on.
type cursorState struct {
	committed  int64
	leased     bool  // a batch is handed out, or was and has expired unclaimed
	end        int64 // its last offset
	retries    int64
	retryLimit int64
	deadLetter bool // exhausted messages are kept as dead letters
	exact      bool // the acks are exactly the ids of the live lease, all completed
	conflates  bool // the leased batch is the newest message alone of all that its lease covers
	skipped    int64
	gone       bool // the poison message's payload no longer exists
}

// decision is what a group of acknowledgements does to a cursor.
type decision struct {
	committed int64
	retries   int64
	released  bool
	completed bool  // the whole batch is done
	poison    int64 // offset of the message set aside or dropped, -1 for none
	file      bool  // file it as a dead letter
	rejected  bool  // it had to be filed and cannot be: its payload is gone
}

// decide applies the acknowledgements of one lease in one partition together:
//
//   - The signal is the lowest message that failed; at one message a dead letter beats a
//     failure beats a retry.
//   - The cursor goes to the highest completed message below the signal; everything
//     under it counts as completed too.
//   - A signal under a leased batch releases the lease: the rest redelivers. A failure is
//     charged once a call, and beyond the limit the message is set aside.
func decide(s cursorState, items []resolved) decision {
	signal, kind := lowestSignal(items)
	d := decision{committed: s.committed, retries: s.retries, poison: -1}
	for _, it := range items {
		if it.status == AckCompleted && it.offset > d.committed && (signal < 0 || it.offset < signal) {
			d.committed = it.offset
		}
	}
	switch {
	case !s.leased:
	case signal < 0:
		if s.exact {
			d.committed = s.end
		}
		if d.committed >= s.end {
			d.released, d.completed, d.retries = true, true, 0
		}
	case kind == AckRetry:
		d.released = true
	case kind == AckFailed && s.retries < s.retryLimit:
		d.released = true
		d.retries++
	case kind == AckFailed && !s.deadLetter:
		d.setAside(signal)
	case s.gone:
		d.rejected = true
	default:
		d.setAside(signal)
		d.file = true
	}
	if d.poison == s.end && d.released {
		d.completed = true
	}
	return d
}

// changes reports whether the decision changes anything about c.
func (d *decision) changes(c *cursor) bool { return d.committed != c.committed || d.released }

// setAside passes the message at offset.
func (d *decision) setAside(offset int64) {
	d.poison, d.committed = offset, offset
	d.released, d.retries = true, 0
}

func lowestSignal(items []resolved) (offset int64, kind AckStatus) {
	offset = -1
	for _, it := range items {
		if it.status == AckCompleted || it.offset < 0 {
			continue
		}
		if offset < 0 || it.offset < offset || (it.offset == offset && it.status > kind) {
			offset, kind = it.offset, it.status
		}
	}
	return offset, kind
}

// outcome answers one acknowledgement of a decided group.
func (d *decision) outcome(s cursorState, it resolved) AckResult {
	r := AckResult{Success: true, LeaseReleased: d.released}
	switch {
	case d.rejected && it.status != AckCompleted && it.offset >= 0:
		return AckResult{Error: errPayloadGone}
	case it.offset >= 0 && it.status == AckDeadLetter && !s.leased:
		return AckResult{Error: errNoBatch}
	case it.offset >= 0:
		r.DeadLetter = d.file && it.offset == d.poison
		if s.conflates && d.completed && d.poison < 0 && it.offset == s.end {
			r.Conflating, r.Conflated = true, s.skipped
		}
	case it.below && it.status == AckCompleted:
		r.Noop = true
	case it.below:
		return AckResult{Error: errCommitted}
	default:
		return AckResult{Error: errUnresolvable}
	}
	return r
}
