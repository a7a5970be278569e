package acceptance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// copiesOf counts how often segments hold a text uncompressed.
func (w *world) copiesOf(text string) (n int) {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.dir, "segments", "*"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, path := range found {
		if content, err := os.ReadFile(path); err == nil {
			n += bytes.Count(content, []byte(text))
		}
	}
	return n
}

// R6: a dead letter whose payload is damaged is listed without it, and says so. It is moved
// nowhere, since nobody knows what it was, and can be deleted. The others are as they were.
func TestDamagedDeadLetter(t *testing.T) {
	w := open(t, eagerCheckpoints)
	w.configure("q", `{"retryLimit":0}`)
	for _, id := range []string{"a", "b", "c"} {
		w.queued(item{"q", "p", id, []byte(quote("payload of " + id))})
		w.buried(w.fail("", "failed"))
		w.clock.advance(time.Second)
		w.queued(msg("other", "p", id)) // a checkpoint for each: what is filed together is read together
		await(t, "the payload to be filed", func() bool { return w.copiesOf("payload of "+id) == 2 })
	}
	before := w.deadLetters()
	w.spoil("payload of b")
	for range 2 {
		after := w.deadLetters()
		if len(after) != 3 {
			t.Fatalf("%d dead letters", len(after))
		}
		if b := after[1]; !b.Damaged || string(b.Data) != "null" || b.ID != before[1].ID || b.Error != before[1].Error {
			t.Errorf("damaged: %+v", b)
		}
		for _, i := range []int{0, 2} {
			if fmt.Sprint(after[i]) != fmt.Sprint(before[i]) {
				t.Errorf("%+v, before %+v", after[i], before[i])
			}
		}
		if s := w.signatures("queue=q"); s.Sample != 3 || s.AvgBytes == nil || *s.AvgBytes != int64(len(before[0].Data)) {
			t.Errorf("sample: %+v", s)
		}
		a := w.call("POST", "/api/v1/dlq/"+before[1].ID+"/replay", "")
		if want := `{"error":"partition damaged","code":"partition_damaged","success":false,"dlqRowRemoved":false}`; a.status != 500 || string(a.body) != want {
			t.Errorf("replay: %d %s", a.status, a.body)
		}
		w.restart()
	}
	if r := w.retry(before[0]); !r.LetterRemoved {
		t.Errorf("replay of another: %+v", r)
	}
	if a := w.call("DELETE", address(before[1].PartitionID, "b"), ""); a.status != 200 {
		t.Errorf("delete: %d %s", a.status, a.body)
	}
	if ids := w.buriedIDs("q"); !slices.Equal(ids, []string{"a"}) {
		t.Errorf("left %v", ids)
	}
	w.queued(msg("q", "p", "d")) // and the queue buries on
	replayed := w.want(w.popFrom("q", "p", "batch=1"), "dlq:"+before[0].ID).Messages[0]
	w.buried(w.ack("", replayed.as("failed")))
}
