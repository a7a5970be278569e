package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"testing"
)

func TestTransactionBody(t *testing.T) {
	m := Message{TransactionID: "t1", PartitionID: "p1", LeaseID: "l1", Group: "g"}
	n := Message{TransactionID: `t"2`, PartitionID: "p2", LeaseID: "l2"}
	bare := Message{TransactionID: "t3", PartitionID: "p3"}
	item := Item{TransactionID: "i1", Payload: json.RawMessage(`{"n": 1}`)}
	ok := func(n int) string {
		b := `{"success":true,"results":[{}`
		for range n - 1 {
			b += `,{}`
		}
		return b + `]}`
	}
	rows := []struct {
		name  string
		build func(tx *Transaction)
		n     int
		want  string
	}{
		{"acks", func(tx *Transaction) { tx.Ack(m, n).AckAs(Failed("why"), m).AckAs(DeadLetter(""), bare) }, 4,
			`{"operations":[{"type":"ack","transactionId":"t1","partitionId":"p1","consumerGroup":"g","status":"completed"},` +
				`{"type":"ack","transactionId":"t\"2","partitionId":"p2","status":"completed"},` +
				`{"type":"ack","transactionId":"t1","partitionId":"p1","consumerGroup":"g","status":"failed","error":"why"},` +
				`{"type":"ack","transactionId":"t3","partitionId":"p3","status":"dlq"}],"requiredLeases":["l1","l2"]}`},
		{"without leases", func(tx *Transaction) { tx.Ack(bare) }, 1,
			`{"operations":[{"type":"ack","transactionId":"t3","partitionId":"p3","status":"completed"}]}`},
		{"pushes", func(tx *Transaction) {
			tx.Queue("a").Push(item).Queue("b").Partition("p").Push(item, Item{TransactionID: "i2", Payload: 5, Partition: "o"})
			tx.Queue("c").Push()
		}, 3,
			`{"operations":[{"type":"push","items":[{"queue":"a","transactionId":"i1","payload":{"n": 1}}]},` +
				`{"type":"push","items":[{"queue":"b","partition":"p","transactionId":"i1","payload":{"n": 1}},{"queue":"b","partition":"o","transactionId":"i2","payload":5}]}]}`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			f := newFake(t, answer(200, ok(row.n)))
			tx := f.Transaction()
			row.build(tx)
			if r, err := tx.Commit(t.Context()); err != nil || len(r.Results) != row.n {
				t.Fatalf("got %+v, %v", r, err)
			}
			if r := f.seen()[0]; r.method+" "+r.path != "POST /api/v1/transaction" || r.body != row.want {
				t.Errorf("got  %s\nwant %s", r.body, row.want)
			}
		})
	}
}

func TestTransactionResults(t *testing.T) {
	f := newFake(t, answer(200, `{"transactionId":"x","success":true,"results":[`+
		`{"index":0,"type":"ack","success":true,"transactionId":"t1","error":null,"dlq":true},`+
		`{"index":1,"type":"push","success":true,"transactionId":"i1","messageId":"m1","queueName":"q","duplicate":true}]}`))
	tx := f.Transaction().AckAs(DeadLetter("why"), Message{TransactionID: "t1"})
	tx.Queue("q").Push(Item{TransactionID: "i1", Payload: 1})
	r, err := tx.Commit(t.Context())
	if err != nil || len(r.Results) != 2 || r.Repeated ||
		r.Results[0] != (OperationResult{Type: "ack", TransactionID: "t1", DeadLettered: true}) ||
		r.Results[1] != (OperationResult{Type: "push", TransactionID: "i1", MessageID: "m1", Queue: "q", Duplicate: true}) {
		t.Errorf("got %+v, %v", r, err)
	}
	tx.Ack(Message{})
	if _, err := tx.Commit(t.Context()); !errors.Is(err, ErrProtocol) {
		t.Errorf("two results of three operations: got %v want ErrProtocol", err)
	}
}

func TestTransactionRollback(t *testing.T) {
	const duplicate = `{"transactionId":"x","success":false,"reason":"duplicate","error":"QDUP no","results":[]}`
	const rejected = `{"transactionId":"x","success":false,"reason":"ack_rejected","error":"QTXN no","results":[]}`
	minted, named := Item{Payload: 1}, Item{TransactionID: "i1", Payload: 1}
	rows := []struct {
		name, answer string
		items        []Item
		reason       string // "": committed before
	}{
		{"duplicate of a minted id", duplicate, []Item{minted}, ""},
		{"duplicate of a named id", duplicate, []Item{named}, RolledBackDuplicate},
		{"duplicate among both", duplicate, []Item{minted, named}, RolledBackDuplicate},
		{"ack", rejected, []Item{minted}, RolledBackAck},
		{"ack alone", rejected, nil, RolledBackAck},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			f := newFake(t, answer(200, row.answer))
			tx := f.Transaction().Ack(Message{TransactionID: "t1", LeaseID: "l"})
			r, err := tx.Queue("q").Push(row.items...).Commit(t.Context())
			var back *RollbackError
			if row.reason == "" {
				if err != nil || !r.Repeated || r.Results != nil {
					t.Errorf("got %+v, %v", r, err)
				}
			} else if !errors.As(err, &back) || back.Reason != row.reason || back.Message == "" {
				t.Errorf("got %+v, %v", r, err)
			}
			if len(f.seen()) != 1 {
				t.Errorf("sent %d times", len(f.seen()))
			}
		})
	}
}

// Every attempt sends the same bytes, minted ids included: also those of a second Commit.
func TestTransactionRepeats(t *testing.T) {
	f := newFake(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 2 {
			reply(w, 500, `{"error":"pool"}`)
			return
		}
		reply(w, 200, `{"success":true,"results":[{}]}`)
	})
	tx := f.Transaction().Queue("q").Push(Item{Payload: 1})
	for range 2 {
		if _, err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	seen := f.seen()
	if len(seen) != 4 || !regexp.MustCompile(`"transactionId":"[0-9a-f-]{36}"`).MatchString(seen[0].body) {
		t.Fatalf("%d requests, the first %+v", len(seen), seen[0])
	}
	for _, r := range seen {
		if r.body != seen[0].body {
			t.Errorf("got %s want %s", r.body, seen[0].body)
		}
	}
}

func TestTransactionMistakes(t *testing.T) {
	f := newFake(t, answer(200, `{}`))
	rows := []struct {
		name  string
		build func(tx *Transaction)
		want  error
	}{
		{"empty", func(*Transaction) {}, nil},
		{"group", func(tx *Transaction) { tx.Ack(Message{Group: "\xff"}) }, ErrName},
		{"queue", func(tx *Transaction) { tx.Queue("\xff").Push(Item{}) }, ErrName},
		{"partition", func(tx *Transaction) { tx.Queue("q").Partition("\xff").Push(Item{}).Ack(Message{}) }, ErrName},
		{"payload", func(tx *Transaction) { tx.Queue("q").Push(Item{Payload: []byte("{")}) }, ErrPayload},
		{"the first counts", func(tx *Transaction) {
			tx.Queue("q").Push(Item{Payload: []byte("{")})
			tx.Ack(Message{Group: "\xff"})
		}, ErrPayload},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			tx := f.Transaction()
			row.build(tx)
			if _, err := tx.Commit(t.Context()); !errors.Is(err, row.want) {
				t.Errorf("got %v want %v", err, row.want)
			}
		})
	}
	if n := len(f.seen()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	f = newFake(t, answer(400, `{"transactionId":"x","success":false,"reason":"bad_request","error":"bad body: x","results":[]}`))
	var refused *Error
	if _, err := f.Transaction().Ack(Message{}).Commit(t.Context()); !errors.As(err, &refused) || refused.Status != 400 || refused.Message != "bad body: x" {
		t.Errorf("got %v", err)
	}
}
