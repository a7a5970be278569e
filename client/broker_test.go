package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// recorded is a request as a fake broker saw it.
type recorded struct {
	method, path, query, body, auth string
}

// fakeBroker answers with respond, over a real connection, and records what it was asked.
type fakeBroker struct {
	*Client
	mu       sync.Mutex
	requests []recorded
	pauses   []time.Duration
	server   *httptest.Server
}

// newFake starts a server that answers request n, from 0, with respond. The client
// does not sleep; its pauses are recorded.
func newFake(t *testing.T, respond func(n int, w http.ResponseWriter, r *http.Request), opts ...Option) *fakeBroker {
	t.Helper()
	f := &fakeBroker{}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		respond(f.record(r), w, r)
	}))
	c, err := New(f.server.URL, opts...)
	if err != nil {
		t.Fatal(err)
	}
	c.jitter = func(d time.Duration) time.Duration { return d }
	f.Client = c
	f.fakeSleep()
	t.Cleanup(func() {
		c.Close()
		f.server.Close() // waits until every connection is idle or closed
	})
	return f
}

func (f *fakeBroker) record(r *http.Request) int {
	var body strings.Builder
	if _, err := fmt.Fprint(&body, readAll(r)); err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, recorded{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, body.String(), r.Header.Get("Authorization")})
	return len(f.requests) - 1
}

func (f *fakeBroker) seen() []recorded {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]recorded(nil), f.requests...)
}

// answer is the respond of a broker that always says the same.
func answer(status int, body string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { reply(w, status, body) }
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if body != "" {
		_, _ = w.Write([]byte(body)) // a client that left is part of some tests
	}
}

// memBroker is a broker for one queue and one group in memory, without a network, so
// that consumers can be tested in a synctest bubble.
type memBroker struct {
	mu        sync.Mutex
	lease     time.Duration
	order     []string
	parts     map[string]*memPart
	acks      []string // "status id reason"
	extends   []time.Time
	popQuery  []url.Values
	failPops  int // answer 503 to that many pops
	refuseAck bool
	changed   chan struct{}
}

type memPart struct {
	ids       []string
	committed int // messages done
	end       int // leased up to
	leaseID   string
	expires   time.Time
}

func newMemBroker(lease time.Duration) *memBroker {
	return &memBroker{lease: lease, parts: map[string]*memPart{}, changed: make(chan struct{})}
}

// push adds messages "p0", "p1" … to partition p.
func (m *memBroker) push(p string, n int) *memBroker {
	m.mu.Lock()
	defer m.mu.Unlock()
	part := m.parts[p]
	if part == nil {
		part = &memPart{}
		m.parts[p] = part
		m.order = append(m.order, p)
	}
	for range n {
		part.ids = append(part.ids, p+strconv.Itoa(len(part.ids)))
	}
	m.wake()
	return m
}

func (m *memBroker) wake() { close(m.changed); m.changed = make(chan struct{}) }

// client returns one whose requests reach m directly. Its clock is the bubble's.
func (m *memBroker) client(t *testing.T) *Client {
	t.Helper()
	c, err := New("http://mem", WithHTTPClient(&http.Client{Transport: m}))
	if err != nil {
		t.Fatal(err)
	}
	c.jitter = func(d time.Duration) time.Duration { return d }
	return c
}

// RoundTrip serves r in the caller's goroutine.
func (m *memBroker) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/v1/pop/"):
		m.pop(w, r)
	case r.URL.Path == "/api/v1/ack/batch":
		m.ack(w, r)
	default:
		m.extend(w, r)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func (m *memBroker) pop(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	wait, _ := strconv.Atoi(q.Get("timeout"))
	deadline := time.After(time.Duration(wait) * time.Millisecond)
	for first := true; ; first = false {
		m.mu.Lock()
		if first {
			m.popQuery = append(m.popQuery, q)
		}
		if m.failPops > 0 {
			m.failPops--
			m.mu.Unlock()
			reply(w, 503, `{"error":"starting"}`)
			return
		}
		if body := m.claim(q); body != "" {
			m.mu.Unlock()
			reply(w, 200, body)
			return
		}
		changed := m.changed
		m.mu.Unlock()
		if q.Get("wait") != "true" {
			w.WriteHeader(204)
			return
		}
		select {
		case <-changed:
		case <-time.After(100 * time.Millisecond): // leases expire unannounced
		case <-r.Context().Done():
			return
		case <-deadline:
			w.WriteHeader(204)
			return
		}
	}
}

func (m *memBroker) claim(q url.Values) string {
	batch, _ := strconv.Atoi(q.Get("batch"))
	limit, _ := strconv.Atoi(q.Get("partitions"))
	lease := m.lease
	if s, _ := strconv.Atoi(q.Get("leaseSeconds")); s > 0 {
		lease = time.Duration(s) * time.Second
	}
	id := uuid.Must(uuid.NewV7()).String()
	ms := time.Now().UnixMilli() // uuid does not see the bubble's clock
	id = fmt.Sprintf("%08x-%04x-7%s", ms>>16, ms&0xffff, id[15:])
	var msgs []string
	claimed := 0
	for _, name := range m.order {
		p := m.parts[name]
		if claimed == max(limit, 1) || batch == 0 {
			break
		}
		n := min(batch, len(p.ids)-p.committed)
		if n == 0 || (p.leaseID != "" && time.Now().Before(p.expires)) {
			continue
		}
		claimed++
		batch -= n
		for _, mid := range p.ids[p.committed : p.committed+n] {
			msgs = append(msgs, fmt.Sprintf(`{"id":%q,"transactionId":%q,"traceId":null,"data":{"n":%q},"producerSub":null,"createdAt":"2026-07-30T09:12:41.118Z","partitionId":%q,"partition":%q,"leaseId":%q,"consumerGroup":"g"}`, mid, mid, mid, "id-"+name, name, id))
		}
		if q.Get("autoAck") == "true" {
			p.committed += n
			continue
		}
		p.leaseID, p.expires, p.end = id, time.Now().Add(lease), p.committed+n
	}
	if len(msgs) == 0 {
		return ""
	}
	top := id
	if q.Get("autoAck") == "true" {
		top = ""
	}
	return fmt.Sprintf(`{"success":true,"queue":"q","leaseId":%q,"consumerGroup":"g","messages":[%s],"partitionsClaimed":%d}`, top, strings.Join(msgs, ","), claimed)
}

func (m *memBroker) ack(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ConsumerGroup   string
		Acknowledgments []struct{ TransactionID, PartitionID, LeaseID, Status, Error string }
	}
	if err := json.Unmarshal([]byte(readAll(r)), &req); err != nil {
		reply(w, 400, `{"error":"bad body"}`)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for i, a := range req.Acknowledgments {
		m.acks = append(m.acks, strings.TrimSpace(a.Status+" "+a.TransactionID+" "+a.Error))
		p := m.parts[strings.TrimPrefix(a.PartitionID, "id-")]
		live := p.leaseID == a.LeaseID && time.Now().Before(p.expires) && !m.refuseAck
		// Later items of a failed batch ride on the signal before them.
		released := i > 0 && req.Acknowledgments[i-1].PartitionID == a.PartitionID && p.leaseID == ""
		if !live && !released {
			out = append(out, `{"success":false,"error":"invalid or expired lease"}`)
			continue
		}
		out = append(out, `{"success":true,"error":null}`)
		if a.Status != "completed" {
			p.leaseID = ""
			continue
		}
		for n, id := range p.ids {
			if id == a.TransactionID {
				p.committed = max(p.committed, n+1)
			}
		}
		if p.committed == p.end {
			p.leaseID = ""
		}
	}
	m.wake()
	reply(w, 200, "["+strings.Join(out, ",")+"]")
}

func (m *memBroker) extend(w http.ResponseWriter, r *http.Request) {
	var req struct{ Seconds int }
	_ = json.Unmarshal([]byte(readAll(r)), &req)
	id := strings.Split(r.URL.Path, "/")[4]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.extends = append(m.extends, time.Now())
	for _, name := range m.order {
		p := m.parts[name]
		if p.leaseID != id || !time.Now().Before(p.expires) {
			continue
		}
		if e := time.Now().Add(time.Duration(req.Seconds) * time.Second); e.After(p.expires) {
			p.expires = e
		}
		reply(w, 200, fmt.Sprintf(`{"success":true,"renewed":1,"newExpiresAt":%q}`, p.expires.UTC().Format(time.RFC3339Nano)))
		return
	}
	reply(w, 200, `{"success":false,"renewed":0,"newExpiresAt":null}`)
}

func (m *memBroker) committed(p string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.parts[p].committed
}

func (m *memBroker) acked() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.acks, "; ")
}
