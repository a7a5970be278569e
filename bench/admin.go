package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skepmq/skep/bench/hist"
	"github.com/skepmq/skep/bench/wire"
)

const (
	adminName       = "admin/partitions=100k"
	adminPartitions = 100_000

	factAdminSlowest = "the slowest operation"
	factAdminStall   = "the longest stall beside any of them"

	besideQueue = "beside"
	// besideEvery is the pace of each connection of the stream: steady, far from full load.
	besideEvery = 2 * time.Millisecond
	// adminTries is how often an operation is tried, see quietest.
	adminTries = 3
	// besideLeast is how long the stream is watched around an operation that is quick.
	besideLeast = 300 * time.Millisecond
)

func adminScenario() scenario {
	return scenario{name: adminName, run: func(b *bench, name string) (*row, error) {
		return runAdmin(b, name, adminPartitions)
	}}
}

// operation is one request of an operator, or the first one of a group.
type operation struct {
	name   string
	method string
	path   string
	body   string
	once   bool // done again, it is another thing
}

// adminOperations are what is measured, in this order: the groups must be there before
// they are looked at, and the queue is deleted last. Messages lie in every partition.
func adminOperations() []operation {
	const groups, queues = "/api/v1/consumer-groups", "/api/v1/resources/queues"
	pop := "/api/v1/pop/queue/" + queueName + "?batch=1&autoAck=true&consumerGroup="
	seek := groups + "/billing/queues/" + queueName + "/seek"
	return []operation{
		{"nothing", "", "", "", false}, // what the stream suffers anyway
		{"first pop of a group, from the beginning", "GET", pop + "billing&subscriptionMode=all", "", true},
		{"first pop of a group, from now on", "GET", pop + "shipping&subscriptionMode=new", "", true},
		{"list of queues", "GET", queues, "", false},
		{"queue", "GET", queues + "/" + queueName, "", false},
		{"depth", "GET", queues + "/" + queueName + "/depth", "", false},
		{"depth of a group", "GET", queues + "/" + queueName + "/depth?group=billing", "", false},
		{"list of groups", "GET", groups, "", false},
		{"lagging groups", "GET", groups + "/lagging?minLagSeconds=0", "", false},
		{"group", "GET", groups + "/billing", "", false},
		{"seek to the end", "POST", seek, `{"toEnd":true}`, false},
		{"first pop after it", "GET", pop + "billing", "", true},
		{"seek to a time", "POST", seek, `{"timestamp":"2000-01-01T00:00:00.000Z"}`, false},
		{"first pop after it", "GET", pop + "billing", "", true},
		{"deletion of a group", "DELETE", groups + "/shipping", "", true},
		{"deletion of the queue", "DELETE", queues + "/" + queueName, "", true},
	}
}

func (o *operation) beside() string {
	if o.method == "" {
		return o.name
	}
	return "it"
}

func (o *operation) request() []byte {
	if o.method == "POST" {
		return append(appendPostHead(nil, o.path, len(o.body)), o.body...)
	}
	return []byte(o.method + " " + o.path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

// runAdmin measures what an operator does to a queue of many partitions, and what it does
// to a stream of pushes and pops beside it.
func runAdmin(b *bench, name string, partitions int) (r *row, err error) {
	broker, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer broker.discard(&err)
	answer, err := broker.probePush(probeQueue, scattered)
	if err != nil {
		return nil, err
	}
	answer = answerFor(queueName, probeQueue, answer, scattered)
	var m measured
	if err := m.slice(b.ctx, broker, 3*time.Minute, creators(16, answer, int64(partitions))); err != nil {
		return nil, err
	}
	if err := broker.settle(b, 10*time.Second); err != nil {
		return nil, err
	}
	beside, err := startStream(b.ctx, broker.address, queueName)
	if err != nil {
		return nil, err
	}
	r = &row{Name: name}
	err = r.operate(b.ctx, broker, beside)
	return r, errors.Join(err, beside.stop())
}

// operate runs the operations one after the other.
func (r *row) operate(ctx context.Context, p *process, beside *stream) error {
	var slowest, stall time.Duration
	for _, o := range adminOperations() {
		took, h, available, err := o.quietest(ctx, p, beside)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		if !available {
			r.fact(o.name+": not available", 0, "")
			continue
		}
		if o.method != "" {
			r.fact(o.name, millis(took), "ms")
			slowest, stall = max(slowest, took), max(stall, h.Max())
		}
		r.fact("  beside "+o.beside()+", p99", millis(h.Quantile(0.99)), "ms")
		r.fact("  beside "+o.beside()+", max", millis(h.Max()), "ms")
	}
	r.fact(factAdminSlowest, millis(slowest), "ms")
	r.fact(factAdminStall, millis(stall), "ms")
	return nil
}

// quietest does the operation a few times, unless it can be done only once, and returns
// the try beside which the stream was disturbed least: what is due to the broker is in
// each of them, and what is due to the machine's other work is not.
func (o *operation) quietest(ctx context.Context, p *process, beside *stream) (took time.Duration, h *hist.Histogram, available bool, err error) {
	tries := adminTries
	if o.once {
		tries = 1
	}
	for range tries {
		t, ok, err := o.run(ctx, p, beside)
		seen := beside.take()
		if err != nil || !ok {
			return t, seen, ok, err
		}
		if h == nil || seen.Max() < h.Max() {
			took, h = t, seen
		}
	}
	return took, h, true, nil
}

// run asks, and waits until the stream has met all that there is to meet.
func (o *operation) run(ctx context.Context, p *process, beside *stream) (took time.Duration, available bool, err error) {
	begun := time.Now()
	status, body := 200, []byte(nil)
	if o.method != "" {
		if status, body, err = p.once(o.request()); err != nil {
			return 0, false, err
		}
	}
	took = time.Since(begun)
	select {
	case <-time.After(besideLeast - took):
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
	if err := beside.settle(ctx); err != nil {
		return 0, false, err
	}
	switch {
	case status == 200 || status == 204:
		return took, true, nil
	case status == 404 || status == 405 || bytes.Contains(body, []byte("not available")):
		return took, false, nil
	}
	return took, false, statusError{status, string(body)}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// stream is a few connections that push and pop at a steady pace, and know how long each
// request has taken.
type stream struct {
	stopped atomic.Bool
	wg      sync.WaitGroup
	done    []atomic.Int64 // requests, by connection

	mu   sync.Mutex
	hist *hist.Histogram
	err  error
}

// startStream starts two connections that push, one of them to another queue, and one that
// pops and acknowledges.
func startStream(ctx context.Context, address, other string) (*stream, error) {
	s := &stream{hist: &hist.Histogram{}, done: make([]atomic.Int64, 3)}
	one := shape{batch: 1}
	k := newConsumer(besideQueue, popQuery{group: "steady", batch: 10, partitions: 1})
	steps := []func(c *wire.Conn) error{
		s.push(newPusher(pushPath, besideQueue, one, 0, 0)),
		s.push(newPusher(pushPath, other, one, 0, 1)),
		func(c *wire.Conn) error {
			n, err := k.pop(c)
			if err == nil && n > 0 {
				err = k.acknowledge(c)
			}
			return err
		},
	}
	for i, step := range steps {
		c, err := wire.Dial(address)
		if err == nil {
			err = c.SetDeadline(time.Now().Add(10 * time.Minute))
		}
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.wg.Go(func() { s.fail(errors.Join(s.loop(ctx, c, i, step), c.Close())) })
	}
	return s, nil
}

// push pushes one message; the queue may just be deleted, so it may make it anew.
func (s *stream) push(p *pusher) func(c *wire.Conn) error {
	p.partitions = 1000
	return func(c *wire.Conn) error {
		status, body, err := c.Do(p.next().bytes)
		if err == nil && (status != 201 || !bytes.Contains(body, []byte(`"status":"queued"`))) {
			err = fmt.Errorf("push: %w", statusError{status, string(body)})
		}
		return err
	}
}

func (s *stream) loop(ctx context.Context, c *wire.Conn, i int, step func(c *wire.Conn) error) (err error) {
	alarm, err := newAlarm()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alarm.close()) }()
	for !s.stopped.Load() && ctx.Err() == nil {
		begun := time.Now()
		if err := step(c); err != nil {
			return err
		}
		s.record(time.Since(begun))
		s.done[i].Add(1)
		if err := alarm.wait(begun.Add(besideEvery)); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) record(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hist.Record(d)
}

// fail keeps the error of a connection, and ends the others.
func (s *stream) fail(err error) {
	if err == nil {
		return
	}
	s.stopped.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, err)
}

// settle returns when every request is answered that was under way when it was called.
func (s *stream) settle(ctx context.Context) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range s.done {
		for from := s.done[i].Load(); s.done[i].Load() == from; {
			if s.stopped.Load() {
				return s.stop()
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// take returns what was measured since it was called the last time.
func (s *stream) take() *hist.Histogram {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hist
	s.hist = &hist.Histogram{}
	return h
}

// stop ends the stream and returns the first error there was.
func (s *stream) stop() error {
	s.stopped.Store(true)
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
