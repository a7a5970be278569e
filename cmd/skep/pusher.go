package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/skepmq/skep/client"
)

const (
	// maxLine is the longest line of input, in bytes.
	maxLine = 32 << 20
	// maxRequest is where a request stops growing. A longer line travels alone.
	maxRequest = 1 << 20
	// maxAhead is how much input is held in memory, in bytes.
	maxAhead = 64 << 20
)

var errInterrupted = errors.New("push: interrupted")

// pushCounts is what became of the lines.
type pushCounts struct{ pushed, duplicates, failed int64 }

// pusher reads lines in one goroutine and pushes them from several. A partition
// belongs to one lane and a lane to one worker, whose requests follow each other: so
// the lines of a partition stay in order.
type pusher struct {
	opts  *pushOptions
	queue client.Queue
	lanes []chan line
	ahead *quota
	out   io.Writer
	diag  io.Writer

	mu sync.Mutex // guards n, and out and diag from interleaving
	n  pushCounts
}

func newPusher(o *pushOptions, q client.Queue, out, diag io.Writer) *pusher {
	p := &pusher{opts: o, queue: q, out: out, diag: diag, ahead: newQuota(maxAhead)}
	for range o.concurrency {
		p.lanes = append(p.lanes, make(chan line, o.batch))
	}
	return p
}

func (p *pusher) counts() pushCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// run pushes what it reads from in until its end, an error or the end of ctx. Requests
// under way are always finished, so that their verdicts are known.
//
// The reader is not waited for when something else ends the run: a read of standard
// input cannot be interrupted, and the process is about to end.
func (p *pusher) run(ctx context.Context, in io.Reader) error {
	stop, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer p.ahead.close()
	var workers sync.WaitGroup
	for _, lane := range p.lanes {
		workers.Go(func() { p.work(ctx, stop, lane, fail) })
	}
	read := make(chan error, 1)
	go func() {
		err := p.read(stop, in)
		for _, lane := range p.lanes {
			close(lane)
		}
		read <- err
	}()
	workers.Wait() // until the lanes are closed and empty, or stop
	if stop.Err() == nil {
		return <-read
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	return context.Cause(stop)
}

// read distributes lines over the lanes. After a line that is broken it reads no
// further, unless told to go on; the lines before it are pushed.
func (p *pusher) read(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	number := 0
	for lines.Scan() {
		number++
		text := bytes.Trim(lines.Bytes(), " \t\r\n")
		if len(text) == 0 {
			continue
		}
		l, err := p.opts.parse(number, text)
		if err != nil {
			err = fmt.Errorf("line %d: %w", number, err)
			if !p.opts.continueOnError {
				return err
			}
			p.complain(err, 1)
			continue
		}
		if !p.ahead.take(l.size) {
			return nil
		}
		lane := p.lanes[xxhash.Sum64String(l.item.Partition)%uint64(len(p.lanes))]
		select {
		case lane <- l:
		case <-ctx.Done():
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", number+1, err)
	}
	return nil
}

// work pushes the lines of a lane: whatever has come in while the last request was
// under way, up to a batch. So a slow input is pushed line by line, without delay.
func (p *pusher) work(ctx, stop context.Context, lane chan line, fail context.CancelCauseFunc) {
	var batch []line
	for {
		var ok bool
		if batch, ok = p.gather(stop, lane, batch[:0]); !ok {
			return
		}
		size := 0
		for i := range batch {
			size += batch[i].size
		}
		err := p.push(context.WithoutCancel(ctx), batch)
		p.ahead.give(size)
		if err != nil && !p.opts.continueOnError {
			fail(err)
			return
		}
	}
}

// gather waits for a line and takes those behind it that are there.
func (p *pusher) gather(stop context.Context, lane chan line, batch []line) ([]line, bool) {
	if stop.Err() != nil { // a select would choose at random
		return batch, false
	}
	var size int
	select {
	case l, ok := <-lane:
		if !ok {
			return batch, false
		}
		batch, size = append(batch, l), l.size
	case <-stop.Done():
		return batch, false
	}
	for len(batch) < p.opts.batch && size < maxRequest {
		select {
		case l, ok := <-lane:
			if !ok {
				return batch, true
			}
			batch, size = append(batch, l), size+l.size
		default:
			return batch, true
		}
	}
	return batch, true
}

// push sends one request and records the verdicts.
func (p *pusher) push(ctx context.Context, batch []line) error {
	items := make([]client.Item, len(batch))
	for i := range batch {
		items[i] = batch[i].item
	}
	results, err := p.queue.Push(ctx, items...)
	if err != nil {
		err = fmt.Errorf("lines %d to %d: %w", batch[0].number, batch[len(batch)-1].number, err)
	}
	if results == nil {
		p.complain(err, len(batch))
		return err
	}
	if printErr := p.record(batch, results); printErr != nil {
		return errors.Join(err, printErr)
	}
	if err != nil {
		p.complain(err, 0)
	}
	return err
}

// record counts results and prints them if asked to.
func (p *pusher) record(batch []line, results []client.PushResult) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text bytes.Buffer
	for i, r := range results {
		switch r.Status {
		case client.Queued, client.Buffered:
			p.n.pushed++
		case client.Duplicate:
			p.n.duplicates++
		default:
			p.n.failed++
		}
		if p.opts.printIDs {
			p.appendVerdict(&text, batch[i], r)
		}
	}
	if text.Len() == 0 {
		return nil
	}
	if _, err := p.out.Write(text.Bytes()); err != nil {
		return fmt.Errorf("print ids: %w", err)
	}
	return nil
}

func (p *pusher) appendVerdict(w *bytes.Buffer, l line, r client.PushResult) {
	partition := l.item.Partition
	switch {
	case partition != "":
	case p.opts.partitionSet:
		partition = p.opts.partition
	default:
		partition = "Default"
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	// A struct of strings and a number always encodes.
	_ = enc.Encode(struct {
		Line          int    `json:"line"`
		Partition     string `json:"partition"`
		ID            string `json:"id"`
		TransactionID string `json:"transactionId"`
		Status        string `json:"status"`
		Error         string `json:"error,omitempty"`
	}{l.number, partition, r.MessageID, r.TransactionID, r.Status, r.Error})
}

// complain counts failed lines, and says why if the run goes on; otherwise the error
// is the command's.
func (p *pusher) complain(err error, failed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n.failed += int64(failed)
	if p.opts.continueOnError {
		fmt.Fprintf(p.diag, "skep push: %v\n", err)
	}
}

// quota bounds the bytes read ahead.
type quota struct {
	mu     sync.Mutex
	cond   *sync.Cond
	free   int
	total  int
	closed bool
}

func newQuota(n int) *quota {
	q := &quota{free: n, total: n}
	q.cond = sync.NewCond(&q.mu)
	return q
}

// take waits for n bytes and reports false when the quota was closed meanwhile.
func (q *quota) take(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.free < n && q.free < q.total && !q.closed {
		q.cond.Wait()
	}
	q.free -= n // below 0 for a line larger than the quota, which travels alone
	return !q.closed
}

func (q *quota) give(n int) {
	q.mu.Lock()
	q.free += n
	q.mu.Unlock()
	q.cond.Broadcast()
}

func (q *quota) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cond.Broadcast()
}
