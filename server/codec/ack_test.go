package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"unicode/utf8"
)

// showAck writes an Ack on one line: transaction, partition, group, lease, status, error.
func showAck(a Ack) string {
	if a.HasStatus != (a.Status != nil) {
		panic("HasStatus and Status disagree")
	}
	return fmt.Sprintf("%q", []string{show(a.TransactionID), show(a.PartitionID), show(a.ConsumerGroup), show(a.LeaseID), show(a.Status), show(a.Error)})
}

func TestDecodeAck(t *testing.T) {
	rows := []struct{ name, body, want string }{
		{"all", `{"transactionId":"t","partitionId":"p","consumerGroup":"g","leaseId":"l","status":"completed","error":"e"}`, `["t" "p" "g" "l" "completed" "e"]`},
		{"nothing", `{}`, `["-" "-" "-" "-" "-" "-"]`},
		{"nulls are absent, M-301", `{"transactionId":null,"partitionId":null,"consumerGroup":null,"leaseId":null,"status":null,"error":null}`, `["-" "-" "-" "-" "-" "-"]`},
		{"blank is not absent, M-302", `{"status":"","leaseId":""}`, `["-" "-" "-" "" "" "-"]`},
		{"unknown status, M-303", `{"status":"Completed"}`, `["-" "-" "-" "-" "Completed" "-"]`},
		{"escapes", `{"transactionId":"a\/b","st\u0061tus":"\u00f6k"}`, `["a/b" "-" "-" "-" "ök" "-"]`},
		{"unknown keys, M-002", `{"x":[{"status":5}],"status":"ok"}`, `["-" "-" "-" "-" "ok" "-"]`},
		{"last key wins", `{"status":5,"status":"ok","status":null,"status":"dlq"}`, `["-" "-" "-" "-" "dlq" "-"]`},
		{"last null wins", `{"status":"dlq","status":null}`, `["-" "-" "-" "-" "-" "-"]`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			ack, err := DecodeAck([]byte(row.body))
			if got := showAck(ack); err != nil || got != row.want {
				t.Errorf("got %s, %v want %s", got, err, row.want)
			}
		})
	}
}

func TestDecodeAckRefuses(t *testing.T) {
	rows := []struct{ name, body, want string }{
		{"empty", ``, "unexpected end at byte 0"},
		{"array", `[]`, "the body is not an object"},
		{"garbage behind", `{},`, "unexpected ',' at byte 2"},
		{"transactionId", `{"transactionId":1}`, "transactionId is not a string"},
		{"partitionId", `{"partitionId":{}}`, "partitionId is not a string"},
		{"consumerGroup", `{"consumerGroup":[]}`, "consumerGroup is not a string"},
		{"leaseId", `{"leaseId":true}`, "leaseId is not a string"},
		{"status", `{"status":0}`, "status is not a string"},
		{"error", `{"error":false}`, "error is not a string"},
		{"syntax before type", `{"error":false`, "unexpected end at byte 14"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			ack, err := DecodeAck([]byte(row.body))
			var e *Error
			if !errors.As(err, &e) || err.Error() != row.want || showAck(ack) != showAck(Ack{}) {
				t.Errorf("got %s, %v want %s", showAck(ack), err, row.want)
			}
		})
	}
}

func TestAckBatch(t *testing.T) {
	rows := []struct{ name, body, want, err string }{
		{"none", `{"acknowledgments":[]}`, `-[]`, ""},
		{"two", `{"consumerGroup":"g","acknowledgments":[{"transactionId":"a","status":"ok"},{"transactionId":"b\n","leaseId":"l"}]}`,
			`g[["a" "-" "-" "-" "ok" "-"] ["b\n" "-" "-" "l" "-" "-"]]`, ""},
		{"group behind", `{"acknowledgments":[{}],"consumerGroup":"g"}`, `g[["-" "-" "-" "-" "-" "-"]]`, ""},
		{"group of an item is ignored, M-300", `{"acknowledgments":[{"consumerGroup":"x"},{"consumerGroup":5}]}`, `-[["-" "-" "-" "-" "-" "-"] ["-" "-" "-" "-" "-" "-"]]`, ""},
		{"null group", `{"consumerGroup":null,"acknowledgments":[]}`, `-[]`, ""},
		{"blank group", `{"consumerGroup":"","acknowledgments":[]}`, `[]`, ""},
		{"last array wins", `{"acknowledgments":[{"status":1}],"acknowledgments":[{}]}`, `-[["-" "-" "-" "-" "-" "-"]]`, ""},
		{"other spelling", `{"acknowledgements":[]}`, "", "acknowledgments is missing"},
		{"null", `{"acknowledgments":null}`, "", "acknowledgments is not an array"},
		{"mistyped group", `{"consumerGroup":1,"acknowledgments":[]}`, "", "consumerGroup is not a string"},
		{"mistyped item", `{"acknowledgments":[{},"x"]}`, "", "acknowledgments[1] is not an object"},
		{"mistyped field", `{"acknowledgments":[{},{"error":{}}]}`, "", "acknowledgments[1].error is not a string"},
		{"first complaint stays", `{"acknowledgments":[{"status":1},{"error":{}}]}`, "", "acknowledgments[0].status is not a string"},
		{"syntax before type", `{"acknowledgments":[{"error":{}}]`, "", "unexpected end at byte 33"},
		{"syntax in an item", `{"acknowledgments":[{"error" {}}]}`, "", "unexpected '{' at byte 29"},
		{"number", `7`, "", "the body is not an object"},
	}
	var a AckBatch
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if err := a.Decode([]byte(row.body)); text(err) != row.err {
				t.Fatalf("got %v want %q", err, row.err)
			} else if err != nil {
				return
			}
			if got := showBatch(&a); got != row.want {
				t.Errorf("got %s want %s", got, row.want)
			}
		})
	}
}

func showBatch(a *AckBatch) string {
	acks := []string{}
	for _, ack := range a.Items {
		acks = append(acks, showAck(ack))
	}
	return fmt.Sprint(show(a.ConsumerGroup), acks)
}

func TestAckBatchResetForgets(t *testing.T) {
	var a AckBatch
	if err := a.Decode([]byte(`{"consumerGroup":"g","acknowledgments":[{"status":"ok"}]}`)); err != nil {
		t.Fatal(err)
	}
	a.Reset()
	if a.scan.body != nil || a.ConsumerGroup != nil || a.Items[:1][0].Status != nil {
		t.Error("the last body is still referenced")
	}
}

// referenceAck decodes one acknowledgement with encoding/json.
func referenceAck(raw []byte, withGroup bool) (Ack, bool) {
	members, ok := referenceObject(raw)
	if !ok {
		return Ack{}, false
	}
	var a Ack
	for name, to := range map[string]*[]byte{
		"transactionId": &a.TransactionID, "partitionId": &a.PartitionID, "consumerGroup": &a.ConsumerGroup,
		"leaseId": &a.LeaseID, "status": &a.Status, "error": &a.Error,
	} {
		if name == "consumerGroup" && !withGroup {
			continue
		}
		var s *string
		if raw := members[name]; raw != nil && json.Unmarshal(raw, &s) != nil {
			return Ack{}, false
		}
		if s != nil {
			*to = append([]byte{}, *s...)
		}
	}
	a.HasStatus = a.Status != nil
	return a, true
}

func FuzzAck(f *testing.F) {
	f.Add([]byte(`{"transactionId":"t","partitionId":"p\u0000","consumerGroup":"g","leaseId":null,"status":"","error":"e"}`))
	f.Add([]byte(`{"consumerGroup":"g","acknowledgments":[{"transactionId":"a","status":"ok"},{"consumerGroup":5,"x":[]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		want, ok := referenceAck(body, true)
		ok = ok && utf8.Valid(body)
		got, err := DecodeAck(body)
		if (err == nil) != ok || ok && showAck(got) != showAck(want) {
			t.Fatalf("got %s, %v want %s, %t", showAck(got), err, showAck(want), ok)
		}

		var a AckBatch
		wantBatch, ok := referenceBatch(body)
		ok = ok && utf8.Valid(body)
		err = a.Decode(body)
		if (err == nil) != ok || ok && showBatch(&a) != showBatch(wantBatch) {
			t.Fatalf("got %s, %v want %t", showBatch(&a), err, ok)
		}
	})
}

// referenceBatch decodes a batch with encoding/json.
func referenceBatch(body []byte) (*AckBatch, bool) {
	top, ok := referenceObject(body)
	if !ok {
		return nil, false
	}
	var raws []json.RawMessage
	if json.Unmarshal(top["acknowledgments"], &raws) != nil || raws == nil {
		return nil, false
	}
	var a AckBatch
	var group *string
	if raw := top["consumerGroup"]; raw != nil && json.Unmarshal(raw, &group) != nil {
		return nil, false
	}
	if group != nil {
		a.ConsumerGroup = append([]byte{}, *group...)
	}
	for _, raw := range raws {
		ack, ok := referenceAck(raw, false)
		if !ok {
			return nil, false
		}
		a.Items = append(a.Items, ack)
	}
	return &a, true
}
