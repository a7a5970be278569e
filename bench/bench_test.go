package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skepmq/skep/bench/wire"
)

// TestPushRequest expects valid JSON whatever was patched into it.
func TestPushRequest(t *testing.T) {
	type body struct {
		Items []struct {
			Queue, Partition, TransactionID string
			Payload                         json.RawMessage
		}
	}
	for _, tt := range []struct {
		name       string
		shape      shape
		partitions []string
		ids        []string
	}{
		{"one", shape{batch: 1}, []string{"p00000004"}, []string{""}},
		{"together", shape{batch: 2}, []string{"p00000004", "p00000004"}, []string{"", ""}},
		{"spread", shape{batch: 3, spread: true}, []string{"p00000004", "p00000005", "p00000000"}, []string{"", "", ""}},
		{"ids", shape{batch: 2, ids: true}, []string{"p00000004", "p00000004"},
			[]string{"order-created-0000000000000099", "order-created-0000000000000100"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newPushRequest(pushPath, "orders", tt.shape, rand.New(rand.NewPCG(1, 2)))
			r.setPartition(4, 6)
			r.setIDs(99)
			r.setStamp(123456789)
			head, text, _ := bytes.Cut(r.bytes, []byte("\r\n\r\n"))
			if !strings.Contains(string(head), "Content-Length: "+number(float64(len(text)))) {
				t.Errorf("%s\ngoes with a body of %d bytes", head, len(text))
			}
			var got body
			if err := json.Unmarshal(text, &got); err != nil || len(got.Items) != tt.shape.batch {
				t.Fatalf("%v in %s", err, text)
			}
			for i, item := range got.Items {
				if item.Queue != "orders" || item.Partition != tt.partitions[i] || item.TransactionID != tt.ids[i] {
					t.Errorf("item %d: got %q, %q, %q", i, item.Queue, item.Partition, item.TransactionID)
				}
				if len(item.Payload) != payloadSize || stampOf(item.Payload) != 123456789 {
					t.Errorf("item %d: got a payload of %d bytes with stamp %d", i, len(item.Payload), stampOf(item.Payload))
				}
			}
		})
	}
}

const (
	testLease     = "01a228b5-abf2-7bf9-a770-46ae2c52a9c2"
	testPartition = "dc484913-74fd-82ed-8000-000000000001"
)

// popAnswer is an answer with messages of these transaction ids.
func popAnswer(ids ...string) string {
	b := `{"success":true,"queue":"q","partition":"p","partitionId":"` + testPartition + `","leaseId":"` + testLease + `","consumerGroup":"g","messages":[`
	for i, id := range ids {
		if i > 0 {
			b += ","
		}
		b += `{"id":"x","transactionId":"` + id + `","traceId":null,"data":{"n":1},"producerSub":null,"createdAt":"2026-11-29T19:08:44.383Z",` +
			`"partitionId":"` + testPartition + `","partition":"p","leaseId":"` + testLease + `","consumerGroup":"g"}`
	}
	return b + `],"partitionsClaimed":1}`
}

func TestConsumer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   []string // ids
		fails  bool
	}{
		{"one", 200, popAnswer("a"), []string{"a"}, false},
		{"several", 200, popAnswer("a", "bb", "ccc"), []string{"a", "bb", "ccc"}, false},
		{"nothing", 204, "", nil, false},
		{"refused", 503, "recovering", nil, true},
		{"no messages", 200, popAnswer(), nil, true},
		{"not a pop", 200, `{"status":"ok"}`, nil, true},
		{"cut", 200, popAnswer("a")[:300], nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newConsumer("q", popQuery{group: "g", batch: 10, partitions: 1, wait: time.Second})
			n, err := c.popped(tt.status, []byte(tt.body), nil)
			if n != len(tt.want) || (err != nil) != tt.fails {
				t.Fatalf("got %d messages, %v", n, err)
			}
			if n > 0 {
				checkAck(t, c.ack, tt.want)
			}
		})
	}
	c := newConsumer("q", popQuery{})
	if _, err := c.popped(0, nil, net.ErrClosed); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func checkAck(t *testing.T, request []byte, ids []string) {
	t.Helper()
	var ack struct {
		ConsumerGroup   string
		Acknowledgments []struct{ TransactionID, PartitionID, LeaseID, Status string }
	}
	head, body, _ := bytes.Cut(request, []byte("\r\n\r\n"))
	if err := json.Unmarshal(body, &ack); err != nil || ack.ConsumerGroup != "g" || len(ack.Acknowledgments) != len(ids) {
		t.Fatalf("%v in %s", err, body)
	}
	digits := make([]byte, lengthDigits)
	putDecimal(digits, uint64(len(body)))
	if !bytes.HasSuffix(head, append([]byte("Content-Length: "), digits...)) {
		t.Errorf("%s\ngoes with a body of %d bytes", head, len(body))
	}
	for i, a := range ack.Acknowledgments {
		if a.TransactionID != ids[i] || a.PartitionID != testPartition || a.LeaseID != testLease || a.Status != "completed" {
			t.Errorf("got %+v", a)
		}
	}
}

// TestCeiling pushes to the ceiling through drive.
func TestCeiling(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newCeilingServer()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	row := pushRow{shape{batch: 3}, 2, 1}
	var m tally
	stopAfter := func(do work, n int) work { // a work that ends without a clock
		return func(c *wire.Conn, stop *atomic.Bool, t *tally) error {
			var once atomic.Bool
			for range n {
				once.Store(false)
				if err := do(c, &once, t); err != nil {
					return err
				}
			}
			return nil
		}
	}
	one := func(p *pusher) work { return stopAfter(p.times(1), 5) }
	total, elapsed, err := drive(t.Context(), ln.Addr().String(), time.Minute,
		[]work{one(newPusher(ceilingPath+"1234", queueName, row.shape, 1234, 0)), one(newPusher(ceilingPath+"7", queueName, row.shape, 7, 1))})
	if err != nil || total.requests != 10 || total.messages != 30 || total.latency.Count() != 10 || elapsed <= 0 {
		t.Errorf("got %+v after %v, %v", m.requests, elapsed, err)
	}
	_, _, err = drive(t.Context(), ln.Addr().String(), time.Minute, []work{one(newPusher(ceilingPath+"7", queueName, row.shape, 8, 0))})
	var status statusError
	if !errors.As(err, &status) || status.status != 201 || status.body != "xxxxxxx" {
		t.Errorf("an answer of the wrong length: got %v", err)
	}
	if err := errors.Join(s.Shutdown(), <-served); err != nil {
		t.Error(err)
	}
}

func TestJudge(t *testing.T) {
	r := &report{}
	worse := &row{Name: "push/batch=100/conns=16/partitions=1", MessagesPerSec: 390_000}
	better := &row{Name: "push/batch=100/conns=16/partitions=1000", MessagesPerSec: 500_000}
	idle := &row{Name: idleName}
	idle.fact(factIdleRatio, 1.5, "x")
	parked := &row{Name: parkedName}
	parked.fact(factParkedRSS, 201, "MB")
	r.Rows = []*row{better, worse, idle, parked}
	got := map[string]string{}
	for _, f := range r.judge() {
		got[f.Name] = f.measured() + " " + f.wanted() + " " + f.verdict()
	}
	for name, want := range map[string]string{
		"push batch 100, 16 connections":                     "390000 msg/s >= 400000 msg/s NOT met",
		"idle push p50 / p50 of append + fdatasync of 4 KiB": "1.50 x <= 2 x met",
		"memory with 10,000 parked polls":                    "201 MB <= 200 MB NOT met",
		"processor time with 10,000 parked polls":            "- <= 0.50 % of one not run",
		"end to end, batch 100":                              "- >= 150000 msg/s not run",
	} {
		if got[name] != want {
			t.Errorf("%s: got %q want %q", name, got[name], want)
		}
	}
}

// TestFloorsNameRows expects every floor to lie on a row that exists.
func TestFloorsNameRows(t *testing.T) {
	rows := map[string]bool{}
	for _, s := range scenarios() {
		if rows[s.name] {
			t.Errorf("two rows are called %s", s.name)
		}
		rows[s.name] = true
	}
	for _, f := range floors() {
		for _, name := range f.rows {
			if !rows[name] {
				t.Errorf("%s: no row %s", f.Name, name)
			}
		}
	}
}

func TestProcfs(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	before, err := usageNow(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); time.Since(begun) < 10*tick; { // uses processor time
	}
	after, err := usageNow(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if used := after.since(before); used.broker <= 0 || used.machine <= 0 || used.plus(used).broker != 2*used.broker {
		t.Errorf("got %+v", used)
	}
	if rss, peak, err := rssOf(os.Getpid()); err != nil || rss <= 0 || peak < rss {
		t.Errorf("got %d of %d, %v", rss, peak, err)
	}
	if _, err := cpuOf(1 << 30); err == nil {
		t.Error("a process that does not exist has used processor time")
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "0us",
		999 * time.Microsecond:  "999us",
		1500 * time.Microsecond: "1.50ms",
		120 * time.Millisecond:  "120ms",
		2500 * time.Millisecond: "2.50s",
	} {
		if got := short(d); got != want {
			t.Errorf("got %q want %q", got, want)
		}
	}
}
