package server

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
)

// logged are the lines of a log, by their message.
func logged(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for line := range strings.Lines(text) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		message := fields["message"].(string)
		if found[message] != nil {
			t.Errorf("twice: %s", line)
		}
		found[message] = fields
	}
	return found
}

// G-902: what went through is logged with the busiest queues, since the line before.
func TestG902Rates(t *testing.T) {
	now := time.Unix(1000, 0)
	f, out := newFake(), &lines{}
	s := New(Options{Broker: f, Now: func() time.Time { return now }, LogTopQueues: 2})
	r := newRates(s, zerolog.New(out))
	step := func(d time.Duration, change func(*broker.Traffic)) map[string]map[string]any {
		t.Helper()
		now = now.Add(d)
		change(&f.stats.Traffic)
		r.look(s, f)
		return logged(t, out.take())
	}
	flow := func(id byte, name string, pushed, popped int64) {
		q := broker.QueueTraffic{ID: uuid.UUID{id}, Tenant: broker.DefaultTenant, Name: name}
		q.Traffic[broker.PushedMessages], q.Traffic[broker.PoppedMessages] = pushed, popped
		f.traffic = append(f.traffic, q)
	}
	want := func(got map[string]any, want map[string]any) {
		t.Helper()
		for name, v := range want {
			if got[name] != v {
				t.Errorf("%s: got %v, want %v", name, got[name], v)
			}
		}
	}
	flow(1, "a", 10, 0)
	flow(2, "b", 20, 5)
	flow(3, "c", 1, 0)
	f.traffic[2].Tenant = broker.Tenant{9}
	s.requests.count(opPush, 201, 3*time.Millisecond)
	s.requests.count(opPush, 507, time.Millisecond)
	f.stats.Parked, f.stats.Segments, f.stats.DiskFree, f.state.Buffered = 7, 3, 4096, 9
	got := step(10*time.Second, func(t *broker.Traffic) {
		t[broker.PushedMessages], t[broker.PushRequests], t[broker.PoppedMessages] = 31, 4, 5
	})
	want(got["rates"], map[string]any{
		"level": "info", "seconds": 10.0, "push_per_s": 3.1, "push_requests_per_s": 0.4, "pop_per_s": 0.5, "ack_per_s": 0.0,
		"push_p50_ms": 1.0, "push_p99_ms": 3.0, "ack_p99_ms": 0.0, "parked": 7.0, "refused": 1.0,
	})
	want(got["sizes"], map[string]any{"segments": 3.0, "disk_free_bytes": 4096.0, "spooled_messages": 9.0})
	if rss, ok := got["sizes"]["rss_bytes"].(float64); !ok || rss <= 0 {
		t.Errorf("sizes: %v", got["sizes"])
	}
	if text, _ := json.Marshal(got["busiest queues"]["queues"]); string(text) !=
		`[{"acked":0,"popped":5,"pushed":20,"queue":"b"},{"acked":0,"popped":0,"pushed":10,"queue":"a"}]` {
		t.Errorf("queues: %s", text)
	}

	for name, change := range map[string]func(*broker.Traffic){
		"nothing":     func(*broker.Traffic) {},
		"empty polls": func(t *broker.Traffic) { t[broker.PopRequests] += 9; t[broker.EmptyPops] += 9 },
	} {
		if got := step(10*time.Second, change); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	f.traffic[2].Traffic[broker.AckedMessages] = 6
	got = step(5*time.Second, func(t *broker.Traffic) { t[broker.AckedMessages] = 6 })
	want(got["rates"], map[string]any{"seconds": 5.0, "push_per_s": 0.0, "ack_per_s": 1.2, "push_p99_ms": 0.0, "refused": 0.0})
	if text, _ := json.Marshal(got["busiest queues"]["queues"]); string(text) != `[{"acked":6,"popped":0,"pushed":0,"queue":"c","tenant":"09000000-0000-0000-0000-000000000000"}]` {
		t.Errorf("queues: %s", text)
	}
	for name, change := range map[string]func(*broker.Traffic){
		"a busy loop": func(t *broker.Traffic) { t[broker.PopRequests] += 10; t[broker.EmptyPops] += 10 },
		"retention":   func(t *broker.Traffic) { t[broker.DroppedByAge]++ },
		"a refusal":   func(*broker.Traffic) { s.requests.count(opPop, 503, 0) },
	} {
		if got := step(10*time.Second, change); len(got) != 2 {
			t.Errorf("%s: %v", name, got)
		}
	}
	s.opts.LogTopQueues = 0
	f.traffic[0].Traffic[broker.AckedMessages]++
	if got := step(time.Second, func(t *broker.Traffic) { t[broker.AckedMessages]++ }); len(got) != 2 {
		t.Errorf("without queues: %v", got)
	}
}

// The lines come for as long as the server serves, and never if they are switched off.
func TestG902Pauses(t *testing.T) {
	for every, want := range map[time.Duration]int{0: 0, 10 * time.Second: 3} {
		synctest.Test(t, func(t *testing.T) {
			out := &lines{}
			f := &counting{fake: newFake()} // with each look a message more
			s := New(Options{Broker: f, LogRatesEvery: every, LoggerOf: func(target string) zerolog.Logger {
				return zerolog.New(out).With().Str("target", target).Logger()
			}})
			stop := s.startRates()
			time.Sleep(35 * time.Second) // of the bubble
			stop()
			time.Sleep(time.Minute)
			if got := strings.Count(out.take(), `"target":"rates","seconds":`); got != want {
				t.Errorf("every %v: %d lines, want %d", every, got, want)
			}
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// G-902: requests of an operation are logged if that is asked for, without their query.
func TestG902RequestLogs(t *testing.T) {
	out := &lines{}
	log := zerolog.New(out).Level(zerolog.DebugLevel)
	c := startMemory(t, newFake(), Options{RequestLogs: map[string]zerolog.Logger{"pop": log, "none": log}})
	call(t, c, "GET", "/api/v1/pop/queue/a%2Fb?consumerGroup=secret", "")
	call(t, c, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`)
	call(t, c, "GET", "/api/nothing", "")
	text := out.take()
	for _, want := range []string{`"method":"GET","path":"/api/v1/pop/queue/a%2Fb","status":204,`, `"path":"/api/nothing","status":404,`} {
		if strings.Count(text, want) != 1 {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Count(text, "\n") != 2 || strings.Contains(text, "secret") {
		t.Errorf("logged %s", text)
	}
}
