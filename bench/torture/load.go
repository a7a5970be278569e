package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// worker is the group that consumes under leases while messages are pushed.
const worker = "worker"

// push pushes count messages to the end of a lane. It returns the status, 0 for no answer.
// What is neither an answer nor an explicit refusal is a violation.
func (t *tally) push(ctx context.Context, a *api, l *lane, count int) int {
	t.mu.Lock()
	first := len(l.items)
	for range count {
		l.items = append(l.items, unknown)
	}
	t.mu.Unlock()
	body := append([]byte(nil), `{"items":[`...)
	for i := first; i < first+count; i++ {
		if i > first {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"queue":%q,"partition":%q,"transactionId":"%s.%s.%d","payload":`, l.queue, l.partition, l.queue, l.partition, i)
		body = append(append(body, t.payload(l, i)...), '}')
	}
	begun := time.Now()
	status, answer, err := a.call(ctx, http.MethodPost, "/api/v1/push", append(body, `]}`...))
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.unknown += count
		return 0
	}
	switch status {
	case http.StatusCreated:
		if !t.failedAt.IsZero() && t.failedAt.Before(begun) && t.first == nil {
			t.first = violated("fail-stop", "a push is answered after an answer that a write has failed")
		}
		if err := t.takeResults(l, first, count, answer); err != nil && t.first == nil {
			t.first = err
		}
	case http.StatusInsufficientStorage:
		t.refused += count
		for i := first; i < first+count; i++ {
			l.items[i] = refused
		}
	case http.StatusServiceUnavailable:
		t.unknown += count
		t.failed++
		if t.failedAt.IsZero() && bytes.Contains(answer, []byte("storage_failed")) {
			t.failedAt = time.Now()
		}
	default:
		if t.first == nil {
			t.first = violated("unexpected answer", "push to queue %q, partition %q: %d %.300s", l.queue, l.partition, status, answer)
		}
	}
	return status
}

func (t *tally) takeResults(l *lane, first, count int, answer []byte) error {
	var results []struct {
		Status string `json:"status"`
		Error  string `json:"error"`
	}
	if err := json.Unmarshal(answer, &results); err != nil || len(results) != count {
		return violated("push answer", "%d results for %d messages, %v: %.300s", len(results), count, err, answer)
	}
	for i, r := range results {
		switch r.Status {
		case "queued":
			l.items[first+i] = stored
			t.stored++
		case "failed":
			l.items[first+i] = refused
			t.refused++
		default:
			return violated("push answer", "queue %q, partition %q, message %d: %q %s", l.queue, l.partition, first+i, r.Status, r.Error)
		}
	}
	return nil
}

// work pops once for the worker group and acknowledges what came. It reports whether
// anything was acknowledged.
func (t *tally) work(ctx context.Context, a *api, queue string) (acked bool, err error) {
	path := popPath(queue, worker, "batch=20&leaseSeconds=2&partitions=4")
	status, answer, err := a.call(ctx, http.MethodGet, path, nil)
	if err != nil || status == http.StatusNoContent || status == http.StatusServiceUnavailable {
		return false, nil
	}
	if status == http.StatusInternalServerError && t.unreadable.Load() {
		return false, nil
	}
	messages, err := decodePop(status, answer)
	if err != nil || len(messages) == 0 {
		return false, err
	}
	last := map[*lane]int{}
	body := fmt.Appendf(nil, `{"consumerGroup":%q,"acknowledgments":[`, worker)
	for i := range messages {
		m := &messages[i]
		l, index, err := t.deliver(worker, queue, m)
		if err != nil {
			return false, err
		}
		last[l] = index
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"transactionId":%q,"partitionId":%q,"leaseId":%q,"status":"completed"}`, m.TransactionID, m.PartitionID, m.LeaseID)
	}
	return t.acknowledge(ctx, a, append(body, `]}`...), last)
}

func (t *tally) acknowledge(ctx context.Context, a *api, body []byte, last map[*lane]int) (acked bool, err error) {
	t.mu.Lock()
	for l, i := range last {
		pl := l.place(worker)
		pl.maybe = max(pl.maybe, i)
	}
	t.mu.Unlock()
	status, answer, err := a.call(ctx, http.MethodPost, "/api/v1/ack/batch", body)
	if err != nil || status == http.StatusServiceUnavailable {
		return false, nil
	}
	var results []struct {
		Success bool   `json:"success"`
		Error   string `json:"error"`
	}
	if status != http.StatusOK || json.Unmarshal(answer, &results) != nil {
		return false, violated("unexpected answer", "ack: %d %.300s", status, answer)
	}
	for _, r := range results {
		if !r.Success { // its lease ended on a slow machine; what else is one is not told apart
			return false, nil
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for l, i := range last {
		pl := l.place(worker)
		pl.done = max(pl.done, i)
	}
	t.acked += len(results)
	return true, nil
}

func decodePop(status int, answer []byte) ([]delivered, error) {
	if status == http.StatusNoContent {
		return nil, nil
	}
	var p struct {
		Messages []delivered `json:"messages"`
	}
	if status != http.StatusOK {
		return nil, violated("unexpected answer", "pop: %d %.300s", status, answer)
	}
	if err := json.Unmarshal(answer, &p); err != nil {
		return nil, violated("unexpected answer", "pop: %v: %.300q", err, answer)
	}
	return p.Messages, nil
}

// load pushes to every lane, and works, until stop is called.
type load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// shape says how much load there is.
type shape struct {
	queues, partitions int
	pushers, workers   int
	batch              int           // messages a push, up to
	pause              time.Duration // between pushes of a pusher
}

func (s shape) queue(i int) string { return "queue-" + strconv.Itoa(i) }

// startLoad starts load. Each lane has one pusher, so the order of its messages is known.
func (t *tally) startLoad(ctx context.Context, a *api, s shape) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel}
	for n := range s.pushers {
		l.wg.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				k := n + turn*s.pushers
				queue, partition := s.queue(k%s.queues), strconv.Itoa(n)+"/"+strconv.Itoa(k/s.queues%s.partitions)
				if t.push(ctx, a, t.lane(queue, partition), 1+turn%s.batch) != http.StatusCreated {
					sleep(ctx, 2*time.Millisecond)
				}
				sleep(ctx, s.pause)
			}
		})
	}
	for n := range s.workers {
		l.wg.Go(func() {
			for turn := n; ctx.Err() == nil; turn++ {
				acked, err := t.work(ctx, a, s.queue(turn%s.queues))
				if err != nil {
					t.complain(err)
				}
				if !acked {
					sleep(ctx, 5*time.Millisecond)
				}
			}
		})
	}
	return l
}

// stop ends the load. Requests on their way lose their answers.
func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
