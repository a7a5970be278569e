package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// stored lists what the broker got, a partition in each row, in order.
func (b *fakeBroker) stored() map[string][]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := map[string][]string{}
	for _, items := range b.pushes {
		for _, it := range items {
			p := "-"
			if it.Partition != nil {
				p = *it.Partition
			}
			got[p] = append(got[p], string(it.Payload))
		}
	}
	return got
}

func TestPush(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		stdin  string
		status int
		stored string // as fmt prints the map
		stderr string // part of it
	}{
		{"lines", nil, "{\"a\" : 1.0}\n[]\n\"x\"\n", 0, `map[-:[{"a" : 1.0} [] "x"]]`, "skep push: 3 pushed, 0 duplicates, 0 failed, "},
		{"nothing", nil, "", 0, "map[]", "0 pushed"},
		{"no last line feed, blank lines, carriage returns", nil, "\n 1 \r\n  \n2", 0, "map[-:[1 2]]", "2 pushed"},
		{"partition", []string{"--partition", "p"}, "1\n", 0, "map[p:[1]]", ""},
		{"empty partition", []string{"--partition", ""}, "1\n", 0, "map[:[1]]", ""},
		{"partition field", []string{"--partition-field", "s"}, `{"s":"a/é","n":1}` + "\n" + `{"s":12.50}` + "\n" + `{"n":2,"s":"a/\u00e9"}` + "\n", 0,
			`map[12.50:[{"s":12.50}] a/é:[{"s":"a/é","n":1} {"n":2,"s":"a/\u00e9"}]]`, "3 pushed"},
		{"payload field", []string{"--payload-field", "p"}, `{"p": {"x" : 1e2} }` + "\n", 0, `map[-:[{"x" : 1e2}]]`, ""},
		{"id field", []string{"--id-field", "id", "--batch", "1"}, "{\"id\":7}\n{\"id\":\"8\"}\n{\"id\":7}\n", 0, `map[-:[{"id":7} {"id":"8"} {"id":7}]]`, "2 pushed, 1 duplicates, 0 failed"},
		{"broken line", []string{"--concurrency", "1"}, "1\n2\n{\"a\":\n4\n", 1, "map[-:[1 2]]", "skep: line 3: not JSON: unexpected end of JSON input at byte 5"},
		{"broken line, go on", []string{"--continue-on-error"}, "1\n{]\n3\n", 1, "map[-:[1 3]]", "skep push: line 2: not JSON"},
		{"not UTF-8", nil, "\"\xff\"\n", 1, "map[]", "line 1: not JSON: invalid UTF-8"},
		{"no object", []string{"--partition-field", "s"}, "[]\n", 1, "map[]", "line 1: not an object"},
		{"null", []string{"--partition-field", "s"}, "null\n", 1, "map[]", "line 1: not an object"},
		{"field missing", []string{"--partition-field", "s"}, "{}\n", 1, "map[]", `line 1: field "s" is missing`},
		{"field of another type", []string{"--partition-field", "s"}, `{"s":true}`, 1, "map[]", `line 1: field "s" is neither a string nor a number`},
		{"field empty", []string{"--id-field", "s"}, `{"s":""}`, 1, "map[]", `line 1: field "s" is empty`},
		{"payload missing", []string{"--payload-field", "s"}, "{}\n", 1, "map[]", `line 1: field "s" is missing`},
		{"line too long", nil, "1\n\"" + strings.Repeat("x", maxLine) + "\"\n", 1, "map[-:[1]]", "line 2: "},
		{"flags that exclude each other", []string{"--partition", "p", "--partition-field", "s"}, "1\n", 2, "map[]", "exclude"},
		{"batch 0", []string{"--batch", "0"}, "1\n", 2, "map[]", "--batch: got 0"},
		{"argument", []string{"file"}, "1\n", 2, "map[]", `unexpected argument "file"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newFakeBroker(t)
			status, stdout, stderr := b.skep(t, tt.stdin, append([]string{"push"}, tt.args...)...)
			if status != tt.status || !strings.Contains(stderr, tt.stderr) || stdout != "" {
				t.Errorf("got status %d, stdout %q, stderr %q\nwant %d and %q", status, stdout, stderr, tt.status, tt.stderr)
			}
			if got := fmt.Sprint(b.stored()); got != tt.stored {
				t.Errorf("stored %s\nwant   %s", got, tt.stored)
			}
		})
	}
}

// TestPushOrder pushes many partitions from several workers: each keeps its order, and
// no request is larger than a batch.
func TestPushOrder(t *testing.T) {
	const lines, partitions = 2000, 17
	b := newFakeBroker(t)
	var in strings.Builder
	for i := range lines {
		fmt.Fprintf(&in, `{"p":%d,"n":%d}`+"\n", i%partitions, i)
	}
	status, _, stderr := b.skep(t, in.String(), "push", "--partition-field", "p", "--batch", "10", "--concurrency", "5")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for p := range partitions {
		for i, got := range b.stored()[fmt.Sprint(p)] {
			if want := fmt.Sprintf(`{"p":%d,"n":%d}`, p, p+i*partitions); got != want {
				t.Fatalf("partition %d, message %d: got %s want %s", p, i, got, want)
			}
		}
	}
	for _, items := range b.pushes {
		if len(items) > 10 {
			t.Errorf("a request of %d items", len(items))
		}
	}
	if !strings.Contains(stderr, "2000 pushed") {
		t.Errorf("stderr %s", stderr)
	}
}

func TestPushPrintsIDs(t *testing.T) {
	b := newFakeBroker(t)
	b.refuse = func(p pushed) string {
		if p.TransactionID == "<2>" {
			return "disk full"
		}
		return ""
	}
	in := `{"id":"1"}` + "\n\n" + `{"id":"<2>"}` + "\n" + `{"id":"1"}` + "\n"
	status, stdout, stderr := b.skep(t, in, "push", "--print-ids", "--id-field", "id", "--continue-on-error", "--concurrency", "1")
	want := `{"line":1,"partition":"Default","id":"m-{\"id\":\"1\"}","transactionId":"1","status":"queued"}
{"line":3,"partition":"Default","id":"m-{\"id\":\"<2>\"}","transactionId":"<2>","status":"failed","error":"disk full"}
{"line":4,"partition":"Default","id":"m-{\"id\":\"1\"}","transactionId":"1","status":"duplicate"}
`
	if status != 1 || stdout != want {
		t.Errorf("status %d, got\n%swant\n%s", status, stdout, want)
	}
	for _, part := range []string{"1 pushed, 1 duplicates, 1 failed", "1 messages failed", "disk full"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("stderr lacks %q:\n%s", part, stderr)
		}
	}
}

// brokenPipe fails every write.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestPushStops expects an end without reading on: the input never ends.
func TestPushStops(t *testing.T) {
	for _, tt := range []struct {
		name   string
		broker func(*fakeBroker)
		out    io.Writer
		stderr string
	}{
		{"refused request", func(b *fakeBroker) { b.pushFail = 403 }, io.Discard, "lines 1 to 1: client: status 403: no"},
		{"refused item", func(b *fakeBroker) { b.refuse = func(pushed) string { return "full" } }, io.Discard, "lines 1 to 1: client: push refused for 1 of 1 items: failed: full"},
		{"output gone", func(*fakeBroker) {}, brokenPipe{}, "print ids: broken pipe"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newFakeBroker(t)
			tt.broker(b)
			r, w := io.Pipe()
			defer r.Close() // lets the reader go
			go func() { _, _ = io.WriteString(w, "1\n") }()
			var diag strings.Builder
			status := run(t.Context(), []string{"push", "--print-ids", "--queue", "q", "--url", b.URL, "--retries", "0"}, r, tt.out, &diag)
			if status != 1 || !strings.Contains(diag.String(), tt.stderr) {
				t.Errorf("status %d, stderr %s\nwant %s", status, diag.String(), tt.stderr)
			}
		})
	}
}

// TestPushInterrupted ends the context as a signal does, while a request is under way:
// it is finished and counted, and nothing else is begun.
func TestPushInterrupted(t *testing.T) {
	b := newFakeBroker(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.refuse = func(pushed) string { cancel(); return "" }
	r, w := io.Pipe()
	defer r.Close()
	go func() { _, _ = io.WriteString(w, "1\n") }()
	var diag strings.Builder
	status := run(ctx, []string{"push", "--queue", "q", "--url", b.URL}, r, io.Discard, &diag)
	if status != 1 || !strings.Contains(diag.String(), "1 pushed, 0 duplicates, 0 failed") || !strings.Contains(diag.String(), "push: interrupted") {
		t.Errorf("status %d, stderr %s", status, diag.String())
	}
}

// TestPushRequestSize expects no request to grow once it is large.
func TestPushRequestSize(t *testing.T) {
	b := newFakeBroker(t)
	line := `"` + strings.Repeat("x", maxRequest*3/4) + `"` + "\n"
	if status, _, stderr := b.skep(t, strings.Repeat(line, 6), "push", "--concurrency", "1"); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for _, items := range b.pushes {
		if len(items) > 2 {
			t.Errorf("a request of %d bytes", len(items)*len(line))
		}
	}
}

func TestQuota(t *testing.T) {
	q := newQuota(10)
	if !q.take(100) { // alone, although it is larger
		t.Fatal("refused")
	}
	taken := make(chan bool)
	go func() { taken <- q.take(6); taken <- q.take(6) }()
	q.give(100)
	if !<-taken {
		t.Error("refused after room was made")
	}
	q.close()
	if <-taken {
		t.Error("granted after it was closed")
	}
}
