package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	soloPartitions = 3
	soloEntries    = 1500 // of an epoch
	// retentionSeconds is how old a message must be to be lost where some may be.
	retentionSeconds = 1
)

// solo uses a queue alone: it pushes, consumes for several groups, and moves the cursors
// of one of them, or deletes it. Where messages expire, it consumes too slowly.
type solo struct {
	*worker
	diary   *diary
	alone   *sync.RWMutex
	restive string // the group that is moved and deleted, "" for none
	newest  string // the group that conflates, "" for none
	lacking map[string]bool
	expired bool // everything has, and is counted
}

// newSolo makes a worker that moves cursors, or one whose messages expire.
func (e *epoch) newSolo(w *worker, expiring bool) *solo {
	s := &solo{worker: w, alone: &e.alone, lacking: map[string]bool{}}
	name, window, groups := fmt.Sprintf("solo.%d", e.number), moment(0), []string{}
	if expiring {
		name, window = fmt.Sprintf("brief.%d", e.number), retentionSeconds*time.Second
	} else {
		s.newest = name + "-newest"
		groups = append(groups, s.newest)
	}
	s.restive = name + "-restive"
	s.diary = newDiary(e.run.check, name, window, soloPartitions, append(groups, s.restive, name+"-steady")...)
	return s
}

// run returns when done, or when ctx ends.
func (s *solo) run(ctx context.Context, done func() bool) {
	defer s.hangUp()
	if s.diary.window > 0 && s.expire(ctx) != nil {
		return
	}
	for !done() {
		if s.once(ctx) != nil || s.pause(ctx, time.Duration(s.rng.IntN(30))*time.Millisecond) != nil {
			return
		}
	}
}

// expire makes the queue one whose messages expire, by age or by waiting.
func (s *solo) expire(ctx context.Context) error {
	rule := fmt.Sprintf(`"retentionEnabled":true,"retentionSeconds":%d`, retentionSeconds)
	if s.chance(50) {
		rule = fmt.Sprintf(`"maxWaitTimeSeconds":%d`, retentionSeconds)
	}
	body := fmt.Appendf(nil, `{"queue":%q,"options":{%s}}`, s.diary.queue, rule)
	return s.call(ctx, http.MethodPost, "/api/v1/configure", body, into(&struct{}{}))
}

func (s *solo) once(ctx context.Context) error {
	s.alone.RLock()
	defer s.alone.RUnlock()
	total := 0
	for _, p := range s.diary.pages {
		total += len(p.entries)
	}
	if total < soloEntries {
		if err := s.fill(ctx); err != nil {
			return err
		}
	}
	for range 1 + s.rng.IntN(3) {
		if err := s.consume(ctx, s.diary.groups[s.rng.IntN(len(s.diary.groups))]); err != nil {
			return err
		}
	}
	if s.chance(30) {
		return s.move(ctx)
	}
	return nil
}

// fill pushes a few messages, again and again until there is an answer.
func (s *solo) fill(ctx context.Context) error {
	var pages []*page
	for range 1 + s.rng.IntN(8) {
		pages = append(pages, s.diary.pages[s.rng.IntN(len(s.diary.pages))])
	}
	var items []transferItem
	for again := false; ; again = true {
		c, err := s.connect(ctx)
		if err != nil {
			return err
		}
		var r request
		s.begin(&r, c)
		if !again {
			items = s.diary.write(pages, r.sent)
		}
		body, err := json.Marshal(struct {
			Items []transferItem `json:"items"`
		}{items})
		if err != nil {
			return err
		}
		var results []pushResult
		if _, ok := s.exchange(c, &r, http.MethodPost, "/api/v1/push", body, 0, http.StatusCreated, &results); ok && s.check.countsAnswer(&r) {
			s.diary.wrote(items, results, again)
			return nil
		}
		if s.check.failed() {
			return errViolation
		}
	}
}

// consume pops for a group, and mostly completes what comes.
func (s *solo) consume(ctx context.Context, group string) error {
	if group == s.newest {
		return s.conflate(ctx, s.chance(10))
	}
	p := &pop{group: group, batch: 1 + s.rng.IntN(30), leaseSeconds: 1 + s.rng.IntN(2), autoAck: s.chance(20)}
	if err := s.take(ctx, p, false); err != nil || s.chance(10) {
		return err
	}
	return s.complete(ctx, group)
}

// conflate does the same for the group that wants the newest message only. It may die
// before it completes it.
func (s *solo) conflate(ctx context.Context, dies bool) error {
	if s.lacking["conflation"] {
		return nil
	}
	if err := s.take(ctx, &pop{group: s.newest, batch: 10, leaseSeconds: 1}, true); err != nil || dies {
		return err
	}
	return s.complete(ctx, s.newest)
}

// take pops.
func (s *solo) take(ctx context.Context, p *pop, newest bool) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	path := movePop(s.diary.queue, p.group, p.batch, 100) + fmt.Sprintf("&leaseSeconds=%d&autoAck=%v", p.leaseSeconds, p.autoAck)
	if newest {
		path += "&conflation=true"
	}
	s.begin(&p.request, c)
	var answer struct {
		Messages   []delivered
		Conflation bool
	}
	status, ok := s.exchange(c, &p.request, http.MethodGet, path, nil, 0, http.StatusOK, &answer)
	switch {
	case !ok:
		s.diary.losePop(p)
	case newest && !answer.Conflation:
		s.check.unavailable(fmt.Sprintf("conflation (%d)", status))
		s.lacking["conflation"] = true
		s.diary.forget(s.newest)
	default:
		s.diary.popped(p, answer.Messages, newest)
	}
	return nil
}

// complete acknowledges all leases of a group.
func (s *solo) complete(ctx context.Context, group string) error {
	acks, marks := s.diary.leases(group)
	if len(acks) == 0 {
		return nil
	}
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(struct {
		Group string    `json:"consumerGroup"`
		Acks  []ackBody `json:"acknowledgments"`
	}{group, acks})
	if err != nil {
		return err
	}
	var r request
	s.begin(&r, c)
	var results []ackResult
	s.exchange(c, &r, http.MethodPost, "/api/v1/ack/batch", body, 0, http.StatusOK, &results)
	s.diary.acked(&r, marks, results)
	return nil
}

// move moves the cursors of the restive group, or deletes it.
func (s *solo) move(ctx context.Context) error {
	written := s.diary.written()
	if len(written) == 0 {
		return nil
	}
	switch s.rng.IntN(5) {
	case 0:
		return s.deleteGroup(ctx)
	case 1:
		return s.seek(ctx, nil, `{"toEnd":true}`, toEnd)
	case 2:
		return s.seek(ctx, written[s.rng.IntN(len(written))], `{"toEnd":true}`, toEnd)
	case 3:
		return s.seek(ctx, nil, `{"timestamp":"2000-01-01T00:00:00.000Z"}`, toBeginning)
	}
	at := s.diary.someTime(s.rng.IntN)
	if at == "" {
		return nil
	}
	var only *page
	if s.chance(50) {
		only = written[s.rng.IntN(len(written))]
	}
	return s.seek(ctx, only, fmt.Sprintf(`{"timestamp":%q}`, at), toTime(at))
}

var errMoved = errors.New("not done, or not everywhere")

// seek moves the cursor of one page, or of all. The answer counts, so that what was asked
// twice is done once more.
func (s *solo) seek(ctx context.Context, only *page, body string, to func(*page) (lo, hi int)) error {
	path := "/api/v1/consumer-groups/" + url.PathEscape(s.restive) + "/queues/" + url.PathEscape(s.diary.queue)
	want := len(s.diary.written())
	if only != nil {
		path += "/partitions/" + url.PathEscape(only.partition)
	}
	return s.ask(ctx, s.lacking, "seek", http.MethodPost, path+"/seek", body, func(answer []byte) error {
		var got struct {
			Success           bool
			Updated           bool
			PartitionsUpdated int
		}
		if err := json.Unmarshal(answer, &got); err != nil {
			return err
		}
		if !got.Success || only == nil && got.PartitionsUpdated != want || only != nil && !got.Updated {
			return fmt.Errorf("%w: %d partitions", errMoved, want)
		}
		s.diary.moved(s.restive, only, to, path+"/seek "+body, s.now())
		s.check.count(func(t *totals) { t.seeks++ })
		return nil
	})
}

// deleteGroup deletes the restive group, on the queue or everywhere: it is on no other.
func (s *solo) deleteGroup(ctx context.Context) error {
	path := "/api/v1/consumer-groups/" + url.PathEscape(s.restive)
	if s.chance(50) {
		path += "/queues/" + url.PathEscape(s.diary.queue)
	}
	if s.chance(30) {
		path += "?deleteMetadata=false" // what stays says to start at the beginning
	}
	return s.ask(ctx, s.lacking, "group delete", http.MethodDelete, path, "", func(answer []byte) error {
		var got struct{ Success bool }
		if err := json.Unmarshal(answer, &got); err != nil {
			return err
		}
		if !got.Success {
			return errMoved
		}
		s.diary.moved(s.restive, nil, toBeginning, "DELETE "+path, s.now())
		s.check.count(func(t *totals) { t.groupDeletes++ })
		return nil
	})
}

// finish consumes everything for every group, and sees that nothing is left.
func (s *solo) finish(ctx context.Context, boss *worker) error {
	s.worker = boss
	for _, g := range s.diary.groups {
		deadline := boss.now() + longestLease
		for s.diary.behind(g, boss.now()) && boss.now() < deadline && !boss.check.failed() {
			if err := s.rest(ctx, g); err != nil {
				return err
			}
		}
		// Every lease has ended. What is left comes now, or nothing does.
		if err := s.rest(ctx, g); err != nil {
			return err
		}
		if s.diary.behind(g, boss.now()) && !(g == s.newest && s.lacking["conflation"]) {
			return s.diary.stuck(g)
		}
	}
	return s.checkExpired(ctx)
}

func (s *solo) rest(ctx context.Context, group string) error {
	if group == s.newest {
		if err := s.conflate(ctx, false); err != nil {
			return err
		}
		return s.pause(ctx, time.Millisecond)
	}
	if err := s.take(ctx, &pop{group: group, batch: 1000, autoAck: true}, false); err != nil {
		return err
	}
	return s.pause(ctx, time.Millisecond)
}

// checkExpired waits until everything has expired, where it must.
func (s *solo) checkExpired(ctx context.Context) error {
	if s.diary.window == 0 || s.lacking["retention"] {
		return nil
	}
	const within = 20 * time.Second
	deadline, held := s.now()+within, -1
	for held != 0 && s.now() < deadline && !s.lacking["retention"] {
		var got struct{ Totals struct{ Total int } }
		if err := s.call(ctx, http.MethodGet, queuePath(s.diary.queue), nil, into(&got)); err != nil {
			return err
		}
		held = got.Totals.Total
		if err := s.pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		// Without retention nothing has gone when the last message is long due.
		s.lacking["retention"] = held == s.diary.size() && held > 0 && s.now() > deadline-within/2
	}
	switch {
	case s.lacking["retention"]:
		s.check.unavailable("retention")
	case held != 0:
		s.check.complain("retention", "queue %q holds %d messages of %d, %v after the last of them was due", s.diary.queue, held, s.diary.size(), within)
		return errViolation
	case !s.expired:
		s.expired = true
		s.check.count(func(t *totals) { t.expired += s.diary.size() })
	}
	return nil
}
