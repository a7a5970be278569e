package broker

import (
	"errors"

	"github.com/google/uuid"
)

// verdict is what decideLocked has found; the zero value lets the transaction commit.
type verdict struct {
	rollback *Rollback
	err      error
	stale    bool // a queue, partition or group went after it was found: look again
	unread   bool // some acks have to read first
}

// decideLocked decides everything that the transaction does to what exists. Pushes come
// first: a repeat of a transaction that has committed shall hear of its duplicates, not
// of the lease that the first one released.
func (tx *transaction) decideLocked() verdict {
	if tx.tooLarge {
		return verdict{rollback: &Rollback{RollbackTooLarge, errTooLarge}}
	}
	if v := tx.decidePushesLocked(); v != (verdict{}) {
		return v
	}
	return tx.decideAcksLocked()
}

func (tx *transaction) decidePushesLocked() verdict {
	now := tx.b.clock.stamp()
	for i := range tx.lanes {
		l := &tx.lanes[i]
		if l.p == nil {
			continue
		}
		if l.p.goneLocked() || tx.b.keysOf(l.q) != l.batch.keys {
			return verdict{stale: true}
		}
		window := windowMs(l.q.options.Load().DedupWindowSeconds)
		if window == 0 || !tx.s.hasKeys(l.batch) {
			continue
		}
		stored, err := tx.b.findStored(tx.s, l.batch, l.p, tx.b.clock.since(now, window))
		if err != nil {
			return verdict{err: tx.b.damageLocked(l.p, err)}
		}
		if stored {
			text := `QDUP duplicate messages in queue "` + l.q.name + `" partition "` + l.p.name + `"` + rolledBack
			return verdict{rollback: &Rollback{RollbackDuplicate, text}}
		}
	}
	return verdict{}
}

func (tx *transaction) decideAcksLocked() (v verdict) {
	if tx.refusal != "" {
		return refused(tx.refusal)
	}
	size := int64(len(tx.s.frame))
	for _, a := range tx.acks {
		ok, need, err := a.findLocked()
		switch {
		case errors.Is(err, errGroupGone):
			return verdict{stale: true}
		case need != nil:
			a.need, v.unread = need, true
			continue
		case !ok:
			return refused(errConsumerNotFound)
		case !tx.fenceLocked(a):
			return refused(errLeaseInvalid)
		}
		if a.need = a.decideLocked(); a.need != nil {
			v.unread = true
			continue
		}
		if r := a.rejection(); r != nil {
			return verdict{rollback: r}
		}
		if a.decision.file {
			size += int64(len(a.poison.Payload))
		}
	}
	if size > tx.limit {
		return verdict{rollback: &Rollback{RollbackTooLarge, errTooLarge}}
	}
	return v
}

// refused is the verdict on an ack that cannot be carried out.
func refused(why string) verdict {
	return verdict{rollback: &Rollback{RollbackAck, "QTXN ack refused: " + why + rolledBack}}
}

// fenceLocked puts the acks of a under the lease they are meant for, and reports whether
// it is the live one.
func (tx *transaction) fenceLocked(a *acknowledge) bool {
	a.leaseID = ""
	if !tx.fenced {
		return true
	}
	if !a.c.live(tx.b.clock.mono()) {
		return false
	}
	holder := a.c.lease.id
	for _, i := range a.items {
		text := a.acks[i].LeaseID
		if text == "" {
			if !tx.supplied[holder] {
				return false
			}
			continue
		}
		if id, err := uuid.Parse(text); err != nil || id != holder {
			return false
		}
	}
	a.leaseID = holder.String()
	return true
}

// rejection returns why the decided acks roll their transaction back, nil if they do not.
// An ack at or below the cursor commits, and changes nothing.
func (a *acknowledge) rejection() *Rollback {
	for _, i := range a.items {
		switch r := &a.results[i]; r.Error {
		case "":
		case errCommitted:
			*r = AckResult{Success: true}
		case errUnresolvable:
			return &Rollback{RollbackAck, errUnknownAck}
		default:
			return refused(r.Error).rollback
		}
	}
	return nil
}
