package server

import (
	"sync/atomic"
	"time"

	"github.com/skepmq/skep/log/journal"
)

// operation is what requests are counted by.
type operation uint8

const (
	opNone operation = iota // no route took it
	opPush
	opPop
	opAck
	opTransaction
	opLease
	opConfigure
	opManage // the rest of the API
	opProbe  // health, status, metrics
	operations
)

var operationNames = [operations]string{"none", "push", "pop", "ack", "transaction", "lease", "configure", "manage", "probe"}

// operationOf names what the routes of a pattern do.
func operationOf(segments []string) operation {
	if segments[0] != "api" {
		return opProbe
	}
	switch segments[2] {
	case "push":
		return opPush
	case "pop":
		return opPop
	case "ack":
		return opAck
	case "transaction":
		return opTransaction
	case "lease":
		return opLease
	case "configure":
		return opConfigure
	}
	return opManage
}

const (
	lowStatus  = 200
	highStatus = 600
)

// requestCounts are atomics, found by numbers: every request passes here.
type requestCounts struct {
	byStatus [operations][highStatus - lowStatus]atomic.Int64
	took     [operations]latency
}

func (c *requestCounts) count(op operation, status int, took time.Duration) {
	c.byStatus[op][min(max(status-lowStatus, 0), highStatus-lowStatus-1)].Add(1)
	if op != opPop { // those wait for messages
		c.took[op].record(took)
	}
}

// refused is how many requests were answered 5xx: the broker could not do what was asked.
func (c *requestCounts) refused() (n int64) {
	for op := range c.byStatus {
		for status := 500; status < highStatus; status++ {
			n += c.byStatus[op][status-lowStatus].Load()
		}
	}
	return n
}

// latency counts durations by the bounds of journal.SyncBounds.
type latency struct {
	counts [len(journal.SyncBounds) + 1]atomic.Int64
}

func (l *latency) record(d time.Duration) {
	l.counts[journal.SyncBucket(d)].Add(1)
}

func (l *latency) load() (counts journal.SyncCounts) {
	for i := range counts {
		counts[i] = l.counts[i].Load()
	}
	return counts
}
