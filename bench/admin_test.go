package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skepmq/skep/bench/wire"
)

// TestMoverRequest expects a request that takes and gives what was leased.
func TestMoverRequest(t *testing.T) {
	answer := popAnswer(testPartition, testLease) // transaction ids as long as minted ones
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if len(requests) > 0 {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
			_, _ = io.WriteString(w, answer)
			return
		}
		b, _ := io.ReadAll(r.Body)
		requests = append(requests, string(b))
		_, _ = io.WriteString(w, `{"transactionId":"x","success":true,"results":[{"success":true},{"success":true}]}`)
	}))
	defer server.Close()
	c, err := wire.Dial(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var stop atomic.Bool
	var done tally
	m := newMover(6)
	if err := m.work(c, &stop, &done); err != nil || done.messages != 2 {
		t.Fatalf("got %d transactions, %v", done.messages, err)
	}
	for i, id := range []string{testPartition, testLease} {
		want := fmt.Sprintf(`{"operations":[{"type":"ack","transactionId":%q,"partitionId":%q,"consumerGroup":"billing","leaseId":%q},`+
			`{"type":"push","items":[{"queue":"moved","partition":"p%08d","payload":%s}]}]}`, id, testPartition, testLease, 7+i, m.payload)
		if requests[i] != want || !json.Valid([]byte(want)) {
			t.Errorf("got  %s\nwant %s", requests[i], want)
		}
	}
}

// TestAdminOperations expects requests that are whole.
func TestAdminOperations(t *testing.T) {
	for _, o := range adminOperations() {
		if o.method == "" {
			continue
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(o.request())))
		if err != nil {
			t.Errorf("%s: %v", o.name, err)
			continue
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != o.body || r.Method != o.method || r.URL.RequestURI() != o.path {
			t.Errorf("%s: got %s %s with %q, %v", o.name, r.Method, r.URL.RequestURI(), body, err)
		}
	}
}

// TestStream operates on a broker that knows nothing but pushes, empty pops and one list.
func TestStream(t *testing.T) {
	var pushes atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == pushPath:
			pushes.Add(1)
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `[{"status":"queued"}]`)
		case strings.HasPrefix(r.URL.Path, "/api/v1/pop/"):
			w.WriteHeader(http.StatusNoContent)
		case r.URL.Path == "/api/v1/resources/queues":
			_, _ = io.WriteString(w, `{"queues":[]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	p := &process{address: strings.TrimPrefix(server.URL, "http://")}
	s, err := startStream(t.Context(), p.address, queueName)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		operation
		available bool
	}{
		{operation{"list", "GET", "/api/v1/resources/queues", "", false}, true},
		{operation{"seek", "POST", "/api/v1/consumer-groups/g/queues/q/seek", "{}", false}, false},
	} {
		_, available, err := want.run(t.Context(), p, s)
		if err != nil || available != want.available {
			t.Errorf("%s: got %t, %v", want.name, available, err)
		}
		if h := s.take(); h.Count() == 0 {
			t.Errorf("%s: the stream has recorded nothing", want.name)
		}
	}
	if err := s.stop(); err != nil || pushes.Load() == 0 {
		t.Errorf("got %d pushes, %v", pushes.Load(), err)
	}
}
