package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

// worker is a client with one connection. It is used by one goroutine.
type worker struct {
	name  string
	check *checker
	gate  *gate
	now   func() moment
	rng   *rand.Rand
	conn  *conn // nil: none, or broken
	body  []byte
}

// connect returns a connection to the living broker, and waits for one to live.
func (w *worker) connect(ctx context.Context) (*conn, error) {
	for {
		life, address, err := w.gate.wait(ctx)
		if err != nil {
			return nil, err
		}
		if w.conn != nil && w.conn.life == life {
			return w.conn, nil
		}
		w.hangUp()
		if w.conn, err = dial(ctx, address, life); err == nil {
			return w.conn, nil
		}
		w.conn = nil
		if err := w.pause(ctx, time.Millisecond); err != nil {
			return nil, err // else it has just died: wait for the next one
		}
	}
}

func (w *worker) hangUp() {
	if w.conn != nil {
		_ = w.conn.Close() // nobody waits for what it may have to say
		w.conn = nil
	}
}

// pause waits for d, or until ctx ends.
func (w *worker) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// chance is true in percent of all cases.
func (w *worker) chance(percent int) bool { return w.rng.IntN(100) < percent }

// begin fills in r for a request that is sent next.
func (w *worker) begin(r *request, c *conn) {
	r.worker, r.life, r.sent = w.name, c.life, w.now()
}

// exchange sends a request and decodes the answer into v. ok is false if there was no
// answer, or none that is expected; an unexpected one is a violation.
func (w *worker) exchange(c *conn, r *request, method, path string, body []byte, wait time.Duration, want int, v any) (status int, ok bool) {
	status, answer, err := c.do(method, path, body, wait)
	r.end = w.now()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.check.unexpected(r, method+" "+path, 0, []byte("no answer"))
		w.hangUp()
		return 0, false
	case err != nil:
		w.hangUp()
		return 0, false
	case status == http.StatusNoContent && method == http.MethodGet:
		return status, true
	case status != want:
		w.check.unexpected(r, method+" "+path, status, answer)
		return status, false
	}
	if err := json.Unmarshal(answer, v); err != nil {
		w.check.unexpected(r, method+" "+path, status, fmt.Appendf(nil, "%v: %.300q", err, answer))
		return status, false
	}
	return status, true
}

// push sends items and reports whether it was answered.
func (w *worker) push(ctx context.Context, items []*message) (ok bool, err error) {
	c, err := w.connect(ctx)
	if err != nil {
		return false, err
	}
	p := &push{items: items}
	body := w.appendPush(items)
	w.begin(&p.request, c)
	w.check.startPush(p)
	var results []pushResult
	if _, ok := w.exchange(c, &p.request, http.MethodPost, "/api/v1/push", body, 0, http.StatusCreated, &results); !ok {
		w.check.losePush(p)
		return false, nil
	}
	w.check.endPush(p, results)
	return p.outcome == answered, nil
}

func (w *worker) appendPush(items []*message) []byte {
	b := append(w.body[:0], `{"items":[`...)
	for i, m := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"queue":`...)
		b = strconv.AppendQuote(b, m.stream.queue.name)
		b = append(b, `,"partition":`...)
		b = strconv.AppendQuote(b, m.stream.partition)
		if m.own {
			b = append(b, `,"transactionId":`...)
			b = strconv.AppendQuote(b, m.txn)
		}
		b = append(b, `,"payload":`...)
		b = w.check.payloads.append(b, m.number)
		b = append(b, '}')
	}
	w.body = append(b, `]}`...)
	return w.body
}

// pop sends p and returns what was delivered, nothing if that does not count.
func (w *worker) pop(ctx context.Context, p *pop) ([]*part, error) {
	c, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	w.begin(&p.request, c)
	w.check.startPop(p)
	var answer struct {
		Messages []delivered `json:"messages"`
	}
	if _, ok := w.exchange(c, &p.request, http.MethodGet, p.path(), nil, p.wait, http.StatusOK, &answer); !ok {
		w.check.losePop(p)
		return nil, nil
	}
	return w.check.endPop(p, answer.Messages), nil
}

func (p *pop) path() string {
	path := "/api/v1/pop/queue/" + url.PathEscape(p.queue.name)
	if p.partition != "" {
		path += "/partition/" + url.PathEscape(p.partition)
	}
	path += fmt.Sprintf("?consumerGroup=%s&batch=%d&partitions=%d&leaseSeconds=%d&autoAck=%v",
		url.QueryEscape(p.group), p.batch, p.partitions, p.leaseSeconds, p.autoAck)
	if p.wait > 0 {
		path += fmt.Sprintf("&wait=true&timeout=%d", p.wait.Milliseconds())
	}
	if p.mode != "" {
		path += "&subscriptionMode=" + p.mode
	}
	return path
}

// ackBody is the body of one ack, or one element of a batch.
type ackBody struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	LeaseID       string `json:"leaseId"`
	Status        string `json:"status"`
	Group         string `json:"consumerGroup,omitempty"`
	Error         string `json:"error,omitempty"`
}

// ack sends acks and reports whether they were answered. One alone may take the route
// for one.
func (w *worker) ack(ctx context.Context, group string, items []ackItem) (ok bool, err error) {
	c, err := w.connect(ctx)
	if err != nil {
		return false, err
	}
	a := &ack{group: group, items: items}
	path, body, err := w.ackRequest(a)
	if err != nil {
		return false, err
	}
	w.begin(&a.request, c)
	w.check.startAck(a)
	var results []ackResult
	if _, ok := w.exchange(c, &a.request, http.MethodPost, path, body, 0, http.StatusOK, &results); !ok {
		w.check.loseAck(a)
		return false, nil
	}
	w.check.endAck(a, results)
	return a.outcome == answered, nil
}

func (w *worker) ackRequest(a *ack) (path string, body []byte, err error) {
	acks := make([]ackBody, len(a.items))
	w.check.mu.Lock() // the ids of messages may just be learned
	for i, item := range a.items {
		acks[i] = ackBody{
			TransactionID: item.message.txn, PartitionID: item.message.stream.id, LeaseID: item.lease.id, Status: item.status,
		}
		if item.status != completed {
			acks[i].Error = fmt.Sprintf("%s by %s", item.status, w.name)
		}
	}
	w.check.mu.Unlock()
	if len(acks) == 1 && w.chance(50) {
		acks[0].Group = a.group
		body, err = json.Marshal(acks[0])
		return "/api/v1/ack", body, err
	}
	body, err = json.Marshal(struct {
		Group string    `json:"consumerGroup"`
		Acks  []ackBody `json:"acknowledgments"`
	}{a.group, acks})
	return "/api/v1/ack/batch", body, err
}

// extend asks for more time for the lease of p.
func (w *worker) extend(ctx context.Context, p *pop, seconds int) error {
	c, err := w.connect(ctx)
	if err != nil {
		return err
	}
	e := &extend{pop: p, seconds: seconds}
	w.begin(&e.request, c)
	w.check.startExtend(e)
	var answer struct {
		Renewed int `json:"renewed"`
	}
	path := "/api/v1/lease/" + p.parts[0].lease.id + "/extend"
	if _, ok := w.exchange(c, &e.request, http.MethodPost, path, fmt.Appendf(nil, `{"seconds":%d}`, seconds), 0, http.StatusOK, &answer); !ok {
		w.check.loseExtend(e)
		return nil
	}
	w.check.endExtend(e, answer.Renewed)
	return nil
}

// call asks something that the checker does not follow, again and again until it is
// answered by a life that still counts.
func (w *worker) call(ctx context.Context, method, path string, body []byte, accept func(status int, answer []byte) error) error {
	for {
		c, err := w.connect(ctx)
		if err != nil {
			return err
		}
		r := &call{what: method + " " + path}
		w.begin(&r.request, c)
		w.check.startCall(r)
		status, answer, err := c.do(method, path, body, 0)
		r.end = w.now()
		if err == nil && w.check.endCall(r) {
			if err := accept(status, answer); err != nil {
				w.check.unexpected(&r.request, r.what, status, fmt.Appendf(nil, "%v: %.300s", err, answer))
			}
			return nil
		}
		r.outcome = unknown
		w.hangUp()
	}
}

var errStatus = errors.New("unexpected status")

// into is an accept that decodes a 200 into v.
func into(v any) func(int, []byte) error {
	return func(status int, answer []byte) error {
		if status != http.StatusOK {
			return errStatus
		}
		return json.Unmarshal(answer, v)
	}
}

// ask is call for a route that the broker may lack; lacking remembers.
func (w *worker) ask(ctx context.Context, lacking map[string]bool, what, method, path, body string, accept func(answer []byte) error) error {
	if lacking[what] {
		return nil
	}
	return w.call(ctx, method, path, []byte(body), func(status int, answer []byte) error {
		switch {
		case status == http.StatusMethodNotAllowed || status == http.StatusNotFound && !bytes.Contains(answer, []byte(`"success"`)):
			lacking[what] = true
			w.check.unavailable(what)
			return nil
		case status != http.StatusOK:
			return errStatus
		}
		return accept(answer)
	})
}
