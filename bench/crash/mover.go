package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
)

const (
	moverWorkers   = 4
	maxParcels     = 250
	moveQueues     = 3
	movePartitions = 5 // of each queue
	// maxLegs is how many messages an epoch's moves may store before they slow down.
	maxLegs = 12000
)

// mover carries parcels: it leases messages, and moves them in transactions, some of
// which are meant to be rolled back.
type mover struct {
	*worker
	ledger *ledger
	places []*spot // for parcels
	desks  []*spot // for receipts
	stale  string  // a lease that has ended
}

// run returns when ctx ends.
func (m *mover) run(ctx context.Context) {
	defer m.hangUp()
	for ctx.Err() == nil {
		d := time.Duration(5+m.rng.IntN(20)) * time.Millisecond
		if m.ledger.size() > maxLegs {
			d *= 10
		}
		if m.once(ctx) != nil || m.pause(ctx, d) != nil {
			return
		}
	}
}

func (m *mover) once(ctx context.Context) error {
	if m.chance(20) {
		if done, err := m.mint(ctx); done || err != nil {
			return err
		}
	}
	claims, err := m.claims(ctx)
	if err != nil || len(claims) == 0 || m.chance(4) { // it dies, and the leases with time
		return err
	}
	for again := true; again && err == nil; again = again && m.chance(60) {
		again, err = m.move(ctx, claims)
	}
	m.stale = claims[0].lease
	return err
}

// mint puts new parcels into several queues in one transaction, and insists.
func (m *mover) mint(ctx context.Context) (done bool, err error) {
	t := &transfer{}
	for range 1 + m.rng.IntN(5) {
		n, ok := m.ledger.newParcel(maxParcels)
		if !ok {
			break
		}
		t.gives = append(t.gives, &leg{name: legName(n, 0, false), parcel: n, at: m.somewhere()})
	}
	if len(t.gives) == 0 {
		return false, nil
	}
	if err := m.prepare(t, nil); err != nil {
		return false, err
	}
	for t.lastTrial() == nil || t.lastTrial().outcome == unknown {
		if err := m.send(ctx, t, http.StatusOK); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (m *mover) somewhere() *spot { return m.places[m.rng.IntN(len(m.places))] }

// claims leases messages of one queue, or of two, each for one of the groups.
func (m *mover) claims(ctx context.Context) (claims []*claim, err error) {
	n := 1
	if m.chance(40) {
		n = 2
	}
	for range n {
		group := movers
		if m.chance(30) {
			group = tellers
		}
		c, err := m.claim(ctx, m.somewhere().queue, group)
		if err != nil {
			return nil, err
		}
		if c != nil {
			claims = append(claims, c)
		}
	}
	return claims, nil
}

// claim pops with a lease.
func (m *mover) claim(ctx context.Context, queue, group string) (*claim, error) {
	c, err := m.connect(ctx)
	if err != nil {
		return nil, err
	}
	k := &claim{queue: queue, group: group, seconds: 1 + m.rng.IntN(2)}
	path := movePop(queue, group, 1+m.rng.IntN(10), 1+m.rng.IntN(3)) + fmt.Sprintf("&leaseSeconds=%d", k.seconds)
	m.begin(&k.request, c)
	var answer struct{ Messages []delivered }
	if _, ok := m.exchange(c, &k.request, http.MethodGet, path, nil, 0, http.StatusOK, &answer); !ok {
		return nil, nil
	}
	return m.ledger.claimed(k, answer.Messages), nil
}

func movePop(queue, group string, batch, partitions int) string {
	return fmt.Sprintf("/api/v1/pop/queue/%s?consumerGroup=%s&batch=%d&partitions=%d&subscriptionMode=all", url.PathEscape(queue), url.QueryEscape(group), batch, partitions)
}

// move moves what is left of the claims, or the first messages of each part. It reports
// whether more is left to move.
func (m *mover) move(ctx context.Context, claims []*claim) (more bool, err error) {
	t := &transfer{claims: claims}
	var acks []operation
	byLease := m.chance(50) // the leases stand with the acks, not beside them
	for _, c := range claims {
		for _, part := range c.parts {
			n := len(part.legs)
			if n == 0 {
				continue
			}
			if n > 1 && m.chance(25) {
				n = 1 + m.rng.IntN(n-1)
			}
			acks = append(acks, m.take(t, c, part, n, byLease)...)
			if acks[len(acks)-1].Status == retry {
				n = len(part.legs) // given back
			}
			part.legs = part.legs[n:]
			more = more || len(part.legs) > 0
		}
	}
	if len(t.takes) == 0 {
		return false, nil
	}
	if m.chance(20) {
		if err := m.spoil(ctx, t, acks); err != nil {
			return false, err
		}
	}
	if err := m.prepare(t, acks); err != nil {
		return false, err
	}
	if err := m.send(ctx, t, http.StatusOK); err != nil {
		return false, err
	}
	// The same bytes again: if the first trial has happened, this one must not.
	for t.lastTrial().outcome == unknown && m.chance(70) {
		if err := m.send(ctx, t, http.StatusOK); err != nil {
			return false, err
		}
	}
	return more && m.ledger.happened(t), nil
}

// take adds the first n messages of a part to t, and returns their acks: of each, or only
// of the last, which completes those below it.
func (m *mover) take(t *transfer, c *claim, part *claimPart, n int, byLease bool) (acks []operation) {
	implied := m.chance(30)
	for i, g := range part.legs[:n] {
		t.takes = append(t.takes, take{g, c.group})
		next := &leg{name: legName(g.parcel, g.hop+1, false), parcel: g.parcel, hop: g.hop + 1, at: m.somewhere()}
		if c.group == tellers {
			next = &leg{name: legName(g.parcel, g.hop, true), parcel: g.parcel, hop: g.hop, receipt: true, at: m.desks[m.rng.IntN(len(m.desks))]}
		}
		t.gives = append(t.gives, next)
		if i == n-1 || !implied {
			acks = append(acks, ackOf(c, g, byLease))
		}
	}
	if n < len(part.legs) && m.chance(30) {
		again := ackOf(c, part.legs[n], byLease)
		again.Status = retry
		acks = append(acks, again)
	}
	return acks
}

func ackOf(c *claim, g *leg, byLease bool) operation {
	o := operation{Type: "ack", TransactionID: g.name, PartitionID: g.at.id, Group: c.group}
	if byLease {
		o.LeaseID = c.lease
	}
	return o
}

// spoil sends what t will do once more, first and in a way that must be rolled back. Then
// t itself must still be possible: its ids are not taken, its leases not touched.
func (m *mover) spoil(ctx context.Context, t *transfer, acks []operation) error {
	bad := &transfer{takes: t.takes, claims: t.claims}
	for _, g := range t.gives {
		bad.gives = append(bad.gives, &leg{name: g.name, parcel: g.parcel, hop: g.hop, receipt: g.receipt, at: g.at})
	}
	acks = append([]operation{}, acks...)
	status, first := http.StatusOK, t.takes[0].leg
	var extra []operation
	switch n := m.rng.IntN(5); n {
	case 0:
		bad.spoilt = "an ack of a message that does not exist"
		ghost := ackOf(t.claims[0], first, true)
		ghost.TransactionID = fmt.Sprintf("ghost-%s-%d", m.name, m.rng.IntN(1000))
		acks = append(acks, ghost)
	case 1:
		bad.spoilt = "a push of a stored transaction id"
		extra = []operation{{Type: "push", Items: []transferItem{{first.at.queue, first.at.partition, first.name, first.payload()}}}}
	case 2:
		bad.spoilt = "a lease that has ended or never was"
		stale := m.stale
		if stale == "" || stale == t.claims[0].lease {
			stale = m.randomID()
		}
		for i := range acks {
			acks[i].LeaseID = stale
		}
	case 3:
		bad.spoilt = "an ack for a group without a cursor"
		stranger := ackOf(t.claims[0], first, true)
		stranger.Group, stranger.LeaseID = "strangers", ""
		acks = append(acks, stranger)
	default:
		bad.spoilt, status = "an operation that does not exist", http.StatusBadRequest
		extra = []operation{{Type: "pop"}}
	}
	if err := m.prepare(bad, append(acks, extra...)); err != nil {
		return err
	}
	return m.send(ctx, bad, status)
}

// randomID is an id that nothing has.
func (m *mover) randomID() string {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(m.rng.Uint32())
	}
	return id.String()
}

// prepare makes the request of t: its acks and pushes, mixed.
func (m *mover) prepare(t *transfer, acks []operation) error {
	m.ledger.add(t)
	var request struct {
		Operations []operation `json:"operations"`
		Leases     []string    `json:"requiredLeases,omitempty"`
	}
	for from := 0; from < len(t.gives); {
		to := min(len(t.gives), from+1+m.rng.IntN(4))
		push := operation{Type: "push"}
		for _, g := range t.gives[from:to] {
			push.Items = append(push.Items, transferItem{g.at.queue, g.at.partition, g.name, g.payload()})
		}
		request.Operations, from = append(request.Operations, push), to
	}
	request.Operations = append(request.Operations, acks...)
	m.rng.Shuffle(len(request.Operations), func(i, j int) {
		request.Operations[i], request.Operations[j] = request.Operations[j], request.Operations[i]
	})
	for _, c := range t.claims {
		if m.chance(50) || len(acks) > 0 && acks[0].LeaseID == "" {
			request.Leases = append(request.Leases, c.lease)
		}
	}
	t.want = wanted(request.Operations)
	var err error
	t.body, err = json.Marshal(request)
	return err
}

// wanted is what a commit of operations must be answered with.
func wanted(operations []operation) (want []transferResult) {
	for _, o := range operations {
		if o.Type == "ack" {
			want = append(want, transferResult{Index: len(want), Type: o.Type, Success: true, TransactionID: o.TransactionID})
		}
		for _, item := range o.Items {
			want = append(want, transferResult{Index: len(want), Type: "push", Success: true, TransactionID: item.TransactionID, Queue: item.Queue})
		}
	}
	return want
}

// send tries t once, which is answered with a status.
func (m *mover) send(ctx context.Context, t *transfer, status int) error {
	c, err := m.connect(ctx)
	if err != nil {
		return err
	}
	a := &trial{}
	m.begin(&a.request, c)
	m.ledger.start(t, a)
	var answer transferAnswer
	if _, ok := m.exchange(c, &a.request, http.MethodPost, transactionPath, t.body, 0, status, &answer); !ok {
		m.ledger.lose(t, a)
		return nil
	}
	m.ledger.end(t, a, &answer)
	return nil
}

const transactionPath = "/api/v1/transaction"
