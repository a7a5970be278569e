package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// moves is the part of an epoch that is about transactions.
type moves struct {
	epoch  *epoch
	ledger *ledger
	queues []string
	places []*spot
	desks  []*spot
	audits int
}

// addMoves makes the queues of the moves known, unless the broker has no transactions.
func (e *epoch) addMoves(ctx context.Context, boss *worker) error {
	ok, err := boss.available(ctx, http.MethodPost, transactionPath, `{"operations":[]}`)
	if err != nil || !ok {
		return err
	}
	v := &moves{epoch: e, ledger: newLedger(e.run.check)}
	for i := range moveQueues + 1 {
		receipts := i == moveQueues
		name := fmt.Sprintf("move.%d.%c", e.number, 'a'+i)
		if receipts {
			name = fmt.Sprintf("move.%d.receipts", e.number)
		}
		v.queues = append(v.queues, name)
		for p := range movePartitions {
			s := v.ledger.addSpot(name, lane(p), receipts)
			if receipts {
				v.desks = append(v.desks, s)
			} else {
				v.places = append(v.places, s)
			}
		}
	}
	e.moves = v
	return nil
}

// available reports whether the broker knows a route.
func (w *worker) available(ctx context.Context, method, path, body string) (ok bool, err error) {
	err = w.call(ctx, method, path, []byte(body), func(status int, _ []byte) error {
		ok = status != http.StatusNotFound && status != http.StatusMethodNotAllowed
		return nil
	})
	if err == nil && !ok {
		w.check.unavailable(method + " " + path)
	}
	return ok, err
}

// start starts the movers and a reader. There are none if v is nil.
func (v *moves) start(ctx context.Context, next func(name string) *worker) {
	if v == nil {
		return
	}
	for i := range moverWorkers {
		m := &mover{worker: next(fmt.Sprintf("mover-%d", i)), ledger: v.ledger, places: v.places, desks: v.desks}
		v.epoch.pushing.Go(func() { m.run(ctx) })
	}
	for i := range drifterWorkers {
		m := &mover{worker: next(fmt.Sprintf("drifter-%d", i)), ledger: v.ledger, places: v.places, desks: v.desks}
		d := &drifter{mover: m, lacking: map[string]bool{}}
		v.epoch.pushing.Go(func() { d.run(ctx) })
	}
	r := &reader{worker: next("reader"), ledger: v.ledger, queues: v.queues}
	v.epoch.pushing.Go(func() { r.run(ctx) })
}

// reader reads all queues of the moves, each from its beginning and in a group of its
// own. When an answer is lost it does not know where it is, and starts over as another
// group.
type reader struct {
	*worker
	ledger *ledger
	queues []string
	audit  *audit
	groups int
}

// run returns when ctx ends.
func (r *reader) run(ctx context.Context) {
	defer r.hangUp()
	for ctx.Err() == nil {
		if _, err := r.pass(ctx); err != nil {
			return
		}
		if r.pause(ctx, time.Duration(r.rng.IntN(10))*time.Millisecond) != nil {
			return
		}
	}
}

// pass reads every queue to its end, in any order. It reports whether all answers came.
func (r *reader) pass(ctx context.Context) (done bool, err error) {
	if r.audit == nil {
		r.groups++
		r.audit = newAudit(fmt.Sprintf("%s-%d", r.name, r.groups))
	}
	for _, i := range r.rng.Perm(len(r.queues)) {
		for more := true; more; {
			var ok bool
			if more, ok, err = r.some(ctx, r.queues[i]); err != nil || !ok {
				r.audit = nil
				return false, err
			}
		}
	}
	r.ledger.endPass(r.audit)
	return true, nil
}

// some reads some messages of a queue.
func (r *reader) some(ctx context.Context, queue string) (more, ok bool, err error) {
	c, err := r.connect(ctx)
	if err != nil {
		return false, false, err
	}
	var req request
	r.begin(&req, c)
	var answer struct{ Messages []delivered }
	path := movePop(queue, r.audit.name, 500, 100) + "&autoAck=true"
	if _, ok := r.exchange(c, &req, http.MethodGet, path, nil, 0, http.StatusOK, &answer); !ok {
		return false, false, nil
	}
	return len(answer.Messages) > 0, r.ledger.read(r.audit, &req, queue, answer.Messages), nil
}

// read reads everything once more, when nobody writes, and settles what became of every
// transfer.
func (v *moves) read(ctx context.Context, boss *worker) error {
	if v == nil {
		return nil
	}
	v.audits++
	w := *boss
	w.name = fmt.Sprintf("audit-%d", v.audits)
	r := &reader{worker: &w, ledger: v.ledger, queues: v.queues}
	defer r.hangUp()
	w.conn = nil // the boss keeps its own
	for {
		done, err := r.pass(ctx)
		if err != nil {
			return err
		}
		if done {
			v.ledger.close(r.audit)
			return nil
		}
		if r.check.failed() {
			return errViolation
		}
	}
}

// consume lets each group have what it has not acknowledged: every message once, and
// nothing else.
func (v *moves) consume(ctx context.Context, boss *worker) error {
	if v == nil {
		return nil
	}
	m := &mover{worker: boss, ledger: v.ledger}
	for _, group := range []string{movers, tellers} {
		left := v.ledger.left(group)
		deadline := boss.now() + longestLease
		for len(left) > 0 && boss.now() < deadline && !boss.check.failed() {
			if err := m.claimLeft(ctx, v.queues[:moveQueues], group, left); err != nil {
				return err
			}
			if len(left) > 0 && boss.pause(ctx, 20*time.Millisecond) != nil {
				return ctx.Err()
			}
		}
		// Every lease has ended. Whatever else there is would come now, too, and be known
		// as taken.
		if err := m.claimLeft(ctx, v.queues[:moveQueues], group, left); err != nil {
			return err
		}
		v.ledger.missing(group, left)
	}
	return nil
}

// claimLeft pops all there is for a group and strikes it off.
func (m *mover) claimLeft(ctx context.Context, queues []string, group string, left map[*leg]bool) error {
	for _, q := range queues {
		for {
			c, err := m.connect(ctx)
			if err != nil {
				return err
			}
			k := &claim{queue: q, group: group, seconds: 60}
			m.begin(&k.request, c)
			var answer struct{ Messages []delivered }
			path := movePop(q, group, 500, 100) + fmt.Sprintf("&leaseSeconds=%d", k.seconds)
			m.exchange(c, &k.request, http.MethodGet, path, nil, 0, http.StatusOK, &answer)
			if m.ledger.claimed(k, answer.Messages) == nil {
				break
			}
			for _, part := range k.parts {
				for _, g := range part.legs {
					delete(left, g)
				}
			}
		}
	}
	return nil
}
