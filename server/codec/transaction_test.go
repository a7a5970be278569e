package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// showTransaction writes operations in their order, and the leases.
func showTransaction(x *Transaction) string {
	var b strings.Builder
	pushes, acks := 0, 0
	for _, kind := range x.Order {
		if kind == OperationAck {
			fmt.Fprintf(&b, "ack%s ", showAck(x.Acks[acks]))
			acks++
			continue
		}
		p := x.Pushes[pushes]
		if p.HasPartition != (p.Partition != nil) {
			panic("HasPartition and Partition disagree")
		}
		fmt.Fprintf(&b, "push%q ", []string{show(p.Queue), show(p.Partition), show(p.TransactionID), string(p.Payload), fmt.Sprintf("%x", p.TraceID[:2])})
		pushes++
	}
	if pushes != len(x.Pushes) || acks != len(x.Acks) {
		panic("Order does not fit")
	}
	for _, l := range x.Leases {
		fmt.Fprintf(&b, "lease %q ", l)
	}
	return strings.TrimSuffix(b.String(), " ")
}

func TestTransaction(t *testing.T) {
	const trace = `0198F2c1-4d3a-7c10-9f2b-6a1e5d0c7b83`
	rows := []struct{ name, body, want string }{
		{"nothing", `{"operations":[]}`, ``},
		{"riders are ignored, M-437", `{"kv":[{"a":1}],"operations":[],"timers":{}}`, ``},
		{"inline push, M-431", `{"operations":[{"type":"push","queue":"q","partition":"p","transactionId":"t","payload":{"a": 1},"traceId":"` + trace + `"}]}`,
			`push["q" "p" "t" "{\"a\": 1}" "0198"]`},
		{"items, M-431", `{"operations":[{"type":"push","items":[{"queue":"a"},{"queue":"b","data":2}],"queue":"no"}]}`,
			`push["a" "-" "-" "{}" "0000"] push["b" "-" "-" "2" "0000"]`},
		{"items before the type", `{"operations":[{"items":[{"queue":"a"}],"type":"push"}]}`, `push["a" "-" "-" "{}" "0000"]`},
		{"no items", `{"operations":[{"items":[],"type":"push"}]}`, ``},
		{"items that are no array", `{"operations":[{"items":{"queue":"a"},"type":"push","queue":"b"}]}`, `push["b" "-" "-" "{}" "0000"]`},
		{"the last items count", `{"operations":[{"items":[{"queue":1}],"items":[{"queue":"b"}],"type":"push"}]}`, `push["b" "-" "-" "{}" "0000"]`},
		{"even if they are none", `{"operations":[{"items":[{"queue":1}],"items":0,"type":"push"}]}`, `push["-" "-" "-" "{}" "0000"]`},
		{"defaults, M-432", `{"operations":[{"type":"push"},{"type":"push","queue":null,"partition":null,"transactionId":null,"traceId":null}]}`,
			`push["-" "-" "-" "{}" "0000"] push["-" "-" "-" "{}" "0000"]`},
		{"empty names, M-432", `{"operations":[{"type":"push","queue":"","partition":"","transactionId":""}]}`, `push["" "" "-" "{}" "0000"]`},
		{"payload before data, M-432", `{"operations":[{"type":"push","data":1,"payload":null}]}`, `push["-" "-" "-" "null" "0000"]`},
		{"trace that is none, M-432", `{"operations":[{"type":"push","traceId":"x"},{"type":"push","traceId":[1]}]}`, `push["-" "-" "-" "{}" "0000"] push["-" "-" "-" "{}" "0000"]`},
		{"ack, M-433", `{"operations":[{"type":"ack","transactionId":"t","partitionId":"p","consumerGroup":"g","leaseId":"l","status":"dlq","error":"e"}]}`,
			`ack["t" "p" "g" "l" "dlq" "e"]`},
		{"bare ack", `{"operations":[{"type":"ack"}]}`, `ack["-" "-" "-" "-" "-" "-"]`},
		{"what an ack has not, counts for nothing", `{"operations":[{"type":"ack","items":[{"queue":1},7],"queue":5,"payload":1}]}`, `ack["-" "-" "-" "-" "-" "-"]`},
		{"what a push has not, counts for nothing", `{"operations":[{"type":"push","leaseId":5,"status":{}}]}`, `push["-" "-" "-" "{}" "0000"]`},
		{"order, M-451", `{"operations":[{"type":"push","queue":"a"},{"type":"ack"},{"type":"push","items":[{"queue":"b"},{"queue":"c"}]},{"type":"ack","status":"ok"}]}`,
			`push["a" "-" "-" "{}" "0000"] ack["-" "-" "-" "-" "-" "-"] push["b" "-" "-" "{}" "0000"] push["c" "-" "-" "{}" "0000"] ack["-" "-" "-" "-" "ok" "-"]`},
		{"leases, M-434", `{"requiredLeases":["a","",null,"b\n"],"operations":[]}`, `lease "a" lease "b\n"`},
		{"null leases", `{"operations":[],"requiredLeases":null}`, ``},
		{"last leases", `{"operations":[],"requiredLeases":5,"requiredLeases":["a"]}`, `lease "a"`},
		{"last operations", `{"operations":[{"type":"x"}],"operations":[{"type":"ack","status":1}],"operations":[{"type":"ack"}]}`, `ack["-" "-" "-" "-" "-" "-"]`},
		{"last type", `{"operations":[{"type":"x","type":"ack"}]}`, `ack["-" "-" "-" "-" "-" "-"]`},
		{"escapes", `{"operations":[{"ty\u0070e":"\u0070ush","queue":"a\/b"}]}`, `push["a/b" "-" "-" "{}" "0000"]`},
	}
	var x Transaction
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if err := x.Decode([]byte(row.body)); err != nil {
				t.Fatal(err)
			}
			if got := showTransaction(&x); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestTransactionRefuses(t *testing.T) {
	unknown := ErrOperationType.Error()
	rows := []struct{ name, body, want string }{
		{"empty", ``, "unexpected end at byte 0"},
		{"array", `[]`, "the body is not an object"},
		{"missing", `{"requiredLeases":[]}`, "operations is missing"},
		{"null", `{"operations":null}`, "operations is not an array"},
		{"garbage behind", `{"operations":[]}x`, "unexpected 'x' at byte 17"},
		{"no object", `{"operations":[{"type":"ack"},[]]}`, "operations[1] is not an object"},
		{"unknown type, M-436", `{"operations":[{"type":"kv"}]}`, unknown},
		{"no type", `{"operations":[{}]}`, unknown},
		{"null type", `{"operations":[{"type":null}]}`, unknown},
		{"mistyped type", `{"operations":[{"type":["push"]}]}`, unknown},
		{"case", `{"operations":[{"type":"ACK"}]}`, unknown},
		{"unknown type before a complaint", `{"operations":[{"type":"ack","status":1},{"type":"kv"}]}`, unknown},
		{"syntax before unknown type", `{"operations":[{"type":"kv"}]`, "unexpected end at byte 29"},
		{"item", `{"operations":[{"type":"ack"},{"type":"push","items":[{},7]}]}`, "operations[1].items[1] is not an object"},
		{"queue of an item", `{"operations":[{"items":[{},{"queue":[]}],"type":"push"}]}`, "operations[0].items[1].queue is not a string"},
		{"queue", `{"operations":[{"type":"push","queue":0}]}`, "operations[0].queue is not a string"},
		{"partition", `{"operations":[{"type":"push","partition":{}}]}`, "operations[0].partition is not a string"},
		{"id of a push", `{"operations":[{"type":"push","transactionId":true}]}`, "operations[0].transactionId is not a string"},
		{"id of an ack", `{"operations":[{"type":"ack","transactionId":true}]}`, "operations[0].transactionId is not a string"},
		{"lease of an ack", `{"operations":[{"type":"ack","leaseId":1}]}`, "operations[0].leaseId is not a string"},
		{"first complaint stays", `{"operations":[{"type":"ack","leaseId":1},{"type":"push","items":[7]}]}`, "operations[0].leaseId is not a string"},
		{"syntax in an item", `{"operations":[{"type":"ack","items":[{"queue" 1}]}]}`, "unexpected '1' at byte 47"},
		{"leases", `{"operations":[],"requiredLeases":{}}`, "requiredLeases is not an array"},
		{"a lease", `{"requiredLeases":["a",1],"operations":[]}`, "requiredLeases has an element that is not a string"},
		{"operations before leases", `{"requiredLeases":1,"operations":1}`, "operations is not an array"},
		{"UTF-8", "{\"operations\":[{\"type\":\"push\",\"payload\":\"\xff\"}]}", "invalid UTF-8 at byte 41"},
	}
	var x Transaction
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			err := x.Decode([]byte(row.body))
			var e *Error
			if text(err) != row.want || !errors.As(err, &e) && !errors.Is(err, ErrOperationType) {
				t.Errorf("got %v want %s", err, row.want)
			}
		})
	}
}

func TestTransactionLimits(t *testing.T) {
	repeat := func(format, s string, n int) string {
		return fmt.Sprintf(format, strings.Repeat(s+",", n-1)+s)
	}
	const tooMany = "operations has more than 200000 elements"
	rows := []struct{ name, body, want string }{
		{"id", `{"operations":[{"type":"push","transactionId":"` + strings.Repeat("x", MaxTransactionID) + `"}]}`, ""},
		{"long id, D-26", `{"operations":[{"type":"push","transactionId":"` + strings.Repeat("x", MaxTransactionID+1) + `"}]}`, "transactionId exceeds 65535 bytes"},
		{"operations", repeat(`{"operations":[%s]}`, `{"type":"ack"}`, MaxItems), ""},
		{"too many operations", repeat(`{"operations":[%s]}`, `{"type":"ack"}`, MaxItems+1), tooMany},
		{"items", repeat(`{"operations":[{"type":"push","items":[%s]}]}`, `{}`, MaxItems), ""},
		{"too many items", repeat(`{"operations":[{"type":"push","items":[%s]}]}`, `{}`, MaxItems+1), tooMany},
		{"too many together", repeat(`{"operations":[{"type":"ack"},{"type":"push","items":[%s]}]}`, `{}`, MaxItems), tooMany},
		{"items of no push", repeat(`{"operations":[{"type":"ack","items":[%s]}]}`, `{}`, MaxItems+1), ""},
		{"leases", repeat(`{"operations":[],"requiredLeases":[%s]}`, `"l"`, MaxItems), ""},
		{"too many leases", repeat(`{"operations":[],"requiredLeases":[%s]}`, `"l"`, MaxItems+1), "requiredLeases has more than 200000 elements"},
	}
	var x Transaction
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if err := x.Decode([]byte(row.body)); text(err) != row.want {
				t.Errorf("got %v want %q", err, row.want)
			}
		})
	}
	x.Reset()
	if x.scan.body != nil || cap(x.Pushes) > maxKeptItems || cap(x.Acks) > maxKeptItems || cap(x.Order) > 2*maxKeptItems || cap(x.Leases) > maxKeptItems {
		t.Errorf("kept %d pushes, %d acks, %d leases", cap(x.Pushes), cap(x.Acks), cap(x.Leases))
	}
}

func TestTransactionResetForgets(t *testing.T) {
	var x Transaction
	if err := x.Decode([]byte(`{"operations":[{"type":"push","queue":"q"},{"type":"ack","status":"ok"}],"requiredLeases":["l"]}`)); err != nil {
		t.Fatal(err)
	}
	x.Reset()
	if x.Pushes[:1][0].Queue != nil || x.Acks[:1][0].Status != nil || x.Leases[:1][0] != nil || len(x.Order) > 0 {
		t.Error("the last body is still referenced")
	}
}

// referenceTransaction decodes a transaction with encoding/json.
func referenceTransaction(body []byte) (*Transaction, bool) {
	top, ok := referenceObject(body)
	if !ok || !utf8.Valid(body) {
		return nil, false
	}
	var raws, leases []json.RawMessage
	if json.Unmarshal(top["operations"], &raws) != nil || raws == nil {
		return nil, false
	}
	if raw := top["requiredLeases"]; raw != nil && json.Unmarshal(raw, &leases) != nil {
		return nil, false
	}
	x := &Transaction{}
	for _, raw := range leases {
		lease, ok := referenceString(raw)
		if !ok {
			return nil, false
		}
		if string(raw) != "null" && lease != "" {
			x.Leases = append(x.Leases, []byte(lease))
		}
	}
	for _, raw := range raws {
		if !x.addReference(raw) {
			return nil, false
		}
	}
	return x, true
}

func (t *Transaction) addReference(raw json.RawMessage) bool {
	op, ok := referenceObject(raw)
	if !ok {
		return false
	}
	var kind any
	if json.Unmarshal(op["type"], &kind) != nil {
		return false
	}
	if kind == "ack" {
		ack, ok := referenceAck(raw, true)
		t.Acks, t.Order = append(t.Acks, ack), append(t.Order, OperationAck)
		return ok
	}
	if kind != "push" {
		return false
	}
	var items []json.RawMessage
	if json.Unmarshal(op["items"], &items) != nil || items == nil {
		items = []json.RawMessage{raw}
	}
	for _, raw := range items {
		m, ok := referenceObject(raw)
		if !ok {
			return false
		}
		p := TransactionPush{PushItem: PushItem{Payload: []byte("{}")}}
		for name, to := range map[string]*[]byte{"queue": &p.Queue, "partition": &p.Partition, "transactionId": &p.TransactionID} {
			var s *string
			if m[name] != nil && json.Unmarshal(m[name], &s) != nil {
				return false
			}
			if s != nil {
				*to = append([]byte{}, *s...)
			}
		}
		if p.HasPartition = p.Partition != nil; len(p.TransactionID) > MaxTransactionID {
			return false
		}
		if len(p.TransactionID) == 0 {
			p.TransactionID = nil
		}
		for _, name := range []string{"data", "payload"} {
			if m[name] != nil {
				p.Payload = m[name]
			}
		}
		var trace string
		if m["traceId"] != nil && json.Unmarshal(m["traceId"], &trace) == nil {
			p.TraceID, _ = ParseUUID([]byte(trace))
		}
		t.Pushes, t.Order = append(t.Pushes, p), append(t.Order, OperationPush)
	}
	return true
}

func FuzzTransaction(f *testing.F) {
	f.Add([]byte(`{"operations":[{"type":"ack","transactionId":"t","partitionId":"p","consumerGroup":"g","status":"completed"},{"type":"push","items":[{"queue":"q","partition":"p","transactionId":"t","payload":{"a":1}}]}],"requiredLeases":["l"]}`))
	f.Add([]byte(`{"operations":[{"items":[{"queue":"q","data":[1.50]},{"traceId":"0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83"}],"type":"push"},{"type":"push","queue":"a\/b"}]}`))
	f.Add([]byte(` { "operations" : [ {"type":"kv"} ] , "operations" : [ {"type":"ack","items":[1]} ], "requiredLeases":null}`))
	f.Add([]byte(`{"operations":[{"type":"push","items":[7],"items":null,"payload":null,"data":1}]}`))
	var x Transaction
	f.Fuzz(func(t *testing.T, body []byte) {
		want, ok := referenceTransaction(body)
		err := x.Decode(body)
		if (err == nil) != ok {
			t.Fatalf("got %v, encoding/json accepts: %t", err, ok)
		}
		if err == nil && showTransaction(&x) != showTransaction(want) {
			t.Fatalf("got  %s\nwant %s", showTransaction(&x), showTransaction(want))
		}
	})
}
