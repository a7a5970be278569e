package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// fakeBroker stores what is pushed and hands out what it is given, one partition, no
// leases that expire.
type fakeBroker struct {
	*httptest.Server

	mu       sync.Mutex
	pushes   [][]pushed
	ids      map[string]bool
	refuse   func(pushed) string // error of a failed item, "" to store it
	pushFail int                 // status of every push, 0 for success

	backlog []string // payloads
	next    int      // first that is not acknowledged
	leased  bool
	pops    []string // queries
	acks    []string // "status id error"
	popFail int
}

type pushed struct {
	Queue         string          `json:"queue"`
	Partition     *string         `json:"partition"`
	TransactionID string          `json:"transactionId"`
	Payload       json.RawMessage `json:"payload"`
}

func newFakeBroker(t *testing.T) *fakeBroker {
	t.Helper()
	b := &fakeBroker{ids: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/push", b.push)
	mux.HandleFunc("GET /api/v1/pop/queue/", b.pop)
	mux.HandleFunc("POST /api/v1/ack/batch", b.ack)
	b.Server = httptest.NewServer(mux)
	t.Cleanup(b.Close)
	return b
}

func (b *fakeBroker) push(w http.ResponseWriter, r *http.Request) {
	var body struct{ Items []pushed }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pushFail != 0 {
		http.Error(w, `{"error":"no"}`, b.pushFail)
		return
	}
	b.pushes = append(b.pushes, body.Items)
	var out []string
	for i, it := range body.Items {
		status, text := "queued", ""
		if b.refuse != nil {
			text = b.refuse(it)
		}
		switch {
		case text != "":
			status = "failed"
		case b.ids[it.TransactionID]:
			status = "duplicate"
		}
		b.ids[it.TransactionID] = true
		out = append(out, fmt.Sprintf(`{"index":%d,"message_id":%q,"transaction_id":%q,"queueName":%q,"status":%q,"error":%q}`, i, "m-"+string(it.Payload), it.TransactionID, it.Queue, status, text))
	}
	w.WriteHeader(201)
	fmt.Fprintf(w, "[%s]", strings.Join(out, ","))
}

func (b *fakeBroker) pop(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pops = append(b.pops, r.URL.EscapedPath()+"?"+r.URL.RawQuery)
	if b.popFail != 0 {
		http.Error(w, `{"error":"no"}`, b.popFail)
		return
	}
	var batch int
	_, _ = fmt.Sscan(r.URL.Query().Get("batch"), &batch)
	n := min(batch, len(b.backlog)-b.next)
	if b.leased || n <= 0 {
		w.WriteHeader(204)
		return
	}
	var out []string
	for i := b.next; i < b.next+n; i++ {
		out = append(out, fmt.Sprintf(`{"id":"m%d","transactionId":"t%d","data":%s,"createdAt":"2026-07-30T09:12:41.118Z","partitionId":"pid","partition":"p <1>","leaseId":"lease","consumerGroup":"g"}`, i, i, b.backlog[i]))
	}
	b.leased = true
	fmt.Fprintf(w, `{"success":true,"queue":"q","leaseId":"lease","consumerGroup":"g","messages":[%s]}`, strings.Join(out, ","))
}

func (b *fakeBroker) ack(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Acknowledgments []struct{ TransactionID, Status, Error string }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range body.Acknowledgments {
		b.acks = append(b.acks, strings.TrimSpace(a.Status+" "+a.TransactionID+" "+a.Error))
		if a.Status == "completed" {
			_, _ = fmt.Sscanf(a.TransactionID, "t%d", &b.next)
			b.next++
		}
	}
	b.leased = false
	verdicts := strings.Repeat(`{"success":true},`, len(body.Acknowledgments))
	fmt.Fprintf(w, "[%s]", strings.TrimSuffix(verdicts, ","))
}

// skep runs a command line against b.
func (b *fakeBroker) skep(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, diag bytes.Buffer
	args = append(args, "--url", b.URL, "--queue", "q", "--retries", "0")
	status = run(t.Context(), args, strings.NewReader(stdin), &out, &diag)
	return status, out.String(), diag.String()
}
