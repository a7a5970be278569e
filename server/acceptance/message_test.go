package acceptance

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func TestG305NotFound(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	w.buried(w.fail("", "dlq"))
	d := w.deadLetters()[0]
	for _, at := range [][2]string{
		{d.PartitionID, "b"}, {d.PartitionID, ""}, {d.PartitionID, d.ID}, {"no-uuid", "a"}, {"0198f2c1-9a7b-8d20-8e31-4c5d6e7f8a90", "a"},
		{d.PartitionID[:len(d.PartitionID)-1] + "2", "a"}, // that of the payloads of dead letters
	} {
		w.expect("GET", address(at[0], at[1]), "", 404, `{"error":"Message not found"}`)
	}
	w.deleteQueue("q")
	w.expect("GET", address(d.PartitionID, "a"), "", 404, `{"error":"Message not found"}`)
	w.listed("")
}

// M-607: what clients look for in a description.
func TestM607Members(t *testing.T) {
	w := open(t)
	w.queued(msg("a.b.c", "p ä/", "x y/ü"))
	p := w.popFrom("a.b.c", "p ä/", "consumerGroup=g")
	a := w.call("GET", "/api/v1/messages/"+p.PartitionID+"/"+url.PathEscape("x y/ü"), "")
	var got map[string]json.RawMessage
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"id": quote(p.Messages[0].ID), "transactionId": quote("x y/ü"), "partitionId": quote(p.PartitionID), "partition": quote("p ä/"),
		"queue": quote("a.b.c"), "queuePath": quote("a.b.c/p ä/"), "namespace": quote("a"), "task": quote("b"), "status": quote("pending"),
		"payload": quote("x y/ü"), "createdAt": quote(p.Messages[0].CreatedAt), "retryCount": "0",
	} {
		if string(got[key]) != want {
			t.Errorf("%s: %s, want %s", key, got[key], want)
		}
	}
	if !strings.Contains(string(got["queueConfig"]), `"leaseTime":60`) || !strings.Contains(string(got["consumerGroups"]), `{"name":"g",`) {
		t.Errorf("%s", a.body)
	}
}

func TestG306RetryCount(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.configure("q", `{"retryLimit":2}`)
		w.queued(numbered("q", "p", "m", 2)...)
		for range 2 {
			w.ok(true, w.fail("g", "failed"))
		}
		partition := w.popFrom("q", "p", "consumerGroup=g").PartitionID
		if d := w.message(partition, "m0"); d.RetryCount != 0 || d.Error != nil || d.Lease == nil || d.Groups[0].Lease == nil || d.Groups[0].Consumed {
			w.t.Errorf("live message: %+v", d)
		}
		w.lapse()
		w.buried(w.fail("g", "failed"))
		again()
		d := w.message(partition, "m0")
		if d.RetryCount != 2 || d.Error == nil || *d.Error != "Retries exhausted" || !d.Groups[0].Consumed {
			w.t.Errorf("dead-lettered message: %+v", d)
		}
		w.listed("m0", "status=dead_letter")
		w.retry(w.deadLetters()[0])
		if d := w.message(partition, "m0"); d.RetryCount != 0 || d.Error != nil {
			w.t.Errorf("after the replay: %+v", d)
		}
		w.listed("", "status=dead_letter")
	})
}
