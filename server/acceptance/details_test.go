package acceptance

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"
)

// The answers of a broker that tells more about deliveries.
type (
	detailedPush struct {
		pushResult
		Offset *int64 `json:"offset,omitempty"`
	}
	detailedMessage struct {
		message
		Attempt int   `json:"deliveryAttempt"`
		Offset  int64 `json:"offset"`
	}
	detailedAnswer struct {
		Success     bool              `json:"success"`
		Queue       string            `json:"queue"`
		Partition   string            `json:"partition"`
		PartitionID string            `json:"partitionId"`
		LeaseID     string            `json:"leaseId"`
		Group       string            `json:"consumerGroup"`
		Messages    []detailedMessage `json:"messages"`
		Claimed     int               `json:"partitionsClaimed"`
		Conflation  bool              `json:"conflation,omitempty"`
	}
)

func detailed(w *world) { w.server.DeliveryDetails = true }

// stored pushes items that all have to be stored.
func (w *world) stored(items ...item) {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		w.t.Fatal(err)
	}
	for i, r := range decode[[]detailedPush](w.t, w.call("POST", "/api/v1/push", string(body)).body) {
		if r.Status != "queued" || r.Offset == nil {
			w.t.Errorf("item %d: %+v", i, r)
		}
	}
}

// popDetailed pops from partition p of q and returns the messages with their details.
func (w *world) popDetailed(params ...string) []detailedMessage {
	w.t.Helper()
	a := w.call("GET", "/api/v1/pop/queue/q/partition/p?"+query(params), "")
	if a.status != 200 {
		w.t.Fatalf("pop: %d %s", a.status, a.body)
	}
	return decode[detailedAnswer](w.t, a.body).Messages
}

// attempts wants a pop of these ids, all with one attempt, and returns the first message.
func (w *world) attempts(attempt int, got []detailedMessage, ids ...string) message {
	w.t.Helper()
	var have []string
	for _, m := range got {
		have = append(have, m.TransactionID)
		if m.Attempt != attempt {
			w.t.Errorf("message %s: attempt %d, want %d", m.TransactionID, m.Attempt, attempt)
		}
	}
	if !slices.Equal(have, ids) {
		w.t.Fatalf("popped %v, want %v", have, ids)
	}
	return got[0].message
}

func TestM131OffsetsOfAPush(t *testing.T) {
	w := open(t, detailed)
	push := func(body string) []detailedPush {
		return decode[[]detailedPush](t, w.call("POST", "/api/v1/push", body).body)
	}
	first := push(`{"items":[{"queue":"q","partition":"p","transactionId":"a","payload":1},{"queue":"q","partition":"p","payload":2},` +
		`{"queue":"q","partition":"p","transactionId":"a","payload":3},{"queue":"q","partition":"o","payload":4}]}`)
	again := push(`{"items":[{"queue":"q","partition":"p","transactionId":"b","payload":1},{"queue":"q","partition":"p","transactionId":"a","payload":1}]}`)
	for i, want := range []int64{0, 1, 0, 0, 2, 0} { // that of the original, for a duplicate
		r := append(first, again...)[i]
		if r.Offset == nil || *r.Offset != want {
			t.Errorf("result %d: %+v, want offset %d", i, r, want)
		}
	}
}

// Offsets are those that the push has told, whatever has become of the partition since.
func TestM216OffsetOfAMessage(t *testing.T) {
	for name, option := range map[string]func(*world){"memory": func(*world) {}, "segments": eagerCheckpoints} {
		t.Run(name, func(t *testing.T) {
			w := open(t, option, detailed)
			w.stored(numbered("q", "p", "m", 3)...)
			w.stored(numbered("q", "p", "n", 3)...)
			w.restart()
			for i, m := range w.popDetailed("batch=4") {
				if m.Offset != int64(i) {
					t.Errorf("message %s: offset %d, want %d", m.TransactionID, m.Offset, i)
				}
			}
		})
	}
}

func TestM218Attempts(t *testing.T) {
	w := open(t, detailed)
	w.stored(numbered("q", "p", "m", 4)...)
	w.attempts(1, w.popDetailed("batch=2"), "m0", "m1")
	w.lapse()
	w.attempts(2, w.popDetailed("batch=3"), "m0", "m1", "m2") // begins at the same message
	w.lapse()
	m := w.attempts(3, w.popDetailed("batch=1"), "m0")
	w.ok(true, w.ack("", m.as("failed")))
	m = w.attempts(4, w.popDetailed("batch=2"), "m0", "m1")
	w.ok(true, w.ack("", m.as("retry")))
	m = w.attempts(5, w.popDetailed("batch=2"), "m0", "m1")
	w.ok(false, w.ack("", m.as("completed")))
	w.lapse()
	m = w.attempts(1, w.popDetailed(), "m1", "m2", "m3") // elsewhere
	w.buried(w.ack("", m.as("dlq")))
	m = w.attempts(1, w.popDetailed("batch=1"), "m2")
	w.lapse()
	w.ok(true, w.ack("", m.as("completed").leaseless()))
	w.attempts(1, w.popDetailed(), "m3")
}

// Attempts are of one group in one partition, also within one answer.
func TestM218EachPartitionHasItsOwn(t *testing.T) {
	w := open(t, detailed)
	for p := range 2 {
		w.stored(numbered("q", fmt.Sprint(p), fmt.Sprint(p, "-"), 2)...)
	}
	w.call("GET", "/api/v1/pop/queue/q/partition/1?leaseSeconds=1", "")
	w.lapse()
	a := w.call("GET", "/api/v1/pop/queue/"+url.PathEscape("q")+"?partitions=0&wait=true&timeout=20000&batch=4", "")
	for _, m := range decode[detailedAnswer](t, a.body).Messages {
		if want := map[string]int{"0": 1, "1": 2}[m.Partition]; m.Attempt != want {
			t.Errorf("partition %s: attempt %d, want %d", m.Partition, m.Attempt, want)
		}
	}
	w.attempts(1, decode[detailedAnswer](t, w.call("GET", "/api/v1/pop/queue/q/partition/1?consumerGroup=g", "").body).Messages, "1-0", "1-1")
}

// autoAck is always the first attempt, and leaves the count of leased batches alone.
func TestM218AutoAck(t *testing.T) {
	w := open(t, detailed)
	w.stored(numbered("q", "p", "m", 3)...)
	w.attempts(1, w.popDetailed("batch=2"), "m0", "m1")
	w.lapse()
	w.ok(true, w.ack("", w.attempts(2, w.popDetailed("batch=2"), "m0", "m1").as("failed")))
	w.attempts(1, w.popDetailed("batch=1", "autoAck=true"), "m0")
	w.attempts(1, w.popDetailed("batch=1"), "m1")
}

func TestM218Survives(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.server.DeliveryDetails = true
		w.restart()
		w.stored(numbered("q", "p", "m", 2)...)
		w.attempts(1, w.popDetailed("batch=1"), "m0")
		w.lapse()
		w.attempts(2, w.popDetailed("batch=1"), "m0")
		again()
		w.lapse()
		m := w.attempts(3, w.popDetailed("batch=1"), "m0")
		w.ok(true, w.ack("", m.as("failed"))) // an attempt is no failure: the budget is whole
		again()
		m = w.attempts(4, w.popDetailed("batch=1"), "m0")
		w.ok(true, w.ack("", m.as("completed")))
		again()
		w.attempts(1, w.popDetailed(), "m1")
	})
}
