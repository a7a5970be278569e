package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/skepmq/skep/bench/wire"
	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/server"
)

// inProcess is a broker and its server in this process, reached through memory.
type inProcess struct {
	tb testing.TB
	ln *fasthttputil.InmemoryListener
}

func startInProcess(tb testing.TB, mode journal.SyncMode) *inProcess {
	b, err := broker.Open(broker.Options{Dir: tb.TempDir(), Logger: zerolog.Nop(), Sync: mode})
	if err != nil {
		tb.Fatal(err)
	}
	s := server.New(server.Options{Broker: b, Logger: zerolog.Nop()})
	ln := fasthttputil.NewInmemoryListener()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	tb.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
		if err := <-served; err != nil {
			tb.Error(err)
		}
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &inProcess{tb, ln}
}

func (p *inProcess) dial() *wire.Conn {
	c, err := p.ln.Dial()
	if err != nil {
		p.tb.Fatal(err)
	}
	conn := wire.New(c)
	p.tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// pusher returns a pusher that knows how long the answers are.
func (p *inProcess) pusher(s shape) *pusher {
	answer, err := probe(p.dial(), probeQueue, s)
	if err != nil {
		p.tb.Fatal(err)
	}
	return newPusher(pushPath, queueName, s, answerFor(queueName, probeQueue, answer, s), 0)
}

var syncModes = []struct {
	name string
	mode journal.SyncMode
}{{"off", journal.SyncNever}, {"on", journal.SyncGroup}}

func BenchmarkPush(b *testing.B) {
	for _, m := range syncModes {
		for _, batch := range []int{1, 10, 100} {
			for _, ids := range []bool{false, true} {
				b.Run(fmt.Sprintf("size=%d/batch=%d/ids=%t/sync=%s", payloadSize, batch, ids, m.name), func(b *testing.B) {
					benchmarkPush(b, m.mode, shape{batch: batch, ids: ids})
				})
			}
		}
	}
}

func benchmarkPush(b *testing.B, mode journal.SyncMode, s shape) {
	p := startInProcess(b, mode)
	push := p.pusher(s)
	push.partitions = 1000
	c := p.dial()
	b.SetBytes(int64(s.batch * payloadSize))
	b.ReportAllocs()
	for b.Loop() {
		if err := push.send(c, push.next()); err != nil {
			b.Fatal(err)
		}
	}
	reportMessages(b, s.batch)
}

func reportMessages(b *testing.B, batch int) {
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkPop pops and acknowledges. The pushes between are not timed.
func BenchmarkPop(b *testing.B) {
	for _, m := range syncModes {
		for _, batch := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("size=%d/batch=%d/sync=%s", payloadSize, batch, m.name), func(b *testing.B) {
				benchmarkPop(b, m.mode, batch)
			})
		}
	}
}

func benchmarkPop(b *testing.B, mode journal.SyncMode, batch int) {
	const pushesAhead = 64 // so that stopping the clock costs little
	p := startInProcess(b, mode)
	push := p.pusher(shape{batch: batch})
	push.partitions = 1000
	c, k := p.dial(), newConsumer(queueName, popQuery{group: "billing", batch: batch, partitions: 1})
	b.SetBytes(int64(batch * payloadSize))
	b.ReportAllocs()
	ahead := 0
	for b.Loop() {
		if ahead == 0 {
			b.StopTimer()
			for ; ahead < pushesAhead; ahead++ {
				if err := push.send(c, push.next()); err != nil {
					b.Fatal(err)
				}
			}
			b.StartTimer()
		}
		ahead--
		if n, err := k.pop(c); err != nil || n != batch {
			b.Fatalf("popped %d messages, %v", n, err)
		}
		if err := k.acknowledge(c); err != nil {
			b.Fatal(err)
		}
	}
	reportMessages(b, batch)
}
