package acceptance

import (
	"encoding/json"
	"net/http"
	"strings"
)

// bundle is a transaction to send.
type bundle struct {
	Operations []any    `json:"operations"`
	Leases     []string `json:"requiredLeases,omitempty"`
}

// pushOperation pushes items, ackOperation acknowledges for a group.
type (
	pushOperation struct {
		Type  string `json:"type"`
		Items []item `json:"items"`
	}
	ackOperation struct {
		Type string `json:"type"`
		ack
	}
)

func pushing(items ...item) pushOperation { return pushOperation{"push", items} }

func acking(group string, a ack) ackOperation {
	a.Group = group
	return ackOperation{"ack", a}
}

func bundled(operations ...any) bundle { return bundle{Operations: operations} }

// holding is b with lease ids beside the operations.
func (b bundle) holding(leases ...string) bundle { b.Leases = leases; return b }

func (b bundle) body() string {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// The answers of the route.
type (
	bundleAnswer struct {
		TransactionID string            `json:"transactionId"`
		Success       bool              `json:"success"`
		Reason        string            `json:"reason,omitempty"`
		Error         string            `json:"error,omitempty"`
		Results       []json.RawMessage `json:"results"`
	}
	bundledPush struct {
		Index         int    `json:"index"`
		Type          string `json:"type"`
		Success       bool   `json:"success"`
		TransactionID string `json:"transactionId"`
		MessageID     string `json:"messageId"`
		Queue         string `json:"queueName"`
		Duplicate     bool   `json:"duplicate,omitempty"`
	}
	bundledAck struct {
		Index         int     `json:"index"`
		Type          string  `json:"type"`
		Success       bool    `json:"success"`
		TransactionID string  `json:"transactionId"`
		Error         *string `json:"error"`
		DeadLetter    bool    `json:"dlq"`
	}
)

// committed sends a transaction that has to commit, and returns the verdicts on its
// pushes and on its acks, each in order.
func (w *world) committed(b bundle) (pushes []bundledPush, acks []bundledAck) {
	w.t.Helper()
	return w.committedRaw(b.body())
}

func (w *world) committedRaw(body string) (pushes []bundledPush, acks []bundledAck) {
	w.t.Helper()
	a := w.call("POST", "/api/v1/transaction", body)
	if a.status != http.StatusOK {
		w.t.Fatalf("transaction: %d %s", a.status, a.body)
	}
	answer := decode[bundleAnswer](w.t, a.body)
	if !answer.Success || answer.Reason != "" || answer.Error != "" || !uuidv7Pattern.MatchString(answer.TransactionID) {
		w.t.Fatalf("transaction: %s", a.body)
	}
	for i, text := range answer.Results {
		if strings.Contains(string(text), `"type":"ack"`) {
			r := decode[bundledAck](w.t, text)
			if r.Index != i || !r.Success || r.Error != nil {
				w.t.Errorf("result %d: %s", i, text)
			}
			acks = append(acks, r)
			continue
		}
		r := decode[bundledPush](w.t, text)
		if r.Index != i || r.Type != "push" || !r.Success || !uuidv7Pattern.MatchString(r.MessageID) {
			w.t.Errorf("result %d: %s", i, text)
		}
		pushes = append(pushes, r)
	}
	return pushes, acks
}

// rolledBack sends a transaction that has to be rolled back for a reason.
func (w *world) rolledBack(b bundle, reason, text string) {
	w.t.Helper()
	w.failed(b.body(), http.StatusOK, reason, text)
}

// failed sends a body that has to fail.
func (w *world) failed(body string, status int, reason, text string) {
	w.t.Helper()
	a := w.call("POST", "/api/v1/transaction", body)
	if a.status != status {
		w.t.Fatalf("transaction %.200s: %d %s, want %d", body, a.status, a.body, status)
	}
	answer := decode[bundleAnswer](w.t, a.body)
	if answer.Success || answer.Reason != reason || answer.Error != text || len(answer.Results) > 0 || !uuidv7Pattern.MatchString(answer.TransactionID) {
		w.t.Errorf("transaction %.200s: %s, want %s %q", body, a.body, reason, text)
	}
}

// The texts of rollbacks.
const (
	unknownAck   = "QTXN ack references unknown transactionId; transaction rolled back"
	lostLease    = "QTXN ack refused: invalid or expired lease; transaction rolled back"
	noConsumer   = "QTXN ack refused: consumer not found; transaction rolled back"
	noLeasedDLQ  = "QTXN ack refused: no leased batch; transaction rolled back"
	badPartition = "QTXN ack refused: invalid partitionId; transaction rolled back"
)

// isDuplicate is the text of a rollback for a message that is stored already.
func isDuplicate(queue, partition string) string {
	return `QDUP duplicate messages in queue "` + queue + `" partition "` + partition + `"; transaction rolled back`
}

// queueNames lists the names of the queues.
func (w *world) queueNames() (names []string) {
	w.t.Helper()
	for _, q := range w.queues() {
		names = append(names, q.Name)
	}
	return names
}
