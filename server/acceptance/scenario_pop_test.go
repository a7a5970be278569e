package acceptance

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestT12EmptyQueue(t *testing.T) {
	w := open(t)
	w.nothing(w.pop("empty"))
	conn, err := w.running.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /api/v1/pop/queue/empty?wait=false HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 204 ") {
		t.Fatalf("%q, %v", line, err)
	}
	for {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if line == "\r\n" {
			break
		}
		if strings.HasPrefix(strings.ToLower(line), "content-") || strings.HasPrefix(strings.ToLower(line), "transfer-") {
			t.Errorf("header %q on a 204", line)
		}
	}
	// The next answer follows at once: not a byte of a body was sent.
	if _, err := io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err = r.ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
		t.Errorf("after the 204: %q, %v", line, err)
	}
}

func TestT13LongPollTimesOut(t *testing.T) {
	w := open(t)
	start := time.Now()
	w.nothing(w.pop("empty", "wait=true", "timeout=2000"))
	if d := time.Since(start); d < 1500*time.Millisecond || d > 6*time.Second {
		t.Errorf("answered after %v", d)
	}
}

// The scenario pushes two seconds into the wait; what matters is that the poll is parked.
func TestT14PushWakesParkedPop(t *testing.T) {
	for _, row := range []struct {
		name   string
		pop    func(*world) *popAnswer
		exists bool
	}{
		{"queue", func(w *world) *popAnswer { return w.pop("ns.task.q", "wait=true", "timeout=20000") }, true},
		{"queue to come", func(w *world) *popAnswer { return w.pop("ns.task.q", "wait=true", "timeout=20000") }, false},
		{"named group", func(w *world) *popAnswer {
			return w.pop("ns.task.q", "wait=true", "timeout=20000", "consumerGroup=g")
		}, true},
		{"pinned", func(w *world) *popAnswer {
			return w.popFrom("ns.task.q", "p", "wait=true", "timeout=20000")
		}, true},
		{"pinned to come", func(w *world) *popAnswer {
			return w.popFrom("ns.task.q", "p", "wait=true", "timeout=20000")
		}, false},
		{"pinned group", func(w *world) *popAnswer {
			return w.popFrom("ns.task.q", "p", "wait=true", "timeout=20000", "consumerGroup=g")
		}, true},
		{"discovery", func(w *world) *popAnswer {
			return w.discover("namespace=ns", "task=task", "wait=true", "timeout=20000")
		}, true},
		{"discovery to come", func(w *world) *popAnswer {
			return w.discover("task=task", "wait=true", "timeout=20000")
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := open(t)
			if row.exists {
				w.queued(msg("ns.task.q", "p", "old"))
				w.want(w.pop("ns.task.q", "autoAck=true"), "old")
				w.want(w.pop("ns.task.q", "autoAck=true", "consumerGroup=g"), "old")
			}
			got := later(func() *popAnswer { return row.pop(w) })
			w.parked(1)
			start := time.Now()
			w.queued(msg("ns.task.q", "p", "new"))
			w.want(<-got, "new")
			if d := time.Since(start); d > time.Second {
				t.Errorf("delivered %v after the push", d)
			}
			w.parked(0)
		})
	}
}

func TestT15BatchIsTheBudgetOfTheCall(t *testing.T) {
	w := open(t)
	for p := range 5 {
		w.queued(numbered("q", fmt.Sprint(p), fmt.Sprint(p, "-"), 100)...)
	}
	if p := w.pop("q", "batch=10", "partitions=5"); len(p.Messages) != 10 {
		t.Errorf("%d messages", len(p.Messages))
	}
	if p := w.pop("q", "batch=250", "partitions=5"); len(p.Messages) != 250 || p.Claimed != 3 {
		t.Errorf("%d messages of %d partitions", len(p.Messages), p.Claimed)
	}
}

func TestT16OnePartitionByDefault(t *testing.T) {
	w := open(t)
	for p := range 4 {
		w.queued(numbered("q", fmt.Sprint(p), fmt.Sprint(p, "-"), 5)...)
	}
	if p := w.pop("q", "batch=100"); len(p.Messages) != 5 || p.Claimed != 1 {
		t.Errorf("%d messages of %d partitions", len(p.Messages), p.Claimed)
	}
}

func TestT17AllClaimablePartitionsInOneCall(t *testing.T) {
	w := open(t)
	for p := range 3 {
		w.queued(numbered("q", fmt.Sprint(p), fmt.Sprint(p, "-"), 2)...)
	}
	if p := w.pop("q", "batch=100", "partitions=3"); len(p.Messages) != 6 || p.Claimed != 3 {
		t.Errorf("%d messages of %d partitions", len(p.Messages), p.Claimed)
	}
}

func TestT18OneExtendForThreePartitions(t *testing.T) {
	w := open(t)
	for p := range 3 {
		w.queued(msg("q", fmt.Sprint(p), "a"))
	}
	p := w.pop("q", "partitions=3")
	if e := w.extend(p.LeaseID, `{"seconds":120}`); e.Renewed != 3 {
		t.Errorf("renewed %d", e.Renewed)
	}
}

func TestT19ExpiredLeaseRedelivers(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "a"))
	first := w.want(w.pop("q", "leaseSeconds=1"), "a")
	w.nothing(w.pop("q"))
	second := w.want(w.pop("q", "wait=true", "timeout=20000"), "a")
	if first.Messages[0].ID != second.Messages[0].ID || first.LeaseID == second.LeaseID {
		t.Errorf("first %+v, second %+v", first, second)
	}
}

func TestT32LeaseSecondsOfTheCall(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "a"))
	w.want(w.pop("q", "leaseSeconds=1"), "a")
	start := time.Now()
	w.want(w.pop("q", "wait=true", "timeout=20000"), "a")
	if d := time.Since(start); d < 900*time.Millisecond || d > 5*time.Second {
		t.Errorf("redelivered after %v", d)
	}
}

func TestT33NewGroup(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "old", "backlog"))
	w.nothing(w.pop("q", "consumerGroup=g", "subscriptionMode=new"))
	w.queued(msg("q", "later", "a"))
	w.want(w.pop("q", "consumerGroup=g", "subscriptionMode=new", "partitions=0"), "a")
	w.queued(msg("q", "old", "b"))
	w.want(w.pop("q", "consumerGroup=g", "subscriptionMode=all", "partitions=0"), "b")
}

func TestT34QueueModeIgnoresTheSubscription(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "a"), msg("q", "", "b"))
	w.want(w.pop("q", "subscriptionMode=new", "subscriptionFrom=now"), "a", "b")
}

func TestT35EmptyPollsWhileLeased(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "a"))
	w.want(w.pop("q", "leaseSeconds=1"), "a")
	for range 3 {
		w.nothing(w.pop("q"))
	}
	w.want(w.pop("q", "wait=true", "timeout=20000"), "a")
}

func TestT36LabelsOfAPushedQueue(t *testing.T) {
	w := open(t)
	w.queued(msg("ns.taskA.q", "", "a"))
	q := w.queues()
	if len(q) != 1 || q[0].Name != "ns.taskA.q" || q[0].Namespace != "ns" || q[0].Task != "taskA" {
		t.Fatalf("queues %+v", q)
	}
	w.nothing(w.discover("namespace=ns", "task=taskB"))
	w.nothing(w.discover("namespace=n", "task=taskA"))
	w.want(w.discover("namespace=ns", "task=taskA"), "a")
}

func TestT40GroupsAreIndependent(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "a"), msg("q", "", "b"))
	w.ackAll("A", w.want(w.pop("q", "consumerGroup=A"), "a", "b"))
	w.want(w.pop("q", "consumerGroup=B", "subscriptionMode=all"), "a", "b")
	w.want(w.pop("q"), "a", "b")
	w.nothing(w.pop("q", "consumerGroup=A"))
}

func TestT49AutoAckOverFourPartitions(t *testing.T) {
	w := open(t)
	for p := range 4 {
		w.queued(numbered("q", fmt.Sprint(p), fmt.Sprint(p, "-"), 3)...)
	}
	p := w.pop("q", "partitions=4", "autoAck=true")
	ids := p.ids()
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 12 {
		t.Fatalf("popped %v", ids)
	}
	w.nothing(w.pop("q", "partitions=0"))
	w.clock.advance(time.Hour)
	for p := range 4 {
		w.nothing(w.popFrom("q", fmt.Sprint(p)))
	}
}
