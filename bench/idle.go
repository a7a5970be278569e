package main

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/skepmq/skep/bench/hist"
)

const (
	idleName      = "idle push/batch=1/conns=1"
	factIdleRatio = "p50 against append + fdatasync"

	// idleRounds is how often the disk and the broker take turns.
	idleRounds = 4
)

func idleScenario() scenario { return scenario{name: idleName, quick: true, run: runIdle} }

// runIdle measures one push at a time on a broker that has nothing else to do, beside what
// the disk needs for the least that a push can be.
func runIdle(b *bench, name string) (r *row, err error) {
	broker, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer broker.discard(&err)
	one := shape{batch: 1}
	answer, err := broker.probePush(queueName, one)
	if err != nil {
		return nil, err
	}
	disk, err := os.Create(filepath.Join(b.dir, "fdatasync"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, disk.Close(), os.Remove(disk.Name())) }()
	pusher := newPusher(pushPath, queueName, one, answer, 0)
	var m measured
	var syncs hist.Histogram
	for range idleRounds {
		if err := appendAndSync(disk, b.o.duration/(2*idleRounds), &syncs); err != nil {
			return nil, err
		}
		if err := m.slice(b.ctx, broker, b.o.duration/idleRounds, []work{pusher.push}); err != nil {
			return nil, err
		}
	}
	r = m.row(name)
	r.fact("append + fdatasync of 4 KiB, p50", micros(syncs.Quantile(0.5)), "us")
	r.fact("append + fdatasync of 4 KiB, p99", micros(syncs.Quantile(0.99)), "us")
	r.fact(factIdleRatio, float64(r.P50)/float64(syncs.Quantile(0.5)), "x")
	return r, broker.checkStored(queueName, m.tally.messages+1)
}

// appendAndSync appends 4 KiB to f and makes them durable, over and over for d.
func appendAndSync(f *os.File, d time.Duration, h *hist.Histogram) error {
	page := make([]byte, 4<<10)
	for end := time.Now().Add(d); ; {
		begun := time.Now()
		if begun.After(end) {
			return nil
		}
		if _, err := f.Write(page); err != nil {
			return err
		}
		if err := syncData(f); err != nil {
			return err
		}
		h.Record(time.Since(begun))
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
