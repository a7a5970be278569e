package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skepmq/skep/client"
)

func TestConsume(t *testing.T) {
	for _, tt := range []struct {
		name    string
		backlog []string
		args    []string
		status  int
		stdout  string
		acks    string
		pop     string // the first
		stderr  string // part of it
	}{
		{"payloads", []string{`{"a" : "\n"}`, "1", "null"}, []string{"--until-empty"}, 0, "{\"a\" : \"\\n\"}\n1\nnull\n",
			"completed t0; completed t1; completed t2", "/api/v1/pop/queue/q?wait=false&batch=100&consumerGroup=g", "skep consume: 3 consumed, 0 failed"},
		{"line breaks in a payload", []string{"{\n\"a\":\r\n1}"}, []string{"--until-empty"}, 0, "{ \"a\":  1}\n", "completed t0", "", ""},
		{"json", []string{`{"a" : 1.0}`}, []string{"--until-empty", "--format", "json"}, 0,
			`{"id":"m0","transactionId":"t0","queue":"q","partition":"p <1>","partitionId":"pid","group":"g","createdAt":"2026-07-30T09:12:41.118Z","data":{"a" : 1.0}}` + "\n", "completed t0", "", ""},
		{"limit", []string{"1", "2", "3"}, []string{"--limit", "2"}, 0, "1\n2\n", "completed t0; completed t1", "/api/v1/pop/queue/q?wait=true&timeout=30000&batch=2&consumerGroup=g", ""},
		{"everything set", nil, []string{"--until-empty", "--batch", "7", "--partition", "a/b", "--wait", "1ms", "--lease-seconds", "9", "--subscription-mode", "new"}, 0, "", "",
			"/api/v1/pop/queue/q/partition/a%2Fb?wait=true&timeout=1&batch=7&leaseSeconds=9&consumerGroup=g&subscriptionMode=new", "0 consumed"},
		{"partitions", nil, []string{"--until-empty", "--partitions", "3"}, 0, "", "", "/api/v1/pop/queue/q?wait=false&batch=100&partitions=3&consumerGroup=g", ""},
		{"exec", []string{`{"a":1}`, "2"}, []string{"--until-empty", "--exec", `echo "$SKEP_QUEUE $SKEP_GROUP $SKEP_PARTITION $SKEP_PARTITION_ID $SKEP_MESSAGE_ID $SKEP_TRANSACTION_ID $SKEP_CREATED_AT"; cat`}, 0,
			"q g p <1> pid m0 t0 2026-07-30T09:12:41.118Z\n{\"a\":1}\nq g p <1> pid m1 t1 2026-07-30T09:12:41.118Z\n2\n", "completed t0; completed t1", "", "2 consumed"},
		{"exec fails", []string{"1", "2"}, []string{"--limit", "1", "--exec", "echo no luck >&2; exit 3"}, 0, "", "failed t0 exit status 3: no luck", "", "no luck"},
		{"exec that does not read", []string{`"` + strings.Repeat("x", 1<<20) + `"`}, []string{"--until-empty", "--exec", "true"}, 0, "", "completed t0", "", ""},
		{"bad format", nil, []string{"--format", "xml"}, 2, "", "", "", `--format: got "xml"`},
		{"bad mode", nil, []string{"--subscription-mode", "old"}, 2, "", "", "", "want all or new"},
		{"bad wait", nil, []string{"--wait", "-1s"}, 2, "", "", "", "cannot be negative"},
		{"no concurrency", nil, []string{"--concurrency", "0"}, 2, "", "", "", "--concurrency"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.backlog = tt.backlog
			status, stdout, stderr := b.skep(t, "", append([]string{"consume", "--group", "g"}, tt.args...)...)
			if status != tt.status || stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("status %d\nstdout %s\nwant   %s\nstderr %s", status, stdout, tt.stdout, stderr)
			}
			if got := strings.Join(b.acks, "; "); got != tt.acks {
				t.Errorf("acked %s want %s", got, tt.acks)
			}
			if tt.pop != "" && b.pops[0] != tt.pop {
				t.Errorf("polled %s\nwant   %s", b.pops[0], tt.pop)
			}
		})
	}
}

// TestConsumeFlushesFirst expects every line of a batch outside before its ack.
func TestConsumeFlushesFirst(t *testing.T) {
	b := newFakeBroker(t)
	b.backlog = []string{"1", "2", "3"}
	w := writerFunc(func(p []byte) (int, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.acks) != 0 || string(p) != "1\n2\n3\n" {
			t.Errorf("wrote %q after %d acks", p, len(b.acks))
		}
		return len(p), nil
	})
	if status := run(t.Context(), []string{"consume", "--until-empty", "--queue", "q", "--url", b.URL}, nil, w, io.Discard); status != 0 {
		t.Errorf("status %d", status)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestConsumeOutputGone expects an end with an error and the messages given back.
func TestConsumeOutputGone(t *testing.T) {
	b := newFakeBroker(t)
	b.backlog = []string{"1"}
	var diag bytes.Buffer
	status := run(t.Context(), []string{"consume", "--queue", "q", "--url", b.URL}, nil, brokenPipe{}, &diag)
	if status != 1 || !strings.Contains(diag.String(), "consume: write: broken pipe") {
		t.Errorf("status %d, stderr %s", status, diag.String())
	}
	if got := strings.Join(b.acks, "; "); got != "retry t0" {
		t.Errorf("acked %q want the message given back", got)
	}
}

// TestConsumeSignal ends the context as a signal does, in the middle of a command: it
// is finished, its message acknowledged, the next one given back, and all is well.
func TestConsumeSignal(t *testing.T) {
	b := newFakeBroker(t)
	b.backlog = []string{"1", "2"}
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	pipe := filepath.Join(dir, "go")
	if err := makeFIFO(pipe); err != nil {
		t.Skip(err)
	}
	started := writerFunc(func(p []byte) (int, error) {
		cancel()
		go func() { // the command reads this after the signal
			if err := os.WriteFile(pipe, []byte("on\n"), 0); err != nil {
				t.Error(err)
			}
		}()
		return len(p), nil
	})
	var diag bytes.Buffer
	args := []string{"consume", "--queue", "q", "--url", b.URL, "--exec", "echo started; read line < '" + pipe + "'; test $line = on"}
	if status := run(ctx, args, nil, started, &diag); status != 0 {
		t.Errorf("status %d, stderr %s", status, diag.String())
	}
	if got := strings.Join(b.acks, "; "); got != "completed t0; retry t1" {
		t.Errorf("acked %q", got)
	}
}

// TestExecLeaseLost expects the command, and what it started, to be killed.
func TestExecLeaseLost(t *testing.T) {
	ctx, lost := context.WithCancelCause(t.Context())
	started := writerFunc(func(p []byte) (int, error) { lost(client.ErrLeaseLost); return len(p), nil })
	r := &runner{command: "echo started; sleep 1000 & wait", format: formatPayload, out: started, diag: io.Discard}
	err := r.handle(ctx, []client.Message{{Data: []byte("1")}})
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v want a killed command", err)
	}
}

// TestExecOwnGroup expects the command out of reach of the terminal's Ctrl-C.
func TestExecOwnGroup(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip(err)
	}
	r := &runner{command: "read -r _ _ _ _ group _ < /proc/$$/stat; test $group = $$", format: formatPayload, out: io.Discard, diag: io.Discard}
	if err := r.handle(t.Context(), []client.Message{{Data: []byte("1")}}); err != nil {
		t.Error(err)
	}
}

func TestConsumeRefused(t *testing.T) {
	b := newFakeBroker(t)
	b.popFail = 403
	status, _, stderr := b.skep(t, "", "consume", "--group", "g")
	if status != 1 || !strings.Contains(stderr, "skep: client: status 403: no") {
		t.Errorf("status %d, stderr %s", status, stderr)
	}
}

func TestTail(t *testing.T) {
	var w tail
	for _, p := range []string{"a", strings.Repeat("b", 3000), "c", strings.Repeat("d", 100)} {
		if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	if got, want := w.String(), strings.Repeat("b", maxTail-101)+"c"+strings.Repeat("d", 100); got != want {
		t.Errorf("got %d bytes: %.20s…", len(got), got)
	}
}
