package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	maintenancePath    = "/api/v1/system/maintenance"
	popMaintenancePath = "/api/v1/system/maintenance/pop"
)

type maintenanceAnswer struct {
	Push     bool            `json:"maintenanceMode"`
	Pop      bool            `json:"popMaintenanceMode"`
	Buffered int             `json:"bufferedMessages"`
	Healthy  bool            `json:"bufferHealthy"`
	Stats    json.RawMessage `json:"bufferStats"`
}

type maintenanceState struct {
	Push, Pop bool
	Buffered  int
}

// state asks for the switches and the spool.
func (w *world) state() maintenanceState {
	w.t.Helper()
	a := w.call("GET", maintenancePath, "")
	if a.status != http.StatusOK {
		w.t.Fatalf("maintenance: %d %s", a.status, a.body)
	}
	s := decode[maintenanceAnswer](w.t, a.body)
	stats := fmt.Sprintf(`{"pendingCount":%d,"failedCount":0,"dbHealthy":true,"failedFiles":{"count":0,"totalBytes":0,"totalMB":0.0,"failoverCount":0,"qos0Count":0}}`, s.Buffered)
	if !s.Healthy || string(s.Stats) != stats {
		w.t.Errorf("maintenance: %s", a.body)
	}
	return maintenanceState{s.Push, s.Pop, s.Buffered}
}

// maintain turns push maintenance on or off.
func (w *world) maintain(on bool) {
	w.t.Helper()
	if a := w.call("POST", maintenancePath, fmt.Sprintf(`{"enabled":%t}`, on)); a.status != http.StatusOK {
		w.t.Fatalf("maintenance %t: %d %s", on, a.status, a.body)
	}
}

// pausePops turns pop maintenance on or off.
func (w *world) pausePops(on bool) {
	w.t.Helper()
	if a := w.call("POST", popMaintenancePath, fmt.Sprintf(`{"enabled":%t}`, on)); a.status != http.StatusOK {
		w.t.Fatalf("pop maintenance %t: %d %s", on, a.status, a.body)
	}
}

// drained turns push maintenance off and waits until the spool is empty.
func (w *world) drained() {
	w.t.Helper()
	w.maintain(false)
	w.emptySpool()
}

func (w *world) emptySpool() {
	w.t.Helper()
	await(w.t, "the drain", func() bool { return w.state().Buffered == 0 })
}

// buffered pushes items that all have to be spooled, and returns their results.
func (w *world) buffered(items ...item) []pushResult {
	w.t.Helper()
	results := w.pushMixed(items...)
	for i, r := range results {
		if r.Status != "buffered" {
			w.t.Errorf("item %d: status %s, want buffered", i, r.Status)
		}
	}
	return results
}

// pushMixed pushes items that may be spooled or stored.
func (w *world) pushMixed(items ...item) []pushResult {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		w.t.Fatal(err)
	}
	a := w.call("POST", "/api/v1/push", string(body))
	if a.status != http.StatusCreated {
		w.t.Fatalf("push: %d %s", a.status, a.body)
	}
	results := decode[[]pushResult](w.t, a.body)
	if len(results) != len(items) {
		w.t.Fatalf("%d results for %d items", len(results), len(items))
	}
	for i, r := range results {
		want := items[i].TransactionID
		if want == "" {
			want = r.MessageID
		}
		if r.Index != i || r.Error != "" || r.TransactionID != want || r.Queue != items[i].Queue || !uuidv7Pattern.MatchString(r.MessageID) {
			w.t.Errorf("result %d: %+v", i, r)
		}
	}
	return results
}

// take pops everything a queue has with autoAck, and returns the messages.
func (w *world) take(queue string) (messages []message) {
	w.t.Helper()
	for {
		p := w.pop(queue, "autoAck=true", "batch=1000", "partitions=100")
		if p == nil {
			return messages
		}
		messages = append(messages, p.Messages...)
	}
}

// wantTaken takes everything of a queue and compares the transaction ids, in order.
func (w *world) wantTaken(queue string, want ...string) {
	w.t.Helper()
	var got []string
	for _, m := range w.take(queue) {
		got = append(got, m.TransactionID)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("queue %s delivers %v, want %v", queue, got, want)
	}
}

// M-704, M-707, M-121: while it is on, nothing reaches a queue; afterwards everything
// does, once, in the order of the pushes, with the ids that were announced.
func TestT46PushMaintenance(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "before"))
	w.maintain(true)
	if s := w.state(); !s.Push || s.Pop || s.Buffered != 0 {
		t.Errorf("after switching on: %+v", s)
	}
	told := append(w.buffered(msg("q", "p", "a"), msg("q", "p", "b")), w.buffered(msg("q", "p", "c"))...)
	if s := w.state(); s.Buffered != 3 {
		t.Errorf("3 spooled: %+v", s)
	}
	w.expect("GET", "/api/v1/status/buffers", "", 200, `{"pending":3,"failed":0,"dbHealthy":true,"worker":0}`)
	w.wantTaken("q", "before")
	if q := w.queue("q"); q.Totals.Total != 1 {
		t.Errorf("the queue has %+v under maintenance", q.Totals)
	}
	w.drained()
	got := w.take("q")
	if len(got) != 3 {
		t.Fatalf("%d messages, want 3", len(got))
	}
	for i, m := range got {
		if m.ID != told[i].MessageID || m.TransactionID != told[i].TransactionID || string(m.Data) != quote(m.TransactionID) {
			t.Errorf("message %d is %+v, announced as %+v", i, m, told[i])
		}
	}
	w.queued(msg("q", "p", "after"))
	w.wantTaken("q", "after")
}

// M-706: an id that was minted for the spool is the message's, for an ack as well, under
// a lease, without one, and after a restart.
func TestM706MintedWhenBuffered(t *testing.T) {
	for _, files := range []struct {
		name    string
		options []func(*world)
	}{{"from the journal", nil}, {"from segments", []func(*world){eagerCheckpoints}}} {
		t.Run(files.name, func(t *testing.T) {
			w := open(t, files.options...)
			w.maintain(true)
			var told []pushResult
			for range 4 {
				told = append(told, w.buffered(item{Queue: "q", Partition: "p", Payload: json.RawMessage("1")})...)
			}
			w.drained()
			p := w.pop("q", "batch=4")
			if p == nil || len(p.Messages) != 4 {
				t.Fatalf("pop: %+v", p)
			}
			for i, m := range p.Messages {
				if m.ID != told[i].MessageID || m.TransactionID != told[i].MessageID {
					t.Errorf("message %d is %s, %s; announced %s", i, m.ID, m.TransactionID, told[i].MessageID)
				}
			}
			w.ok(false, w.ack("", p.Messages[0].as("completed")))
			w.restart()
			w.ok(false, w.ack("", p.Messages[1].as("completed")))
			w.clock.advance(2 * time.Minute) // the lease is over
			free := p.Messages[2].as("completed")
			free.LeaseID = ""
			w.stop()
			w.damaged = true
			if err := os.RemoveAll(filepath.Join(w.dir, "dedup")); err != nil {
				t.Fatal(err)
			}
			w.start()
			if r := w.ack("", free); !r.Success {
				t.Errorf("ack without a lease: %s", show(r))
			}
			below := p.Messages[0].as("completed")
			below.LeaseID = ""
			w.noop(w.ack("", below))
			// It is the key that was used: who pushes the message again sends it along.
			again := w.push(msg("q", "p", told[0].TransactionID))
			if again[0].Status != "duplicate" || again[0].MessageID != told[0].MessageID {
				t.Errorf("pushed again: %+v, want a duplicate of %s", again[0], told[0].MessageID)
			}
			// A dead letter knows its message for longer than the key.
			last := w.pop("q", "batch=4").Messages[0]
			w.buried(w.ack("", last.as("dlq")))
			w.clock.advance(100 * time.Hour)
			w.push(msg("q", "p", "later"))
			w.filed()
			found := w.messages("queue=q", "status=dead_letter", "from=2000-01-01").Messages
			if len(found) != 1 || found[0].ID != told[3].MessageID {
				t.Errorf("dead letters among the messages: %+v, want %s", found, told[3].MessageID)
			}
		})
	}
}

// M-707: what is stored already inside the window is dropped by the drain, and so is
// what was spooled twice.
func TestM707DrainDropsDuplicates(t *testing.T) {
	w := open(t)
	stored := w.queued(msg("q", "p", "stored"))
	w.maintain(true)
	w.buffered(msg("q", "p", "stored"), msg("q", "p", "new"), msg("q", "other", "stored"))
	w.buffered(msg("q", "p", "new"))
	repeated := w.buffered(msg("q", "p", "again"), msg("q", "p", "again"))
	if repeated[0].MessageID != repeated[1].MessageID {
		t.Errorf("a repeat in one push has an id of its own: %+v", repeated)
	}
	w.drained()
	got := map[string]int{}
	for _, m := range w.take("q") {
		got[m.Partition+"/"+m.TransactionID]++
		if m.Partition == "p" && m.TransactionID == "stored" && m.ID != stored[0] {
			t.Errorf("the stored message has another id")
		}
	}
	want := map[string]int{"p/stored": 1, "p/new": 1, "p/again": 1, "other/stored": 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("delivered %v, want %v", got, want)
	}
	for _, r := range w.push(msg("q", "p", "new"), msg("q", "p", "again")) {
		if r.Status != "duplicate" {
			t.Errorf("pushed again after the drain: %+v", r)
		}
	}
}

// M-707: outside the window a key is stored again.
func TestM707DrainLooksThroughTheWindow(t *testing.T) {
	w := open(t)
	w.configure("q", `{"dedupWindowSeconds":60}`)
	w.queued(msg("q", "p", "x"))
	w.maintain(true)
	w.buffered(msg("q", "p", "x"))
	w.clock.advance(2 * time.Minute)
	w.drained()
	w.wantTaken("q", "x", "x")
}

// M-700, G-404: switches and spool survive a restart and a crash, switched on or not,
// filed or not.
func TestM700SurvivesARestart(t *testing.T) {
	for _, row := range []struct {
		name    string
		options []func(*world)
		end     func(*world)
	}{
		{"restart", nil, (*world).restart},
		{"crash", nil, (*world).crash},
		{"restart, filed", []func(*world){eagerCheckpoints}, (*world).restart},
		{"crash, filed", []func(*world){eagerCheckpoints}, (*world).crash},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := open(t, row.options...)
			w.maintain(true)
			w.pausePops(true)
			w.buffered(numbered("q", "p", "a", 3)...)
			row.end(w)
			if s := w.state(); !s.Push || !s.Pop || s.Buffered != 3 {
				t.Fatalf("afterwards: %+v", s)
			}
			w.buffered(numbered("q", "p", "b", 2)...)
			w.pausePops(false)
			if p := w.pop("q"); p != nil {
				t.Errorf("a spooled message is delivered: %+v", p)
			}
			w.drained()
			row.end(w)
			if s := w.state(); s != (maintenanceState{}) {
				t.Errorf("after the drain: %+v", s)
			}
			w.queued(msg("q", "p", "c"))
			row.end(w)
			w.wantTaken("q", "a0", "a1", "a2", "b0", "b1", "c")
		})
	}
}

// G-402: what is no push is not diverted, and names no spool.
func TestG402OnlyPushesAreDiverted(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 2)...)
	w.maintain(true)
	w.buffered(msg("new.queue", "p", "spooled"))
	w.configure("configured", `{"leaseTime":5}`)
	p := w.pop("q", "batch=2")
	w.ackAll("", p)
	var names []string
	for _, q := range w.queues() {
		names = append(names, q.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"configured", "q"}) {
		t.Errorf("queues under maintenance: %v", names)
	}
	if p := w.discover("namespace=new", "wait=false"); p != nil {
		t.Errorf("a spooled message is discovered: %+v", p)
	}
	w.drained()
	if p := w.discover("namespace=new", "wait=false"); p == nil || p.Messages[0].TransactionID != "spooled" {
		t.Errorf("drained, and not discovered: %+v", p)
	}
}

// G-313, G-405: no dead letter is moved meanwhile, and none is lost.
func TestG405NoReplayUnderMaintenance(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "dead"))
	w.buried(w.ack("", w.pop("q").Messages[0].as("dlq")))
	letter := w.deadLetters()[0]
	w.maintain(true)
	w.expect("POST", address(letter.PartitionID, "dead")+"/retry", "{}", 503,
		`{"success":false,"result":"maintenance","partitionId":"`+letter.PartitionID+`","transactionId":"dead","dlqRowRemoved":false,"error":"maintenance mode is on","message":"The dead letter stays where it is until push maintenance is off"}`)
	w.expect("POST", "/api/v1/dlq/"+letter.ID+"/replay", "", 503,
		`{"success":false,"result":"maintenance","dlqId":"`+letter.ID+`","dlqRowRemoved":false,"error":"maintenance mode is on","message":"The dead letter stays where it is until push maintenance is off"}`)
	if a := w.call("POST", address(letter.PartitionID, "alive")+"/retry", "{}"); a.status != 404 {
		t.Errorf("a dead letter that is none: %d %s", a.status, a.body)
	}
	w.drained()
	if r := w.retry(letter); r.Result != "moved" {
		t.Errorf("afterwards: %+v", r)
	}
}

// M-707, G-403, G-404: through many windows of maintenance, with producers that never
// pause, everything produced is received, once, in the order of its partition.
func TestM707ProducedEqualsReceived(t *testing.T) {
	const producers, cycles, perWindow = 4, 5, 20
	w := open(t, eagerCheckpoints)
	var pushed [producers]atomic.Int64
	var stop atomic.Bool
	var work sync.WaitGroup
	for n := range producers {
		work.Go(func() {
			partition := fmt.Sprint("p", n)
			for i := 0; !stop.Load(); i++ {
				it := msg("q", partition, fmt.Sprintf("%s-%d", partition, i))
				if i%3 == 0 {
					it.TransactionID = ""
				}
				other := msg("other", "x", fmt.Sprintf("o-%d-%d", n, i))
				w.pushMixed(it, other)
				pushed[n].Store(int64(i + 1))
			}
		})
	}
	progress := func() {
		var from [producers]int64
		for n := range from {
			from[n] = pushed[n].Load()
		}
		await(t, "producers", func() bool {
			for n := range from {
				if pushed[n].Load() < from[n]+perWindow {
					return false
				}
			}
			return true
		})
	}
	received := map[string][]string{}
	note := func(messages []message) {
		for _, m := range messages {
			var text string
			if err := json.Unmarshal(m.Data, &text); err != nil {
				t.Fatal(err)
			}
			received[m.Partition] = append(received[m.Partition], text)
		}
	}
	consume := func() { // some: on one processor the producers are faster
		if p := w.pop("q", "autoAck=true", "batch=1000", "partitions=100"); p != nil {
			note(p.Messages)
		}
	}
	for range cycles {
		progress()
		w.maintain(true)
		progress()
		consume()
		w.maintain(false)
		await(t, "a push that is stored at once", func() bool {
			return w.pushMixed(msg("probe", "p", ""))[0].Status == "queued"
		})
		consume()
	}
	stop.Store(true)
	work.Wait()
	w.drained()
	note(w.take("q"))
	total := 0
	for n := range producers {
		partition := fmt.Sprint("p", n)
		got := received[partition]
		if int64(len(got)) != pushed[n].Load() {
			t.Errorf("partition %s: %d received of %d", partition, len(got), pushed[n].Load())
		}
		for i, text := range got {
			if want := fmt.Sprintf("%s-%d", partition, i); text != want {
				t.Fatalf("partition %s: message %d is %s", partition, i, text)
			}
		}
		total += len(got)
	}
	if got := len(w.take("other")); got != total {
		t.Errorf("the shared partition delivers %d of %d", got, total)
	}
}

// Many queues and partitions in one push, and large ones, come out of the spool as they
// would have been stored.
func TestM704MixedQueuesAndSizes(t *testing.T) {
	w := open(t, eagerCheckpoints)
	w.maintain(true)
	var items []item
	for i := range 3000 {
		items = append(items, msg(fmt.Sprint("q", i%3), fmt.Sprint("p", i%7), fmt.Sprint("m", i)))
	}
	w.buffered(items...)
	large := make([]byte, 3<<20)
	for i := range large {
		large[i] = 'x'
	}
	w.buffered(item{Queue: "q0", Partition: "large", Payload: json.RawMessage(quote(string(large)))})
	w.crash()
	w.drained()
	seen := 0
	for q := range 3 {
		last := map[string]int{}
		for _, m := range w.take(fmt.Sprint("q", q)) {
			seen++
			if m.Partition == "large" {
				if len(m.Data) != len(large)+2 {
					t.Errorf("the large payload has %d bytes", len(m.Data))
				}
				continue
			}
			var n int
			if _, err := fmt.Sscanf(m.TransactionID, "m%d", &n); err != nil || n%3 != q || m.Partition != fmt.Sprint("p", n%7) {
				t.Fatalf("queue q%d partition %s has %s", q, m.Partition, m.TransactionID)
			}
			if before, ok := last[m.Partition]; ok && before >= n {
				t.Fatalf("queue q%d partition %s: m%d after m%d", q, m.Partition, n, before)
			}
			last[m.Partition] = n
		}
	}
	if seen != 3001 {
		t.Errorf("%d messages, want 3001", seen)
	}
}

// M-704: a parked poll gets what the drain stores.
func TestM704DrainWakesParkedPops(t *testing.T) {
	w := open(t)
	held := later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=20000") })
	w.parked(1)
	w.maintain(true)
	w.buffered(msg("q", "p", "m"))
	w.maintain(false)
	if p, ok := <-held; ok && (p == nil || p.Messages[0].TransactionID != "m") {
		t.Errorf("delivered %+v", p)
	}
}

// On again before the spool is empty, off again: nothing is lost in between.
func TestM707SwitchedBackAndForth(t *testing.T) {
	w := open(t)
	var want []string
	for i := range 50 {
		w.maintain(i%2 == 0)
		id := fmt.Sprint("m", i)
		w.pushMixed(msg("q", "p", id))
		want = append(want, id)
	}
	w.drained()
	w.wantTaken("q", want...)
}

// G-410, G-417: tools that look for a cluster hear that there is none, and the switches.
func TestG410SharedState(t *testing.T) {
	w := open(t)
	for _, state := range []struct{ push, pop bool }{{false, false}, {true, false}, {true, true}, {false, true}} {
		w.maintain(state.push)
		w.pausePops(state.pop)
		w.restart()
		switches := fmt.Sprintf(`"maintenance_mode":%t,"pop_maintenance_mode":%t}`, state.push, state.pop)
		w.expect("GET", "/api/v1/system/shared-state", "", 200, `{"enabled":false,"reason":"single_node_segments_broker",`+switches)
		w.expect("GET", "/internal/api/shared-state/stats", "", 200, `{"enabled":false,"reason":"no_peers",`+switches)
		w.expect("GET", "/internal/api/inter-instance/stats", "", 200, `{"enabled":false,"reason":"no_peers",`+switches)
	}
}
