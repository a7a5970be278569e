package acceptance

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/skepmq/skep/server/auth"
)

var producerSecret = []byte("a secret of more than thirty-two bytes")

// tokenFor returns the header of somebody who may do everything. "" has no name.
func tokenFor(t *testing.T, sub string) http.Header {
	t.Helper()
	claims := jwt.MapClaims{"role": "admin"}
	if sub != "" {
		claims["sub"] = sub
	}
	s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(producerSecret)
	if err != nil {
		t.Fatal(err)
	}
	return http.Header{"Authorization": {"Bearer " + s}}
}

func withTokens(w *world) {
	v, err := auth.New(auth.Options{Secret: producerSecret, SkipPaths: auth.DefaultSkipPaths})
	if err != nil {
		w.t.Fatal(err)
	}
	w.server.Auth = v
}

// Who pushed a message is what the token says, never what the body says, and stays so over
// transactions, the spool, restarts and dead letters. G-800, M-103.
func TestG810ProducerSub(t *testing.T) {
	w := open(t, withTokens, eagerCheckpoints)
	as := func(sub, method, target, body string) []byte {
		t.Helper()
		a := w.callWith(method, target, body, tokenFor(t, sub))
		if a.status >= 300 {
			t.Fatalf("%s %s: %d %s", method, target, a.status, a.body)
		}
		return a.body
	}
	as("alice", "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1,"producerSub":"mallory"},{"queue":"q","payload":2}]}`)
	as("bob \"b\"", "POST", "/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"q","payload":3,"producerSub":"mallory"}]}]}`)
	as("", "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":4,"producerSub":"mallory"}]}`)
	as("root", "POST", "/api/v1/system/maintenance", `{"enabled":true}`)
	as("carol", "POST", "/api/v1/push", `{"items":[{"queue":"q","transactionId":"t","payload":5,"producerSub":"mallory"}]}`)
	as("root", "POST", "/api/v1/system/maintenance", `{"enabled":false}`)
	await(t, "the drain", func() bool { return w.running.broker.Maintenance().Buffered == 0 })
	w.filed()
	w.restart()

	var got struct {
		LeaseID  string
		Messages []struct {
			PartitionID, TransactionID string
			ProducerSub                *string
		}
	}
	want := []any{"alice", "alice", `bob "b"`, nil, "carol"}
	pop := func() {
		t.Helper()
		if err := json.Unmarshal(as("dave", "GET", "/api/v1/pop/queue/q?batch=10&consumerGroup=g", ""), &got); err != nil || len(got.Messages) != len(want) {
			t.Fatalf("%d messages, %v", len(got.Messages), err)
		}
		for i, m := range got.Messages {
			if (m.ProducerSub == nil) != (want[i] == nil) || m.ProducerSub != nil && *m.ProducerSub != want[i] {
				t.Errorf("message %d: %v, want %v", i, m.ProducerSub, want[i])
			}
		}
	}
	pop()

	// A dead letter that comes back is still the work of who pushed it.
	first := got.Messages[0]
	as("dave", "POST", "/api/v1/ack", `{"transactionId":"`+first.TransactionID+`","partitionId":"`+first.PartitionID+`","leaseId":"`+got.LeaseID+`","consumerGroup":"g","status":"dlq"}`)
	as("dave", "POST", "/api/v1/messages/"+first.PartitionID+"/"+first.TransactionID+"/retry", "")
	want = append(want[1:], "alice")
	got.Messages = nil
	pop()
}

// G-800: without authentication nobody has a name, whatever is sent.
func TestG800Off(t *testing.T) {
	w := open(t)
	header := tokenFor(t, "alice")
	if a := w.callWith("POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1,"producerSub":"mallory"}]}`, header); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if m := w.pop("q").Messages; len(m) != 1 || m[0].ProducerSub != nil {
		t.Errorf("got %+v", m)
	}
	for _, target := range []string{"/api/v1/system/maintenance", "/api/v1/dlq", "/status"} {
		if a := w.callWith("GET", target, "", http.Header{"Authorization": {"garbage"}}); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", target, a.status, a.body)
		}
	}
}
