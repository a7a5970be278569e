package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/skepmq/skep/bench/wire"
)

const (
	idQueue      = "remembered"
	journalQueue = "journalled"
	backlogQueue = "backlog"

	startupIDs   = 10_000_000
	startupLanes = 1000 // partitions that the ids are spread over
	backlogLanes = 50_000
	// journalMessages fill the journal nearly to where pushes wait.
	journalMessages = 120_000

	fillConns    = 8
	fillPatience = 10 * time.Minute
)

// startupGroups have a cursor in each of a million partitions.
var startupGroups = []string{"billing", "shipping"}

var (
	idShape      = shape{batch: 1000, ids: true}
	journalShape = shape{batch: 20, size: 4000}
	backlogShape = shape{batch: 20, size: 2500}
)

// fillStartup makes a million partitions, two cursors in each, and ten million messages
// with transaction ids that are remembered for longer than anybody keeps the directory.
func (p *process) fillStartup(b *bench) error {
	options := `{"queue":"` + idQueue + `","options":{"dedupWindowSeconds":31536000}}`
	if err := p.expect(200, append(appendPostHead(nil, "/api/v1/configure", len(options)), options...)); err != nil {
		return err
	}
	if err := p.fill(b, idQueue, idShape, startupLanes, startupIDs); err != nil {
		return err
	}
	answer, err := p.probePush(probeQueue, scattered)
	if err != nil {
		return err
	}
	answer = answerFor(queueName, probeQueue, answer, scattered)
	if err := p.drive(b, million, creators(fillConns, answer, million)); err != nil {
		return err
	}
	for _, group := range startupGroups {
		request := getRequest("/api/v1/pop/queue/" + queueName + "?autoAck=true&batch=10000&partitions=10000&consumerGroup=" + group)
		if err := p.drive(b, 0, times(fillConns, func(c *wire.Conn, _ *atomic.Bool, _ *tally) error {
			for {
				switch status, body, err := c.Do(request); {
				case err != nil:
					return err
				case status == 204:
					return nil
				case status != 200:
					return fmt.Errorf("pop: %w", statusError{status, string(body)})
				}
			}
		})); err != nil {
			return err
		}
	}
	return nil
}

// fillJournal starts the broker, pushes almost as much as may be unfiled, and kills it.
func (p *process) fillJournal(b *bench, r *row, w *worst) error {
	if err := p.start(b.ctx, 2*time.Minute); err != nil {
		return err
	}
	// A measurement that was interrupted may have left it.
	if _, _, err := p.once(deleteRequest(journalQueue)); err != nil {
		return err
	}
	if err := p.fill(b, journalQueue, journalShape, startupLanes, journalMessages); err != nil {
		return err
	}
	if err := w.measure(p, r, "memory with a full journal"); err != nil {
		return err
	}
	return p.killNow()
}

func (p *process) fillBacklog(b *bench, messages int64) error {
	return p.fill(b, backlogQueue, backlogShape, backlogLanes, messages)
}

// fill pushes messages to a queue, one partition after the other.
func (p *process) fill(b *bench, queue string, s shape, partitions int, messages int64) error {
	answer, err := p.probePush(probeQueue, s)
	if err != nil {
		return err
	}
	answer = answerFor(queue, probeQueue, answer, s)
	var left atomic.Int64
	left.Store(messages)
	works := make([]work, fillConns)
	for i := range works {
		pusher := newPusher(pushPath, queue, s, answer, i)
		pusher.partition, pusher.partitions = i*partitions/fillConns, partitions
		works[i] = func(c *wire.Conn, stop *atomic.Bool, t *tally) error {
			for !stop.Load() && left.Add(-int64(s.batch)) >= 0 {
				if err := pusher.send(c, pusher.next()); err != nil {
					return err
				}
				t.add(s.batch, 0)
			}
			return nil
		}
	}
	return p.drive(b, messages, works)
}

// drive lets works run to their end, and wants so many messages of them.
func (p *process) drive(b *bench, messages int64, works []work) error {
	t, _, err := drive(b.ctx, p.address, fillPatience, works)
	if err != nil {
		return err
	}
	if t.messages != messages {
		return fmt.Errorf("%d messages were pushed, of %d", t.messages, messages)
	}
	return nil
}

func times(n int, w work) []work {
	works := make([]work, n)
	for i := range works {
		works[i] = w
	}
	return works
}

// expect sends a request and wants that status.
func (p *process) expect(want int, request []byte) error {
	status, body, err := p.once(request)
	if err == nil && status != want {
		err = statusError{status, string(body)}
	}
	return err
}

// verifyStartup looks whether all is there: messages, cursors, transaction ids. Then it
// removes what the measurement has pushed, so that the directory can be used again.
func (p *process) verifyStartup() error {
	err := errors.Join(p.checkStored(idQueue, startupIDs), p.checkStored(queueName, million), p.checkStored(journalQueue, journalMessages))
	if err != nil {
		return err
	}
	for _, group := range startupGroups {
		body, err := p.get("/api/v1/resources/queues/" + queueName + "/depth?group=" + group)
		if err != nil {
			return err
		}
		var depth struct{ Pending *int64 }
		if err := json.Unmarshal(body, &depth); err != nil || depth.Pending == nil || *depth.Pending != 0 {
			return fmt.Errorf("depth of group %s: %.200s, %w", group, body, err)
		}
	}
	again := newPusher(pushPath, idQueue, idShape, 0, 0)
	r := again.next()
	r.setPartition(0, startupLanes)
	status, body, err := p.once(r.bytes)
	if err != nil {
		return err
	}
	var results []struct{ Status string }
	if err := json.Unmarshal(body, &results); status != 201 || err != nil {
		return fmt.Errorf("push again: %w", statusError{status, string(body)})
	}
	for i := range results {
		if results[i].Status != "duplicate" {
			return fmt.Errorf("item %d, pushed again, is %s", i, results[i].Status)
		}
	}
	return p.expect(200, deleteRequest(journalQueue))
}

func deleteRequest(queue string) []byte {
	return []byte("DELETE /api/v1/resources/queues/" + queue + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

// describe says how much there is.
func (r *row) describe(p *process) error {
	files, size, err := p.files()
	if err != nil {
		return err
	}
	segments, err := filepath.Glob(filepath.Join(p.dir, "segments", "*"))
	r.fact("files", float64(files), "")
	r.fact("segments", float64(len(segments)), "")
	r.fact("bytes on disk", megabytes(size), "MB")
	_, memoryErr := p.memoryFact(r, "memory of the broker that made it, or used it last")
	return errors.Join(err, memoryErr)
}
