package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestPayloads(t *testing.T) {
	p := payloads{testSeed}
	smallest, largest := 1<<30, 0
	for n := range uint32(2000) {
		b := p.append(nil, n)
		if !json.Valid(b) {
			t.Fatalf("payload %d is not JSON: %.200s", n, b)
		}
		if got, ok := payloadNumber(b); !ok || got != n {
			t.Fatalf("got number %d, %v want %d", got, ok, n)
		}
		if string(p.append([]byte("x"), n)) != "x"+string(b) {
			t.Fatalf("payload %d is another one the second time", n)
		}
		smallest, largest = min(smallest, len(b)), max(largest, len(b))
	}
	if smallest < payloadMin || smallest > 2*payloadMin || largest > payloadMax || largest < payloadMax/2 {
		t.Errorf("got %d to %d bytes want %d to %d, nearly", smallest, largest, payloadMin, payloadMax)
	}
}

func TestPayloadNumber(t *testing.T) {
	for _, data := range []string{``, `null`, `{}`, `{"m":`, `{"m":1`, `{"m":x,`, `{"m":4294967296,`, `{"m":-1,`, ` {"m":1,`} {
		if n, ok := payloadNumber([]byte(data)); ok {
			t.Errorf("%q: got number %d want none", data, n)
		}
	}
}

func TestGate(t *testing.T) {
	g := newGate()
	got := make(chan int, 1)
	ask := func() {
		go func() {
			life, _, err := g.wait(t.Context())
			if err != nil {
				life = -1
			}
			got <- life
		}()
	}
	ask()
	g.shut() // a crash while starting shuts a gate that was never opened
	g.open(1, "a")
	if life := <-got; life != 1 {
		t.Errorf("got life %d want 1", life)
	}
	g.shut()
	ask()
	g.shut()
	g.open(2, "b")
	if life := <-got; life != 2 {
		t.Errorf("got life %d want 2", life)
	}
	g.shut()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := g.wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v want %v", err, context.Canceled)
	}
}

func TestTornStore(t *testing.T) {
	root := t.TempDir()
	s := &tornStore{killStore{root}, rand.New(rand.NewPCG(1, 1))}
	write := func(name string) {
		path := filepath.Join(s.dir(), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("data"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, log := range []string{"journal", "offsets", "catalog"} {
		for _, name := range []string{"0001/0001", "0002/0001", "0002/0003", "0002/0003.7.broken", "0002/other"} {
			write(filepath.Join(log, name))
		}
	}
	for range 20 {
		how, err := s.tear()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(how, "/0002/0003") {
			t.Fatalf("got %q want the newest file", how)
		}
	}
	for _, log := range []string{"journal", "offsets", "catalog"} {
		b, err := os.ReadFile(filepath.Join(s.dir(), log, "0002/0003"))
		if err != nil || !strings.HasPrefix(string(b), "data") || len(b) == len("data") {
			t.Errorf("%s: got %d bytes, %v want the data and garbage", log, len(b), err)
		}
	}
	if err := s.close(true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.dir()); err != nil {
		t.Error("what was to be kept is gone")
	}
	if err := s.close(false); err != nil {
		t.Fatal(err)
	}
	if how, err := s.tear(); err != nil || how != "nothing to tear" {
		t.Errorf("got %q, %v", how, err)
	}
}

func TestPlans(t *testing.T) {
	for _, test := range []struct {
		mode string
		want string
	}{
		{"kill", "kill 7"}, {"torn", "torn 7"}, {"powercut", "powercut 7"}, {"all", "kill 7 torn 4 powercut 4"}, {"x", ""},
	} {
		plans, err := (&settings{mode: test.mode, rounds: 7}).plans()
		var got []string
		for _, p := range plans {
			got = append(got, p.mode, string(rune('0'+p.rounds)))
		}
		if strings.Join(got, " ") != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: got %v, %v want %s", test.mode, got, err, test.want)
		}
	}
}

// stub is a broker that knows one answer, and remembers the last request.
type stub struct {
	mu         sync.Mutex
	status     int // 0 breaks the connection instead of answering
	answer     string
	path, body string
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.path, s.body = r.Method+" "+r.URL.RequestURI(), string(b)
	if s.status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(s.status)
	if _, err := io.WriteString(w, s.answer); err != nil {
		panic(err)
	}
}

func (s *stub) will(status int, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.answer = status, answer
}

func (s *stub) saw() (path, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.path, s.body
}

// newStubWorker connects a worker to a stub.
func newStubWorker(t *testing.T) (*worker, *stub, *script) {
	s := newScript(t)
	st := &stub{}
	server := httptest.NewServer(st)
	t.Cleanup(server.Close)
	g := newGate()
	g.open(1, strings.TrimPrefix(server.URL, "http://"))
	begun := time.Now()
	w := &worker{
		name: "w", check: s.checker, gate: g, now: func() moment { return time.Since(begun) }, rng: rand.New(rand.NewPCG(1, 1)),
	}
	t.Cleanup(w.hangUp)
	return w, st, s
}

func TestWorkerPushes(t *testing.T) {
	w, st, s := newStubWorker(t)
	items := s.add(2)
	if ok, err := w.push(t.Context(), items); ok || err != nil || s.totals.lostPushes != 2 {
		t.Fatalf("without an answer: got %v, %v, %d lost", ok, err, s.totals.lostPushes)
	}
	st.will(http.StatusCreated, `[{"index":0,"message_id":"id-0","transaction_id":"t0","queueName":"q","status":"queued","offset":0},`+
		`{"index":1,"message_id":"id-1","transaction_id":"t1","queueName":"q","status":"queued","offset":1}]`)
	if ok, err := w.push(t.Context(), items); !ok || err != nil || s.q.stored != 2 {
		t.Fatalf("got %v, %v, %d stored", ok, err, s.q.stored)
	}
	path, body := st.saw()
	want := `{"items":[{"queue":"q","partition":"a","transactionId":"t0","payload":` + string(s.payloads.append(nil, 0)) +
		`},{"queue":"q","partition":"a","transactionId":"t1","payload":` + string(s.payloads.append(nil, 1)) + `}]}`
	if path != "POST /api/v1/push" || body != want {
		t.Errorf("got %s with %s want %s", path, body, want)
	}
	if s.failed() {
		t.Errorf("got violations %v", s.violations)
	}
	st.will(http.StatusInternalServerError, `{"error":"pool"}`)
	if ok, err := w.push(t.Context(), items); ok || err != nil || !s.failed() {
		t.Errorf("answered 500: got %v, %v, violations %v", ok, err, s.violations)
	}
}

func TestWorkerConsumes(t *testing.T) {
	w, st, s := newStubWorker(t)
	s.pushLost(s.add(2))
	st.will(http.StatusOK, s.answerOf("g", "lease", 0, 1))
	p := &pop{queue: s.q, group: "g", batch: 5, partitions: 1, leaseSeconds: 1, wait: time.Second, mode: "new", partition: "a"}
	parts, err := w.pop(t.Context(), p)
	if err != nil || len(parts) != 1 || len(parts[0].messages) != 2 {
		t.Fatalf("pop: got %v, %v, violations %v", parts, err, s.violations)
	}
	want := "GET /api/v1/pop/queue/q/partition/a?consumerGroup=g&batch=5&partitions=1&leaseSeconds=1&autoAck=false&wait=true&timeout=1000&subscriptionMode=new"
	if path, _ := st.saw(); path != want {
		t.Errorf("got %s want %s", path, want)
	}

	st.will(http.StatusOK, `{"renewed":1}`)
	err = w.extend(t.Context(), p, 2)
	if path, body := st.saw(); err != nil || path != "POST /api/v1/lease/lease/extend" || body != `{"seconds":2}` {
		t.Errorf("extend: got %v, %s with %s", err, path, body)
	}

	st.will(http.StatusOK, `[{"index":0,"transactionId":"t0","success":true,"error":null,"leaseReleased":true,"dlq":false,"noop":false},`+
		`{"index":1,"transactionId":"t1","success":true,"error":null,"leaseReleased":true,"dlq":false,"noop":false}]`)
	ok, err := w.ack(t.Context(), "g", acksOf(p, "completed completed"))
	wantBody := `{"consumerGroup":"g","acknowledgments":[{"transactionId":"t0","partitionId":"p-a","leaseId":"lease","status":"completed"},` +
		`{"transactionId":"t1","partitionId":"p-a","leaseId":"lease","status":"completed"}]}`
	if path, body := st.saw(); !ok || err != nil || path != "POST /api/v1/ack/batch" || body != wantBody {
		t.Errorf("ack: got %v, %v, %s with %s", ok, err, path, body)
	}

	st.will(http.StatusNoContent, "")
	if parts, err := w.pop(t.Context(), &pop{queue: s.q, group: "g", batch: 5}); err != nil || len(parts) != 0 {
		t.Errorf("empty pop: got %v, %v", parts, err)
	}
	if s.failed() || s.place().lo != 1 {
		t.Errorf("got violations %v, cursor %d want 1", s.violations, s.place().lo)
	}
}

// place returns the place of group g in partition a.
func (s *script) place() *place { return s.q.stream("a").places["g"] }

// answerOf is an answer with messages. Encoding them would make their payloads others.
func (s *script) answerOf(group, lease string, first, last int) string {
	var messages []string
	for _, d := range s.deliveries(group, lease, first, last) {
		messages = append(messages, fmt.Sprintf(`{"id":%q,"transactionId":%q,"data":%s,"partitionId":%q,"partition":%q,"leaseId":%q,"consumerGroup":%q}`,
			d.ID, d.TransactionID, d.Data, d.PartitionID, d.Partition, d.LeaseID, d.Group))
	}
	return `{"messages":[` + strings.Join(messages, ",") + `]}`
}

// TestDrain: when all can be acknowledged, the drain is over, also if a delivery that was
// on its way then tells that something is not.
func TestDrain(t *testing.T) {
	s := newScript(t)
	s.stored(1)
	s.ack(s.pop("h", 0, 0, nil), "completed", nil)
	s.ackLost(s.pop("g", 0, 0, nil), "completed")
	s.kill()
	s.sleep(time.Second)
	e := &epoch{run: &run{check: s.checker}}
	stop := func() { s.pop("g", 0, 0, nil) }
	if err := e.drain(t.Context(), stop); err != nil || s.failed() {
		t.Errorf("got %v, violations %v", err, s.violations)
	}
	if _, group, done := s.drained(); done || group != "g" {
		t.Errorf("got %q, %v, though g has it to come", group, done)
	}
}
