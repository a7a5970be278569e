package server

import (
	"strings"
	"testing"

	"github.com/skepmq/skep/broker"
)

// G-823, G-321: every answer with a payload has it decrypted, and says where the message is
// encrypted. The fake decrypts by putting a text before it.
func TestG823Answers(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{})
	result := &broker.PopResult{LeaseID: testID(1), Group: "billing"}
	popAnswer(f, result)
	for id := range f.messages {
		for i := range f.messages[id] {
			f.messages[id][i].Encrypted = i == 0
		}
	}
	f.popFn = func(*broker.PopRequest) (*broker.PopResult, error) { return result, nil }
	encrypted, plain := testMessage(), testMessage()
	encrypted.Encrypted = true
	f.page.Messages = []broker.StoredMessage{encrypted, plain}
	f.detail.StoredMessage = encrypted
	f.letters = []broker.DeadLetter{{Payload: []byte("1"), Encrypted: true}, {Payload: []byte("2")}}

	for _, row := range []struct {
		target string
		want   []string // in this order
		times  int      // that "of " stands there
	}{
		{"/api/v1/pop/queue/q", []string{`"data":of `}, len(result.Parts)},
		{"/api/v1/messages", []string{`"isEncrypted":true,`, `"data":of {"n":1},"payload":of {"n":1}}`, `"isEncrypted":false,`, `"data":{"n":1},"payload":{"n":1}}`}, 2},
		{"/api/v1/messages/" + testID(3).String() + "/a", []string{`"data":of {"n":1},"payload":of {"n":1},`, `"isEncrypted":true,`}, 2},
		{"/api/v1/dlq", []string{`"data":of 1,`, `,"isEncrypted":true}`, `"data":2,`}, 1},
	} {
		_, body, _ := call(t, c, "GET", row.target, "")
		rest := body
		for _, want := range row.want {
			var ok bool
			if _, rest, ok = strings.Cut(rest, want); !ok {
				t.Errorf("%s: no %s in %s", row.target, want, body)
			}
		}
		if n := strings.Count(body, ":of "); n != row.times || strings.Count(body, `"isEncrypted":true`) > 1 {
			t.Errorf("%s: %d payloads are decrypted: %s", row.target, n, body)
		}
	}
	f.err = broker.ErrNoKey
	check(t, c, "POST", "/api/v1/transaction", `{"operations":[]}`, 500, `{"error":"the queue is encrypted, and no encryption key is loaded","code":"no_encryption_key"}`)
}
