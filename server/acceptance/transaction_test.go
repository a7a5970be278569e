package acceptance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestM430OperationsArePushOrAck(t *testing.T) {
	w := open(t)
	w.queued(msg("in", "", "m0"))
	m := w.pop("in").Messages[0]
	pushes, acks := w.committed(bundled(acking("", m.as("completed")), pushing(msg("out", "", "n0"))))
	if len(pushes) != 1 || len(acks) != 1 {
		t.Fatalf("%v, %v", pushes, acks)
	}
	w.nothing(w.pop("in"))
	w.want(w.pop("out"), "n0")
}

func TestM431ItemsOrInline(t *testing.T) {
	w := open(t)
	rows := []struct {
		name, body string
		want       []string
	}{
		{"items", `{"operations":[{"type":"push","items":[{"queue":"a","transactionId":"1"},{"queue":"a","transactionId":"2"}]}]}`, []string{"1", "2"}},
		{"inline", `{"operations":[{"type":"push","queue":"b","transactionId":"1","payload":1}]}`, []string{"1"}},
		{"items decide over inline", `{"operations":[{"queue":"x","transactionId":"no","items":[{"queue":"c","transactionId":"1"}],"type":"push"}]}`, []string{"1"}},
		{"no items at all", `{"operations":[{"type":"push","queue":"x","items":[]}]}`, nil},
		{"items that are no array", `{"operations":[{"type":"push","queue":"e","transactionId":"1","items":null}]}`, []string{"1"}},
	}
	for _, row := range rows {
		pushes, _ := w.committedRaw(row.body)
		var ids []string
		for _, p := range pushes {
			ids = append(ids, p.TransactionID)
			w.want(w.popFrom(p.Queue, "Default", "batch=1"), p.TransactionID)
			w.lapse()
			w.ack("", ack{TransactionID: p.TransactionID, PartitionID: w.popFrom(p.Queue, "Default", "batch=1").PartitionID})
		}
		if !slices.Equal(ids, row.want) {
			t.Errorf("%s: %v, want %v", row.name, ids, row.want)
		}
	}
	if names := w.queueNames(); slices.Contains(names, "x") {
		t.Errorf("queues %v", names)
	}
}

func TestM432PushFields(t *testing.T) {
	w := open(t)
	const trace = "0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83"
	rows := []struct{ name, item, queue, partition, data, trace string }{
		{"payload before data", `"queue":"a","payload":{"n": 1},"data":2`, "a", "Default", `{"n": 1}`, ""},
		{"data", `"queue":"b","data":[1.50]`, "b", "Default", `[1.50]`, ""},
		{"nothing", `"queue":"c"`, "c", "Default", `{}`, ""},
		{"null is a payload", `"queue":"d","payload":null,"data":2`, "d", "Default", `null`, ""},
		{"null data", `"queue":"e","data":null`, "e", "Default", `null`, ""},
		{"no queue", `"payload":1`, "", "Default", `1`, ""},
		{"empty partition", `"queue":"f","partition":""`, "f", "", `{}`, ""},
		{"null partition", `"queue":"g","partition":null`, "g", "Default", `{}`, ""},
		{"trace", `"queue":"h","traceId":"` + trace + `"`, "h", "Default", `{}`, trace},
		{"trace in upper case", `"queue":"i","traceId":"` + strings.ToUpper(trace) + `"`, "i", "Default", `{}`, trace},
		{"no UUID", `"queue":"j","traceId":"abc"`, "j", "Default", `{}`, ""},
		{"no string", `"queue":"k","traceId":[1]`, "k", "Default", `{}`, ""},
		{"empty transaction id", `"queue":"l","transactionId":""`, "l", "Default", `{}`, ""},
	}
	for _, row := range rows {
		for _, form := range []string{`{"type":"push",%s}`, `{"items":[{%s}],"type":"push"}`} {
			pushes, _ := w.committedRaw(`{"operations":[` + fmt.Sprintf(form, row.item) + `]}`)
			if len(pushes) != 1 || pushes[0].Queue != row.queue || pushes[0].TransactionID != pushes[0].MessageID {
				t.Errorf("%s: %+v", row.name, pushes)
			}
		}
		p := w.popAt("/api/v1/pop/queue/"+row.queue+"/partition/"+row.partition, row.queue, []string{"batch=9", "autoAck=true"})
		if p == nil || len(p.Messages) != 2 || p.Partition != row.partition {
			t.Fatalf("%s: popped %+v", row.name, p)
		}
		for _, m := range p.Messages {
			trace := ""
			if m.TraceID != nil {
				trace = *m.TraceID
			}
			if string(m.Data) != row.data || trace != row.trace || m.TransactionID != m.ID {
				t.Errorf("%s: %s, trace %q", row.name, m.Data, trace)
			}
		}
	}
}

func TestT11TraceID(t *testing.T) {
	w := open(t)
	const trace = "0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83"
	w.pushRaw(`{"items":[{"queue":"q","transactionId":"plain","traceId":"` + trace + `","payload":1}]}`)
	w.committedRaw(`{"operations":[{"type":"push","queue":"q","transactionId":"traced","traceId":"` + trace + `"}]}`)
	for _, step := range []func(){func() {}, w.restart, w.crash} {
		step()
		w.lapse()
		m := w.want(w.popFrom("q", "Default"), "plain", "traced").Messages
		if m[0].TraceID != nil || m[1].TraceID == nil || *m[1].TraceID != trace {
			t.Errorf("traces %v, %v", m[0].TraceID, m[1].TraceID)
		}
	}
}

func TestM433AckFields(t *testing.T) {
	w := open(t)
	rows := []struct{ name, status, group string }{
		{"no status", ``, ""},
		{"null status", `,"status":null`, ""},
		{"ok", `,"status":"ok"`, ""},
		{"empty group", `,"status":"acked","consumerGroup":""`, ""},
		{"null group", `,"consumerGroup":null`, ""},
		{"named group", `,"status":"success","consumerGroup":"g"`, "g"},
	}
	for i, row := range rows {
		q := fmt.Sprint("q", i)
		w.queued(msg(q, "", "m0"))
		m := w.pop(q, "consumerGroup="+row.group).Messages[0]
		_, acks := w.committedRaw(fmt.Sprintf(`{"operations":[{"type":"ack","transactionId":"m0","partitionId":%q,"leaseId":%q%s}]}`, m.PartitionID, m.LeaseID, row.status))
		if len(acks) != 1 || acks[0].TransactionID != "m0" || acks[0].DeadLetter {
			t.Errorf("%s: %+v", row.name, acks)
		}
		w.lapse()
		w.nothing(w.popFrom(q, "Default", "consumerGroup="+row.group))
	}
	// Every other status is a failure: it charges the budget.
	w.configure("f", `{"retryLimit":0}`)
	w.queued(msg("f", "", "m0"))
	m := w.pop("f").Messages[0]
	if _, acks := w.committed(bundled(acking("", m.as("Completed")))); !acks[0].DeadLetter {
		t.Errorf("unknown status: %+v", acks)
	}
}

func TestM434RequiredLeases(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "m0"), msg("q", "", "m1"))
	p := w.pop("q")
	a := acking("", p.Messages[1].as("completed").leaseless())
	w.committed(bundled(a).holding("", p.LeaseID, ""))
	w.lapse()
	w.nothing(w.popFrom("q", "Default"))
	// Blank ones are none: the ack is lease-less.
	w.queued(msg("q", "", "m2"))
	p = w.pop("q")
	w.committed(bundled(acking("", p.Messages[0].as("completed").leaseless())).holding("", ""))
	w.nothing(w.popFrom("q", "Default"))
	w.committedRaw(`{"operations":[],"requiredLeases":null}`)
	w.committedRaw(`{"operations":[],"requiredLeases":[null]}`)
}

func TestM435SpansQueuesPartitionsAndGroups(t *testing.T) {
	w := open(t)
	w.queued(msg("a", "p1", "a1"), msg("a", "p2", "a2"), msg("b", "p1", "b1"))
	a := w.pop("a", "partitions=2")
	b := w.pop("b", "consumerGroup=g")
	b2 := w.pop("b", "consumerGroup=h")
	var ops []any
	for _, m := range a.Messages {
		ops = append(ops, acking("", m.as("completed")))
	}
	ops = append(ops,
		pushing(msg("c", "p1", "c1"), msg("d", "p1", "d1")), acking("g", b.Messages[0].as("completed")),
		pushing(msg("a", "p1", "a3"), msg("c", "p2", "c2")), acking("h", b2.Messages[0].as("completed")))
	w.committed(bundled(ops...))
	for range 3 {
		w.want(w.popFrom("a", "p1"), "a3")
		w.nothing(w.popFrom("a", "p2"))
		w.nothing(w.pop("b", "consumerGroup=g"))
		w.nothing(w.pop("b", "consumerGroup=h"))
		w.want(w.popFrom("c", "p1"), "c1")
		w.want(w.popFrom("c", "p2"), "c2")
		w.want(w.popFrom("d", "p1"), "d1")
		w.crash()
		w.lapse()
	}
}

func TestM436BadBodies(t *testing.T) {
	w := open(t)
	const unknownType = "segments transaction supports only push and ack operations"
	rows := []struct{ name, body, text string }{
		{"empty", ``, "bad body: unexpected end at byte 0"},
		{"no JSON", `{"operations":[}`, "bad body: unexpected '}' at byte 15"},
		{"no object", `[]`, "bad body: the body is not an object"},
		{"no operations", `{}`, "bad body: operations is missing"},
		{"null", `{"operations":null}`, "bad body: operations is not an array"},
		{"object", `{"operations":{}}`, "bad body: operations is not an array"},
		{"no object in it", `{"operations":[1]}`, "bad body: operations[0] is not an object"},
		{"type", `{"operations":[{"type":"push","queue":"q"},{"type":"kv"}]}`, unknownType},
		{"case of type", `{"operations":[{"type":"Push","queue":"q"}]}`, unknownType},
		{"no type", `{"operations":[{"queue":"q"}]}`, unknownType},
		{"mistyped type", `{"operations":[{"type":1}]}`, unknownType},
		{"queue", `{"operations":[{"type":"push","queue":1}]}`, "bad body: operations[0].queue is not a string"},
		{"partition", `{"operations":[{"type":"push","items":[{},{"partition":1}]}]}`, "bad body: operations[0].items[1].partition is not a string"},
		{"transaction id", `{"operations":[{"type":"ack","transactionId":1}]}`, "bad body: operations[0].transactionId is not a string"},
		{"group", `{"operations":[{"type":"ack","consumerGroup":{}}]}`, "bad body: operations[0].consumerGroup is not a string"},
		{"leases", `{"operations":[],"requiredLeases":"x"}`, "bad body: requiredLeases is not an array"},
		{"lease", `{"operations":[],"requiredLeases":[1]}`, "bad body: requiredLeases has an element that is not a string"},
		{"long id", `{"operations":[{"type":"push","queue":"q","transactionId":"` + strings.Repeat("x", 65536) + `"}]}`, "bad body: transactionId exceeds 65535 bytes"},
		{"long queue", `{"operations":[{"type":"push","queue":"` + strings.Repeat("x", 65536) + `"}]}`, "bad body: queue exceeds 65535 bytes"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { w.on(t).failed(row.body, 400, "bad_request", row.text) })
	}
	if names := w.queueNames(); len(names) > 0 {
		t.Errorf("queues %v", names)
	}
}

func TestM440RolledBackLeavesNothing(t *testing.T) {
	w := open(t)
	w.queued(msg("in", "", "m0"), msg("in", "", "m1"))
	p := w.pop("in")
	good := acking("", p.Messages[0].as("completed"))
	ghost := acking("", p.Messages[0].as("completed").id("ghost"))
	push := pushing(msg("new", "", "n0"), msg("in", "other", "n1"))
	w.rolledBack(bundled(good, push, ghost), "ack_rejected", unknownAck)
	w.rolledBack(bundled(ghost, good, push), "ack_rejected", unknownAck)
	for range 3 {
		if names := w.queueNames(); !slices.Equal(names, []string{"in"}) {
			t.Errorf("queues %v", names)
		}
		if n := w.queue("in").PartitionCount; n != 1 {
			t.Errorf("%d partitions", n)
		}
		w.lapse()
		w.want(w.popFrom("in", "Default"), "m0", "m1")
		w.crash()
	}
	// The ids are free: nothing of them was remembered.
	w.queued(msg("new", "", "n0"), msg("in", "other", "n1"))
}

func TestM441PushesCreateInOrder(t *testing.T) {
	w := open(t)
	w.committed(bundled(pushing(msg("ns.task.q", "p", "1")), pushing(msg("ns.task.q", "p", "2"), msg("ns.task.q", "", "3")), pushing(msg("ns.task.q", "p", "4"))))
	q := w.queue("ns.task.q")
	if q.Namespace != "ns" || q.Task != "task" || q.Options.LeaseTime != 60 || q.PartitionCount != 2 {
		t.Errorf("queue %+v", q)
	}
	w.want(w.popFrom("ns.task.q", "p"), "1", "2", "4")
	w.want(w.popFrom("ns.task.q", "Default"), "3")
}

func TestM441LargeBundle(t *testing.T) {
	w := open(t, eagerCheckpoints)
	large := json.RawMessage(`"` + strings.Repeat("x", 700<<10) + `"`)
	var items []item
	for i := range 40 {
		items = append(items, item{"q", fmt.Sprint("p", i%4), fmt.Sprint(i), large})
	}
	w.committed(bundled(pushing(items...)))
	w.filed()
	w.crash()
	for i := range 4 {
		var want []string
		for j := i; j < 40; j += 4 {
			want = append(want, fmt.Sprint(j))
		}
		var got []string
		for len(got) < len(want) {
			p := w.popFrom("q", fmt.Sprint("p", i), "autoAck=true")
			if p == nil {
				break
			}
			got = append(got, p.ids()...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("p%d has %v, want %v", i, got, want)
		}
	}
}

func TestM443Duplicates(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "m0"), msg("q", "p", "m1"))
	p := w.popFrom("q", "p")
	w.rolledBack(bundled(pushing(msg("new", "", "n0"), msg("q", "p", "n1"), msg("q", "p", "m1")), acking("", p.Messages[1].as("completed"))),
		"duplicate", isDuplicate("q", "p"))
	w.nothing(w.popFrom("q", "p")) // still leased
	w.lapse()
	w.want(w.popFrom("q", "p"), "m0", "m1")
	if names := w.queueNames(); !slices.Equal(names, []string{"q"}) {
		t.Errorf("queues %v", names)
	}
	// Another partition is another message, and a name is put as it is.
	w.committed(bundled(pushing(msg("q", `a "b"`, "m0"))))
	w.rolledBack(bundled(pushing(msg("q", `a "b"`, "m0"))), "duplicate", isDuplicate("q", `a "b"`))
	// Without a window there is no check, and outside of it neither.
	w.configure("w0", `{"dedupWindowSeconds":0}`)
	for range 2 {
		w.committed(bundled(pushing(msg("w0", "", "m0"))))
	}
	w.want(w.pop("w0"), "m0", "m0")
	w.clock.advance(3601e9)
	w.committed(bundled(pushing(msg("q", "p", "m0"))))
}

func TestM443Refusals(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "m0"), msg("q", "", "m1"), msg("untouched", "", "u0"))
	p := w.pop("q")
	m := p.Messages[0]
	unpopped := w.queue("untouched").Partitions[0].ID
	w.queued(msg("held", "", "h0"))
	held := w.pop("held", "consumerGroup=g").Messages[0]
	rows := []struct {
		name string
		b    bundle
		text string
	}{
		{"ghost", bundled(acking("", m.as("completed").id("ghost"))), unknownAck},
		{"failed ghost", bundled(acking("", m.as("failed").id("ghost"))), unknownAck},
		{"no id", bundled(acking("", m.as("completed").id(""))), unknownAck},
		{"no cursor", bundled(acking("other", m.as("completed"))), noConsumer},
		{"cursor of another group", bundled(acking("", held.as("completed"))), noConsumer},
		{"never popped", bundled(acking("", ack{TransactionID: "u0", PartitionID: unpopped})), noConsumer},
		{"no partition", bundled(acking("", ack{TransactionID: "m0", PartitionID: "0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83"})), noConsumer},
		{"no partition id", bundled(acking("", ack{TransactionID: "m0", PartitionID: "x"})), badPartition},
		{"another lease", bundled(acking("", ack{TransactionID: "m0", PartitionID: m.PartitionID, LeaseID: held.LeaseID})), lostLease},
		{"no lease id", bundled(acking("", ack{TransactionID: "m0", PartitionID: m.PartitionID, LeaseID: "x"})), lostLease},
		{"the second ack", bundled(acking("", m.as("completed")), acking("g", held.as("completed").id("ghost"))), unknownAck},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := row.b
			b.Operations = append(b.Operations, pushing(msg("out", "", "o0")))
			w.on(t).rolledBack(b, "ack_rejected", row.text)
		})
	}
	w.nothing(w.pop("q")) // the lease has survived
	w.committed(bundled(acking("", p.Messages[1].as("completed")), acking("g", held.as("completed"))))
	if names := w.queueNames(); slices.Contains(names, "out") {
		t.Errorf("queues %v", names)
	}
	// An ack after the release is refused as well.
	w.rolledBack(bundled(acking("", p.Messages[1].as("completed"))), "ack_rejected", lostLease)
}

func TestM443DeadLetterWithoutBatch(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "m0"), msg("q", "", "m1"))
	p := w.pop("q", "batch=1")
	w.ackAll("", p)
	next := p.Messages[0].as("dlq").id("m1").leaseless()
	w.rolledBack(bundled(acking("", next)), "ack_rejected", noLeasedDLQ)
	// The weaker signals commit, and charge nothing.
	for _, status := range []string{"failed", "retry"} {
		next.Status = status
		w.committed(bundled(acking("", next)))
	}
	w.want(w.pop("q"), "m1")
}

func TestM444AckBelowTheCursorCommits(t *testing.T) {
	for _, status := range []string{"completed", "failed", "retry", "dlq"} {
		t.Run(status, func(t *testing.T) {
			w := open(t)
			w.queued(numbered("q", "", "m", 3)...)
			m := w.pop("q").Messages
			w.ok(false, w.ack("", m[1].as("completed")))
			_, acks := w.committed(bundled(acking("", m[0].as(status)), pushing(msg("out", "", "o0"))))
			if acks[0].DeadLetter {
				t.Errorf("%+v", acks)
			}
			w.want(w.pop("out"), "o0")
			if d := w.deadLetters(); len(d) > 0 {
				t.Errorf("dead letters %+v", d)
			}
			w.committed(bundled(acking("", m[0].as(status)))) // alone it writes nothing
			w.ok(true, w.ack("", m[2].as("completed")))       // the lease has survived
		})
	}
}

func TestM445RepeatsInOneBundle(t *testing.T) {
	w := open(t)
	w.configure("w0", `{"dedupWindowSeconds":0}`)
	for _, q := range []string{"new", "w0", "new"} {
		id := "m" + fmt.Sprint(len(w.queueNames())) + q
		pushes, _ := w.committed(bundled(pushing(msg(q, "p", id), msg(q, "other", id)), pushing(msg(q, "p", id)), pushing(msg(q, "p", id))))
		for i, want := range []bool{false, false, true, true} {
			if pushes[i].Duplicate != want || pushes[i].TransactionID != id || want && pushes[i].MessageID != pushes[0].MessageID {
				t.Errorf("%s: push %d: %+v", q, i, pushes[i])
			}
		}
		w.want(w.popFrom(q, "p", "autoAck=true"), id)
		w.want(w.popFrom(q, "other", "autoAck=true"), id)
	}
}

func TestM449RepeatOfACommittedBundle(t *testing.T) {
	w := open(t)
	w.queued(msg("in", "", "m0"))
	m := w.pop("in").Messages[0]
	b := bundled(acking("", m.as("completed")), pushing(msg("out", "", "for-m0")))
	w.committed(b)
	for _, step := range []func(){func() {}, w.restart, w.crash} {
		step()
		w.rolledBack(b, "duplicate", isDuplicate("out", "Default"))
	}
	w.want(w.pop("out"), "for-m0")
}

func TestM450AnswerShape(t *testing.T) {
	w := open(t)
	w.queued(msg("in", "", "m0"))
	m := w.pop("in").Messages[0]
	body := fmt.Sprintf(`{"operations":[{"type":"push","items":[{"queue":"a","transactionId":"x"},{"queue":"b"},{"queue":"a","transactionId":"x"}]},`+
		`{"type":"ack","transactionId":"m0","partitionId":%q,"leaseId":%q},{"type":"push","queue":"c"}]}`, m.PartitionID, m.LeaseID)
	a := w.call("POST", "/api/v1/transaction", body)
	want := `{"transactionId":"id1","success":true,"results":[` +
		`{"index":0,"type":"push","success":true,"transactionId":"x","messageId":"id2","queueName":"a"},` +
		`{"index":1,"type":"push","success":true,"transactionId":"id3","messageId":"id3","queueName":"b"},` +
		`{"index":2,"type":"push","success":true,"transactionId":"x","messageId":"id2","queueName":"a","duplicate":true},` +
		`{"index":3,"type":"ack","success":true,"transactionId":"m0","error":null,"dlq":false},` +
		`{"index":4,"type":"push","success":true,"transactionId":"id4","messageId":"id4","queueName":"c"}]}`
	if got := masked(a.body); a.status != 200 || got != want {
		t.Errorf("got %d %s\nwant %s", a.status, got, want)
	}
	a = w.call("POST", "/api/v1/transaction", body)
	want = `{"transactionId":"id1","success":false,"reason":"duplicate","error":"QDUP duplicate messages in queue \"a\" partition \"Default\"; transaction rolled back","results":[]}`
	if got := masked(a.body); a.status != 200 || got != want {
		t.Errorf("got %d %s\nwant %s", a.status, got, want)
	}
	a = w.call("POST", "/api/v1/transaction", `{}`)
	want = `{"transactionId":"id1","success":false,"reason":"bad_request","error":"bad body: operations is missing","results":[]}`
	if got := masked(a.body); a.status != 400 || got != want {
		t.Errorf("got %d %s\nwant %s", a.status, got, want)
	}
	// No operations are a success.
	a = w.call("POST", "/api/v1/transaction", `{"operations":[],"kv":[1],"timers":{}}`)
	if got := masked(a.body); a.status != 200 || got != `{"transactionId":"id1","success":true,"results":[]}` {
		t.Errorf("got %d %s", a.status, got)
	}
}

func TestM454TooLarge(t *testing.T) {
	w := open(t, func(w *world) { w.server.MaxBodyBytes = 100 })
	w.expect("POST", "/api/v1/transaction", `{"operations":[`+strings.Repeat(" ", 100)+`]}`, 413, `{"error":"request body too large"}`)
}
