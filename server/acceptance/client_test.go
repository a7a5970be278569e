package acceptance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const queueMode = "__QUEUE_MODE__"

// item is one message to push. Empty fields are not sent, but for the payload, which is
// then {}.
type item struct {
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition,omitempty"`
	TransactionID string          `json:"transactionId,omitempty"`
	Payload       json.RawMessage `json:"payload"`
}

// msg is an item whose payload says which it is.
func msg(queue, partition, id string) item {
	return item{queue, partition, id, json.RawMessage(quote(id))}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// numbered returns n items with the ids prefix0 and so on.
func numbered(queue, partition, prefix string, n int) (items []item) {
	for i := range n {
		items = append(items, msg(queue, partition, fmt.Sprint(prefix, i)))
	}
	return items
}

// push pushes items and checks what holds for every answer.
func (w *world) push(items ...item) []pushResult {
	w.t.Helper()
	for i := range items {
		if items[i].Payload == nil {
			items[i].Payload = json.RawMessage("{}")
		}
	}
	body, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		w.t.Fatal(err)
	}
	results := w.pushRaw(string(body))
	if len(results) != len(items) {
		w.t.Fatalf("%d results for %d items: %v", len(results), len(items), results)
	}
	for i, r := range results {
		if r.Queue != items[i].Queue {
			w.t.Errorf("result %d: queueName %q, want %q", i, r.Queue, items[i].Queue)
		}
		want := items[i].TransactionID
		if want == "" {
			want = r.MessageID
		}
		if r.TransactionID != want {
			w.t.Errorf("result %d: transaction_id %q, want %q", i, r.TransactionID, want)
		}
	}
	return results
}

// pushRaw pushes a body.
func (w *world) pushRaw(body string) []pushResult {
	w.t.Helper()
	a := w.call("POST", "/api/v1/push", body)
	if a.status != http.StatusCreated {
		w.t.Fatalf("push: %d %s", a.status, a.body)
	}
	results := decode[[]pushResult](w.t, a.body)
	for i, r := range results {
		if r.Index != i || r.Error != "" || (r.Status != "queued" && r.Status != "duplicate") {
			w.t.Errorf("result %d: %+v", i, r)
		}
		if !uuidv7Pattern.MatchString(r.MessageID) {
			w.t.Errorf("result %d: message_id %q is no UUIDv7", i, r.MessageID)
		}
	}
	return results
}

// queued pushes items that all have to be stored, and returns their message ids.
func (w *world) queued(items ...item) (ids []string) {
	w.t.Helper()
	for i, r := range w.push(items...) {
		if r.Status != "queued" {
			w.t.Errorf("item %d: status %s, want queued", i, r.Status)
		}
		ids = append(ids, r.MessageID)
	}
	return ids
}

// pop pops from a queue; nil is the 204 of nothing to deliver.
func (w *world) pop(queue string, params ...string) *popAnswer {
	w.t.Helper()
	return w.popAt("/api/v1/pop/queue/"+url.PathEscape(queue), queue, params)
}

// popFrom pops from one partition.
func (w *world) popFrom(queue, partition string, params ...string) *popAnswer {
	w.t.Helper()
	p := w.popAt("/api/v1/pop/queue/"+url.PathEscape(queue)+"/partition/"+url.PathEscape(partition), queue, params)
	if p != nil && (p.Claimed != 1 || p.Partition != partition) {
		w.t.Errorf("pinned pop of %q: partition %q, %d claimed", partition, p.Partition, p.Claimed)
	}
	return p
}

// discover pops from the queues with the labels among params.
func (w *world) discover(params ...string) *popAnswer {
	w.t.Helper()
	return w.popAt("/api/v1/pop", "", params)
}

// query joins parameters, each name=value, and escapes the values.
func query(params []string) string {
	var parts []string
	for _, p := range params {
		name, value, _ := strings.Cut(p, "=")
		parts = append(parts, name+"="+url.QueryEscape(value))
	}
	return strings.Join(parts, "&")
}

func (w *world) popAt(path, queue string, params []string) *popAnswer {
	w.t.Helper()
	target := path + "?" + query(params)
	a := w.call("GET", target, "")
	switch a.status {
	case http.StatusNoContent:
		return nil
	case http.StatusOK:
	default:
		w.t.Fatalf("GET %s: %d %s", target, a.status, a.body)
	}
	p := decode[popAnswer](w.t, a.body)
	w.checkPop(&p, queue, params)
	return &p
}

// checkPop checks what holds for every pop that delivers.
func (w *world) checkPop(p *popAnswer, queue string, params []string) {
	w.t.Helper()
	group := queueMode
	for _, v := range params {
		if name, value, _ := strings.Cut(v, "="); name == "consumerGroup" && value != "" {
			group = value
		}
	}
	auto := slices.Contains(params, "autoAck=true")
	if !p.Success || p.Queue != queue || p.Group != group || len(p.Messages) == 0 {
		w.t.Fatalf("pop: %+v", p)
	}
	if auto != (p.LeaseID == "") || !auto && !uuidv7Pattern.MatchString(p.LeaseID) {
		w.t.Errorf("pop: leaseId %q with autoAck %t", p.LeaseID, auto)
	}
	if first := p.Messages[0]; p.Partition != first.Partition || p.PartitionID != first.PartitionID {
		w.t.Errorf("pop: partition %q, that of the first message %q", p.Partition, first.Partition)
	}
	var seen []string // partition ids in order of appearance
	for i, m := range p.Messages {
		if i == 0 || m.PartitionID != p.Messages[i-1].PartitionID {
			if slices.Contains(seen, m.PartitionID) {
				w.t.Errorf("pop: messages of partition %q are not contiguous", m.Partition)
			}
			seen = append(seen, m.PartitionID)
		} else if m.CreatedAt < p.Messages[i-1].CreatedAt {
			w.t.Errorf("pop: createdAt %s after %s", m.CreatedAt, p.Messages[i-1].CreatedAt)
		}
		if m.LeaseID != p.LeaseID || m.Group != group {
			w.t.Errorf("pop: message %d under lease %q of group %q", i, m.LeaseID, m.Group)
		}
		if !uuidv7Pattern.MatchString(m.ID) || !uuidPattern.MatchString(m.PartitionID) || !millisPattern.MatchString(m.CreatedAt) {
			w.t.Errorf("pop: message %d: id %q, partitionId %q, createdAt %q", i, m.ID, m.PartitionID, m.CreatedAt)
		}
	}
	if len(seen) != p.Claimed {
		w.t.Errorf("pop: %d partitions delivered, partitionsClaimed %d", len(seen), p.Claimed)
	}
}

// ids returns the transaction ids of a pop, in order; nil has none.
func (p *popAnswer) ids() (ids []string) {
	if p == nil {
		return nil
	}
	for _, m := range p.Messages {
		ids = append(ids, m.TransactionID)
	}
	return ids
}

// want compares the transaction ids of a pop.
func (w *world) want(p *popAnswer, ids ...string) *popAnswer {
	w.t.Helper()
	if got := p.ids(); !slices.Equal(got, ids) {
		w.t.Fatalf("popped %v, want %v", got, ids)
	}
	return p
}

// nothing checks that a pop delivered nothing.
func (w *world) nothing(p *popAnswer) {
	w.t.Helper()
	if p != nil {
		w.t.Fatalf("popped %v, want nothing", p.ids())
	}
}

// ack is one acknowledgement. Empty fields are not sent.
type ack struct {
	TransactionID string `json:"transactionId,omitempty"`
	PartitionID   string `json:"partitionId,omitempty"`
	Group         string `json:"consumerGroup,omitempty"`
	LeaseID       string `json:"leaseId,omitempty"`
	Status        string `json:"status,omitempty"`
	Error         string `json:"error,omitempty"`
}

// as is an acknowledgement of m under its lease.
func (m message) as(status string) ack {
	return ack{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID, Status: status}
}

// leaseless is a without its lease.
func (a ack) leaseless() ack { a.LeaseID = ""; return a }

// because is a with a reason.
func (a ack) because(reason string) ack { a.Error = reason; return a }

// id is a of another transaction.
func (a ack) id(transactionID string) ack { a.TransactionID = transactionID; return a }

// ack sends one acknowledgement for a group; "" sends none.
func (w *world) ack(group string, a ack) ackResult {
	w.t.Helper()
	a.Group = group
	body, err := json.Marshal(a)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.ackRaw("/api/v1/ack", string(body), a.TransactionID)[0]
}

// ackBatch sends acknowledgements for a group in one call.
func (w *world) ackBatch(group string, acks ...ack) []ackResult {
	w.t.Helper()
	var ids []string
	for _, a := range acks {
		ids = append(ids, a.TransactionID)
	}
	top := map[string]any{"acknowledgments": acks}
	if group != "" {
		top["consumerGroup"] = group
	}
	body, err := json.Marshal(top)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.ackRaw("/api/v1/ack/batch", string(body), ids...)
}

// ackRaw sends a body and checks what holds for every answer.
func (w *world) ackRaw(path, body string, ids ...string) []ackResult {
	w.t.Helper()
	a := w.call("POST", path, body)
	if a.status != http.StatusOK {
		w.t.Fatalf("POST %s: %d %s", path, a.status, a.body)
	}
	results := decode[[]ackResult](w.t, a.body)
	if len(results) != len(ids) {
		w.t.Fatalf("%d results for %d acks: %s", len(results), len(ids), a.body)
	}
	for i, r := range results {
		if r.Index != i || r.TransactionID != ids[i] || r.Success != (r.Error == nil) {
			w.t.Errorf("ack %d of %q: %+v", i, ids[i], r)
		}
		if !r.Success && (r.LeaseReleased || r.DeadLetter || r.Noop) {
			w.t.Errorf("ack %d of %q failed and says more: %+v", i, ids[i], r)
		}
	}
	return results
}

// ackAll completes every message of a pop in one call.
func (w *world) ackAll(group string, p *popAnswer) {
	w.t.Helper()
	var acks []ack
	for _, m := range p.Messages {
		acks = append(acks, m.as("completed"))
	}
	for i, r := range w.ackBatch(group, acks...) {
		if !r.Success || !r.LeaseReleased || r.Noop {
			w.t.Fatalf("ack %d: %+v: %s", i, r, *cmp.Or(r.Error, new(string)))
		}
	}
}

// ok checks that acknowledgements succeeded, and whether they released the lease.
func (w *world) ok(released bool, results ...ackResult) {
	w.t.Helper()
	for _, r := range results {
		if !r.Success || r.LeaseReleased != released || r.Noop || r.DeadLetter {
			w.t.Errorf("ack: %s, want success with leaseReleased %t", show(r), released)
		}
	}
}

// refused checks that an acknowledgement failed with a text.
func (w *world) refused(r ackResult, text string) {
	w.t.Helper()
	if r.Success || r.Error == nil || *r.Error != text {
		w.t.Errorf("ack: %s, want refusal %q", show(r), text)
	}
}

// noop checks that an acknowledgement changed nothing and says so.
func (w *world) noop(r ackResult) {
	w.t.Helper()
	if !r.Success || !r.Noop || r.LeaseReleased || r.DeadLetter {
		w.t.Errorf("ack: %s, want a noop", show(r))
	}
}

// buried checks that an acknowledgement filed a dead letter.
func (w *world) buried(r ackResult) {
	w.t.Helper()
	if !r.Success || !r.DeadLetter || !r.LeaseReleased {
		w.t.Errorf("ack: %s, want a dead letter", show(r))
	}
}

func show(r ackResult) string {
	if r.Error == nil {
		return fmt.Sprintf("success (released %t, dlq %t, noop %t)", r.LeaseReleased, r.DeadLetter, r.Noop)
	}
	return fmt.Sprintf("error %q", *r.Error)
}

// The refusals.
const (
	consumerNotFound = "consumer not found"
	leaseInvalid     = "invalid or expired lease"
	alreadyCommitted = "already committed: the cursor moved past this message before this ack"
	unresolvable     = "unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers"
)

// extend extends a lease; body is sent as it is.
func (w *world) extend(lease, body string) extendAnswer {
	w.t.Helper()
	a := w.call("POST", "/api/v1/lease/"+url.PathEscape(lease)+"/extend", body)
	if a.status != http.StatusOK {
		w.t.Fatalf("extend: %d %s", a.status, a.body)
	}
	e := decode[extendAnswer](w.t, a.body)
	if e.LeaseID != lease || e.Success != (e.Renewed > 0) {
		w.t.Errorf("extend: %s", a.body)
	}
	for _, at := range []*string{e.NewExpiresAt, e.ExpiresAt, e.LeaseExpires} {
		if e.Success != (at != nil) || at != nil && (*at != *e.NewExpiresAt || !microsPattern.MatchString(*at)) {
			w.t.Errorf("extend: %s", a.body)
		}
	}
	return e
}

// expiry is when the extended lease ends.
func (e extendAnswer) expiry(w *world) time.Time {
	w.t.Helper()
	at, err := time.Parse(time.RFC3339Nano, *e.NewExpiresAt)
	if err != nil {
		w.t.Fatal(err)
	}
	return at
}

// configure configures a queue with a JSON object of options.
func (w *world) configure(queue, options string) configureAnswer {
	w.t.Helper()
	return w.configureRaw(fmt.Sprintf(`{"queue":%s,"options":%s}`, quote(queue), options))
}

func (w *world) configureRaw(body string) configureAnswer {
	w.t.Helper()
	a := w.call("POST", "/api/v1/configure", body)
	if a.status != http.StatusOK {
		w.t.Fatalf("configure %s: %d %s", body, a.status, a.body)
	}
	c := decode[configureAnswer](w.t, a.body)
	if !c.Configured || c.PartitionID != nil || c.Storage != "segments" || !uuidPattern.MatchString(c.QueueID) {
		w.t.Errorf("configure: %s", a.body)
	}
	return c
}

// queues lists the queues; params as in pop.
func (w *world) queues(params ...string) []queueSummary {
	w.t.Helper()
	a := w.call("GET", "/api/v1/resources/queues?"+query(params), "")
	if a.status != http.StatusOK {
		w.t.Fatalf("list queues: %d %s", a.status, a.body)
	}
	return decode[queueList](w.t, a.body).Queues
}

// queue describes a queue that exists and checks that its numbers add up.
func (w *world) queue(name string) queueDetail {
	w.t.Helper()
	a := w.call("GET", "/api/v1/resources/queues/"+url.PathEscape(name), "")
	if a.status != http.StatusOK {
		w.t.Fatalf("describe queue %q: %d %s", name, a.status, a.body)
	}
	d := decode[queueDetail](w.t, a.body)
	var sum counts
	for _, p := range d.Partitions {
		s := p.Stats
		if s.Total != s.Pending+s.Processing+s.Completed {
			w.t.Errorf("queue %q: partition %q does not add up: %+v", name, p.Name, s)
		}
		sum.Total += s.Total
		sum.Pending += s.Pending
		sum.Processing += s.Processing
		sum.Completed += s.Completed
		sum.DeadLetter += s.DeadLetter
	}
	if sum != d.Totals || d.Segments.Messages != d.Totals.Total || d.PartitionCount != len(d.Partitions) {
		w.t.Errorf("queue %q: totals %+v, of the partitions %+v: %s", name, d.Totals, sum, a.body)
	}
	return d
}

// deleteQueue deletes a queue.
func (w *world) deleteQueue(name string) deleteAnswer {
	w.t.Helper()
	a := w.call("DELETE", "/api/v1/resources/queues/"+url.PathEscape(name), "")
	if a.status != http.StatusOK {
		w.t.Fatalf("delete queue: %d %s", a.status, a.body)
	}
	d := decode[deleteAnswer](w.t, a.body)
	if d.Queue != name || d.Deleted != d.Existed || d.Deleted != (d.Message == "") {
		w.t.Errorf("delete queue: %s", a.body)
	}
	return d
}

// deadLetters lists dead letters; params as in pop.
func (w *world) deadLetters(params ...string) []deadLetter {
	w.t.Helper()
	a := w.call("GET", "/api/v1/dlq?"+query(params), "")
	if a.status != http.StatusOK {
		w.t.Fatalf("list dead letters: %d %s", a.status, a.body)
	}
	l := decode[deadLetterList](w.t, a.body)
	if l.Total != len(l.Messages) {
		w.t.Errorf("dead letters: total %d of %d", l.Total, len(l.Messages))
	}
	for i, d := range l.Messages {
		if !uuidPattern.MatchString(d.ID) || !millisPattern.MatchString(d.CreatedAt) || !millisPattern.MatchString(d.FailedAt) {
			w.t.Errorf("dead letter %d: %+v", i, d)
		}
		if i > 0 && d.FailedAt > l.Messages[i-1].FailedAt {
			w.t.Errorf("dead letters: %s after %s, want newest first", d.FailedAt, l.Messages[i-1].FailedAt)
		}
	}
	return l.Messages
}

// buriedIDs returns the transaction ids of the dead letters of a queue, newest first.
func (w *world) buriedIDs(queue string, params ...string) (ids []string) {
	w.t.Helper()
	for _, d := range w.deadLetters(append(params, "queue="+queue)...) {
		ids = append(ids, d.TransactionID)
	}
	return ids
}

// address is the path of a message.
func address(partitionID, transactionID string) string {
	return "/api/v1/messages/" + url.PathEscape(partitionID) + "/" + url.PathEscape(transactionID)
}

// retry moves a dead letter back to its queue.
func (w *world) retry(d deadLetter) replayAnswer {
	w.t.Helper()
	a := w.call("POST", address(d.PartitionID, d.TransactionID)+"/retry", "{}")
	if a.status != http.StatusOK {
		w.t.Fatalf("retry: %d %s", a.status, a.body)
	}
	return decode[replayAnswer](w.t, a.body)
}

// later makes a pop in the background. The channel gives its answer, or is closed if it
// failed, and has been reported.
func later(pop func() *popAnswer) <-chan *popAnswer {
	c := make(chan *popAnswer, 1)
	go func() {
		defer close(c)
		c <- pop()
	}()
	return c
}
