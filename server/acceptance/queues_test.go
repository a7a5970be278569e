package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestM530List(t *testing.T) {
	w := open(t)
	if q := w.queues(); q == nil || len(q) != 0 {
		t.Errorf("queues %+v, want an empty array", q)
	}
	for _, name := range []string{"a.x", "a.y", "b.x", "plain"} {
		w.queued(msg(name, "0", "1"), msg(name, "1", "1"), msg(name, "1", "2"))
		w.clock.advance(time.Second)
	}
	w.popFrom("b.x", "1", "batch=1")
	for _, row := range []struct{ params, want string }{
		{"", "plain b.x a.y a.x"}, {"namespace=a", "a.y a.x"}, {"task=x", "b.x a.x"}, {"namespace=b&task=x", "b.x"}, {"namespace=c", ""},
		{"limit=2", "plain b.x"}, {"limit=2&offset=1", "b.x a.y"}, {"offset=3", "a.x"}, {"offset=99", ""}, {"limit=0", ""}, {"stats=cached", "plain b.x a.y a.x"},
	} {
		var params, names []string
		if row.params != "" {
			params = strings.Split(row.params, "&")
		}
		for _, q := range w.queues(params...) {
			names = append(names, q.Name)
			if q.Partitions != 2 || q.Messages.Total != 3 || q.Segments.Messages != 3 || q.RetainedBytes <= 0 || !millisPattern.MatchString(q.CreatedAt) {
				t.Errorf("%+v", q)
			}
			if processing := q.Messages.Processing; (q.Name == "b.x") != (processing == 1) || q.Messages.Pending+processing != 3 {
				t.Errorf("%+v", q)
			}
		}
		if !slices.Equal(names, strings.Fields(row.want)) {
			t.Errorf("%s: %v, want %s", row.params, names, row.want)
		}
	}
}

// M-531, G-165: what the numbers say as messages go through.
func TestM531Detail(t *testing.T) {
	w := open(t)
	w.expect("GET", "/api/v1/resources/queues/q", "", 404, `{"error":"Queue not found"}`)
	want := func(total, pending, processing, completed, letters int64) {
		t.Helper()
		got := w.queue("q").Totals
		if got != (counts{total, pending, processing, completed, nil, letters}) {
			t.Errorf("totals %+v, want %d: %d pending, %d processing, %d completed, %d dead", got, total, pending, processing, completed, letters)
		}
	}
	w.queued(numbered("q", "p", "m", 10)...)
	want(10, 10, 0, 0, 0)
	p := w.popFrom("q", "p", "batch=4")
	want(10, 6, 4, 0, 0)
	w.ok(false, w.ack("", p.Messages[1].as("completed")))
	want(10, 6, 2, 2, 0)
	w.buried(w.ack("", p.Messages[2].as("dlq")))
	want(10, 7, 0, 3, 1)
	w.popFrom("q", "p", "consumerGroup=g", "batch=1") // the slowest group decides
	want(10, 9, 1, 0, 1)
	w.ackAll("", w.popFrom("q", "p"))
	want(10, 9, 1, 0, 1)
	w.lapse()
	want(10, 10, 0, 0, 1)
	w.ackAll("g", w.popFrom("q", "p", "consumerGroup=g"))
	want(10, 0, 0, 10, 1)
	w.restart()
	want(10, 0, 0, 10, 1)
}

func TestM531Partitions(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "b", "1"))
	w.clock.advance(time.Second)
	w.queued(msg("q", "a", "1"), msg("q", "b", "2"))
	d := w.queue("q")
	if len(d.Partitions) != 2 || d.Partitions[0].Name != "a" || d.Partitions[1].Name != "b" {
		t.Fatalf("partitions %+v", d.Partitions)
	}
	a, b := d.Partitions[0], d.Partitions[1]
	if *a.Oldest != *a.Newest || *b.Oldest >= *b.Newest || a.CreatedAt <= b.CreatedAt {
		t.Errorf("a %s to %s, b %s to %s", *a.Oldest, *a.Newest, *b.Oldest, *b.Newest)
	}
	m := w.popFrom("q", "b").Messages
	if m[0].CreatedAt != *b.Oldest || m[1].CreatedAt != *b.Newest || m[0].PartitionID != b.ID {
		t.Errorf("detail %+v, messages %+v", b, m)
	}
	if m = w.popFrom("q", "a").Messages; m[0].CreatedAt != *a.Newest || m[0].PartitionID != a.ID {
		t.Errorf("detail %+v, messages %+v", a, m)
	}
}

// M-541: after a deletion nothing of the queue is left, and one of the same name is new.
func TestM541DeletionIsComplete(t *testing.T) {
	for _, row := range []struct {
		name   string
		option func(*world)
		again  func(*world)
	}{
		{"at once", func(*world) {}, func(*world) {}},
		{"restart", func(*world) {}, (*world).restart},
		{"crash", func(*world) {}, (*world).crashAfterAll},
		{"segments", eagerCheckpoints, (*world).crashAfterAll},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := open(t, row.option)
			w.configure("q", `{"retryLimit":0}`)
			w.queued(numbered("q", "p", "m", 3)...)
			w.nothing(w.pop("q", "consumerGroup=new", "subscriptionMode=new"))
			w.buried(w.fail("", "failed"))
			p := w.popFrom("q", "p")
			id := w.queue("q").ID
			if a := w.deleteQueue("q"); !a.Deleted {
				t.Errorf("%+v", a)
			}
			row.again(w)
			w.refused(w.ack("", p.Messages[0].as("completed")), consumerNotFound)
			w.refused(w.ack("", p.Messages[0].as("completed").leaseless()), consumerNotFound)
			if d := w.deadLetters(); len(d) > 0 {
				t.Errorf("dead letters %+v", d)
			}
			if q := w.queues(); len(q) > 0 {
				t.Errorf("queues %+v", q)
			}
			w.queued(numbered("q", "p", "m", 2)...) // no duplicates
			got := w.want(w.pop("q", "consumerGroup=new", "subscriptionMode=all"), "m0", "m1")
			if d := w.queue("q"); d.ID == id || got.PartitionID == p.PartitionID || d.Options.RetryLimit != 3 || d.Totals.DeadLetter != 0 {
				t.Errorf("detail %+v", d)
			}
			w.refused(w.ack("", p.Messages[0].as("completed")), consumerNotFound)
			row.again(w)
			w.ackAll("new", got)
		})
	}
}

// M-542: delete, create and use, over and over and side by side.
func TestM542DeleteThenCreate(t *testing.T) {
	w := open(t)
	together(4, func(i int) {
		queue := fmt.Sprint("q", i)
		for n := range 10 {
			w.deleteQueue(queue)
			if n%2 == 0 {
				w.configure(queue, `{"leaseTime":30}`)
			}
			w.queued(msg(queue, "", "a"))
			w.ackAll("g", w.want(w.pop(queue, "consumerGroup=g"), "a"))
		}
	})
}

// Deletion while others push and pop: every push is answered, and what was answered
// after the last deletion is there.
func TestM542DeletionUnderLoad(t *testing.T) {
	w := open(t)
	together(4, func(i int) {
		for n := range 25 {
			switch i {
			case 0:
				w.deleteQueue("q")
			case 1:
				if p := w.pop("q", "partitions=0"); p != nil {
					w.ackBatch("", p.Messages[0].as("completed"))
				}
			default:
				w.push(msg("q", fmt.Sprint(n%3), fmt.Sprintf("%d-%d", i, n)))
			}
		}
	})
	w.deleteQueue("q")
	w.queued(msg("q", "", "last"))
	w.want(w.pop("q", "partitions=0"), "last")
}
