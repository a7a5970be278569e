package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// pause stops the broker, or a consumer, for twice the time of a lease. There are never two
// live leases of a partition, and whoever was late is told so.
func pause(e *env) error {
	a, b := newAPI(), e.brokers()
	t := newTally(e.rng.Uint64(), 60, 100)
	p, err := e.start(b, filepath.Join(e.dir, "data"), a)
	if err != nil {
		return err
	}
	defer func() { p.Kill(); e.counts.tally(t) }()
	const lanes = 10
	for n := 0; e.more(n); n++ {
		queue := fmt.Sprintf("queue-%d", n)
		for i := range lanes {
			if status := t.push(e.ctx, a, t.lane(queue, strconv.Itoa(i)), 3); status != http.StatusCreated {
				return violated("unexpected answer", "push: %d", status)
			}
		}
		late, granted, err := e.lease(t, a, queue, "batch=100&partitions=100&leaseSeconds=1")
		if err != nil {
			return err
		}
		if len(late) != 3*lanes {
			return violated("lost", "%d of %d messages are delivered", len(late), 3*lanes)
		}
		if n%2 == 0 { // the broker, amid a poll of the next consumer
			e.counts.add("pauses of the broker", 1)
			stopped := time.AfterFunc(200*time.Millisecond, func() { _ = p.Signal(syscall.SIGSTOP) })
			defer stopped.Stop()
			resumed := time.AfterFunc(2200*time.Millisecond, func() { _ = p.Signal(syscall.SIGCONT) })
			defer resumed.Stop()
		} else { // this consumer, which does nothing meanwhile
			e.counts.add("pauses of a consumer", 1)
		}
		var next []delivered
		for next == nil { // one after the other, as leases end
			if next, _, err = e.lease(t, a, queue, "batch=100&partitions=100&leaseSeconds=20&wait=true&timeout=3000"); err != nil {
				return err
			}
			if took := time.Since(granted); next != nil && took < time.Second {
				return violated("two leases", "delivered again %v after a lease of a second", took)
			}
			if time.Since(granted) > drainPatience {
				return violated("lost", "messages do not come again after their lease")
			}
		}
		taken := map[string]bool{}
		for _, m := range next {
			taken[m.Partition] = true
		}
		for i := range late {
			if !taken[late[i].Partition] {
				continue
			}
			if ok, err := e.ackOne(a, &late[i]); err != nil || ok {
				return violated("late ack", "accepted %v, %v, though another holds the lease", ok, err)
			}
			e.counts.add("late acks refused", 1)
		}
		for i := range next {
			if ok, err := e.ackOne(a, &next[i]); err != nil || !ok {
				return violated("ack", "refused under a live lease: %v", err)
			}
		}
		e.counts.add("rounds", 1)
	}
	return t.drain(e.ctx, a, "audit", drainOptions{})
}

// lease pops for a group and returns when the request was sent: a lease cannot have begun
// earlier.
func (e *env) lease(t *tally, a *api, queue, parameters string) (messages []delivered, sent time.Time, err error) {
	sent = time.Now()
	status, answer, err := a.call(e.ctx, http.MethodGet, popPath(queue, "pair", parameters), nil)
	if err != nil {
		return nil, sent, err
	}
	if messages, err = decodePop(status, answer); err != nil {
		return nil, sent, err
	}
	for i := range messages {
		if _, _, err := t.deliver("pair", queue, &messages[i]); err != nil {
			return nil, sent, err
		}
	}
	return messages, sent, nil
}

// ackOne acknowledges one message and reports whether that counted.
func (e *env) ackOne(a *api, m *delivered) (ok bool, err error) {
	body := fmt.Appendf(nil, `{"transactionId":%q,"partitionId":%q,"leaseId":%q,"consumerGroup":"pair","status":"completed"}`, m.TransactionID, m.PartitionID, m.LeaseID)
	_, answer, err := a.call(e.ctx, http.MethodPost, "/api/v1/ack", body)
	if err != nil {
		return false, err
	}
	var results []struct {
		Success bool `json:"success"`
	}
	if err := json.Unmarshal(answer, &results); err != nil || len(results) != 1 {
		return false, violated("unexpected answer", "ack: %.300s", answer)
	}
	return results[0].Success, nil
}
