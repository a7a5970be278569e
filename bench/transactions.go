package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/skepmq/skep/bench/wire"
)

const (
	transactionPath = "/api/v1/transaction"
	movedQueue      = "moved"
	// movesPerLease is how many messages a connection leases, to move them one by one:
	// so next to nothing of a row is pops.
	movesPerLease = 100

	factTransactions = "share of plain pushes"
)

func transactionsName(conns int) string { return fmt.Sprintf("transactions/conns=%d", conns) }

func transactionScenarios() []scenario {
	var all []scenario
	for _, conns := range []int{1, 64} {
		all = append(all, scenario{name: transactionsName(conns), run: func(b *bench, name string) (*row, error) {
			return runTransactions(b, name, conns)
		}})
	}
	return all
}

// runTransactions moves messages, each in a transaction of one ack and one push, and takes
// turns with plain pushes of one message by as many connections.
func runTransactions(b *bench, name string, conns int) (r *row, err error) {
	broker, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer broker.discard(&err)
	if status, _, err := broker.once(append(appendPostHead(nil, transactionPath, 17), `{"operations":[]}`...)); err != nil || status != 200 {
		r := &row{Name: name}
		r.fact(fmt.Sprintf("not available, status %d", status), 0, "")
		return r, err
	}
	if _, err := b.fill(broker, int(40_000*b.o.duration.Seconds())); err != nil {
		return nil, err
	}
	plain := pushRow{shape{batch: 1}, conns, popPartitions}
	const plainQueue = "plain"
	answer, err := broker.probePush(probeQueue, plain.shape)
	if err != nil {
		return nil, err
	}
	pushers := plain.pushers(pushPath, plainQueue, answerFor(plainQueue, probeQueue, answer, plain.shape))
	works := make([]work, conns)
	for i := range works {
		works[i] = newMover(i).work
	}
	var moves, pushes measured
	for range rounds {
		if err := pushes.slice(b.ctx, broker, b.o.duration/(2*rounds), pushers); err != nil {
			return nil, err
		}
		if err := moves.slice(b.ctx, broker, b.o.duration/rounds, works); err != nil {
			return nil, err
		}
	}
	r = moves.row(name)
	p := pushes.row("")
	r.fact("plain pushes beside", p.RequestsPerSec, "1/s")
	r.fact("plain pushes beside, p50", micros(p.P50), "us")
	r.fact(factTransactions, 100*r.RequestsPerSec/p.RequestsPerSec, "%")
	return r, broker.checkStored(movedQueue, moves.tally.messages)
}

// mover moves messages on one connection.
type mover struct {
	popRequest []byte
	payload    []byte
	request    []byte
	moves      []move
	next       int // of moves
	partition  int
}

// move is a leased message.
type move struct{ id, partition, lease [uuidLen]byte }

func newMover(conn int) *mover {
	return &mover{
		popRequest: newConsumer(queueName, popQuery{group: "billing", batch: movesPerLease, partitions: 1}).popRequest,
		payload:    appendPayload(nil, rand.New(rand.NewPCG(uint64(conn), 3)), payloadSize), partition: conn,
	}
}

// work leases messages and moves them until it is told to stop, or the queue is empty.
// A latency is that of one transaction.
func (m *mover) work(c *wire.Conn, stop *atomic.Bool, t *tally) error {
	for !stop.Load() {
		if m.next == len(m.moves) {
			if n, err := m.lease(c); err != nil || n == 0 {
				return err
			}
		}
		m.build(&m.moves[m.next])
		m.next++
		begun := time.Now()
		status, body, err := c.Do(m.request)
		if err != nil {
			return err
		}
		if status != 200 || bytes.Count(body, ackSuccess) != 3 { // of the whole, the ack and the push
			return fmt.Errorf("transaction: %w", statusError{status, string(body)})
		}
		t.add(1, time.Since(begun))
	}
	return nil
}

// lease pops messages and notes what their acks need.
func (m *mover) lease(c *wire.Conn) (n int, err error) {
	status, body, err := c.Do(m.popRequest)
	switch {
	case err != nil:
		return 0, err
	case status == 204:
		return 0, nil
	case status != 200:
		return 0, fmt.Errorf("pop: %w", statusError{status, string(body)})
	}
	m.moves, m.next = m.moves[:0], 0
	lease, rest := uuidAfter(body, leaseKey)
	if lease == nil {
		return 0, errNotAPop
	}
	for {
		var id, partition, payload []byte
		if id, rest = uuidAfter(rest, idKey); rest == nil {
			return len(m.moves), nil
		}
		if _, payload = after(rest, dataKey); payload == nil {
			return 0, errNotAPop
		}
		if partition, rest = uuidAfter(payload, partitionKey); rest == nil {
			return 0, errNotAPop
		}
		m.moves = append(m.moves, move{[uuidLen]byte(id), [uuidLen]byte(partition), [uuidLen]byte(lease)})
	}
}

// build makes the request that acknowledges v and pushes its successor.
func (m *mover) build(v *move) {
	m.partition = (m.partition + 1) % popPartitions
	const fixed = `{"operations":[{"type":"ack","transactionId":"","partitionId":"","consumerGroup":"billing","leaseId":""},` +
		`{"type":"push","items":[{"queue":"` + movedQueue + `","partition":"p","payload":}]}]}`
	m.request = appendPostHead(m.request[:0], transactionPath, len(fixed)+3*uuidLen+partitionDigits+len(m.payload))
	m.request = append(append(m.request, `{"operations":[{"type":"ack","transactionId":"`...), v.id[:]...)
	m.request = append(append(m.request, `","partitionId":"`...), v.partition[:]...)
	m.request = append(append(m.request, `","consumerGroup":"billing","leaseId":"`...), v.lease[:]...)
	m.request = append(m.request, `"},{"type":"push","items":[{"queue":"`+movedQueue+`","partition":"p`...)
	m.request = append(m.request, "00000000"...)
	putDecimal(m.request[len(m.request)-partitionDigits:], uint64(m.partition))
	m.request = append(append(m.request, `","payload":`...), m.payload...)
	m.request = append(m.request, `}]}]}`...)
}
