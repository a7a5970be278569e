package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// item is a PushItem as text. "-" is nil.
type item struct{ queue, partition, id, payload string }

func itemsOf(p *Push) []item {
	out := []item{}
	for _, i := range p.Items {
		if i.HasPartition != (i.Partition != nil) {
			panic("HasPartition and Partition disagree")
		}
		out = append(out, item{show(i.Queue), show(i.Partition), show(i.TransactionID), show(i.Payload)})
	}
	return out
}

func show(b []byte) string {
	if b == nil {
		return "-"
	}
	return string(b)
}

func TestPushDecode(t *testing.T) {
	rows := []struct {
		name, body string
		want       []item
	}{
		{"no items, M-104", `{"items":[]}`, nil},
		{"least", `{"items":[{"queue":"q","payload":1}]}`, []item{{"q", "-", "-", "1"}}},
		{"all fields", `{"items":[{"queue":"q","partition":"p","transactionId":"t","payload":{"a":[1]}}]}`, []item{{"q", "p", "t", `{"a":[1]}`}}},
		{"several queues, M-105", `{"items":[{"queue":"a","payload":1},{"queue":"b","payload":2}]}`, []item{{"a", "-", "-", "1"}, {"b", "-", "-", "2"}}},
		{"white space everywhere", " {\n\"items\" :\t[ { \"queue\" : \"q\" , \"payload\" : { \"a\" : 1 } } , {\"payload\":2\r\n,\"queue\":\"r\"} ] } \n",
			[]item{{"q", "-", "-", `{ "a" : 1 }`}, {"r", "-", "-", "2"}}},
		{"null payload, M-106", `{"items":[{"queue":"q","payload":null}]}`, []item{{"q", "-", "-", "null"}}},
		{"payload as sent, D-30", `{"items":[{"queue":"q","payload": [1.0, 1e5 ,"\u00e9\/"] }]}`, []item{{"q", "-", "-", `[1.0, 1e5 ,"\u00e9\/"]`}}},
		{"big number kept", `{"items":[{"queue":"q","payload":123456789012345678901234567890.10e-400}]}`, []item{{"q", "-", "-", "123456789012345678901234567890.10e-400"}}},
		{"lone surrogate in a payload is kept", `{"items":[{"queue":"q","payload":"\ud800"}]}`, []item{{"q", "-", "-", `"\ud800"`}}},
		{"lone surrogate in a name", `{"items":[{"queue":"a\ud800b","payload":1}]}`, []item{{"a\ufffdb", "-", "-", "1"}}},
		{"null partition", `{"items":[{"queue":"q","partition":null,"payload":1}]}`, []item{{"q", "-", "-", "1"}}},
		{"empty partition, M-107", `{"items":[{"queue":"q","partition":"","payload":1}]}`, []item{{"q", "", "-", "1"}}},
		{"null transaction id", `{"items":[{"queue":"q","transactionId":null,"payload":1}]}`, []item{{"q", "-", "-", "1"}}},
		{"empty transaction id, D-07", `{"items":[{"queue":"q","transactionId":"","payload":1}]}`, []item{{"q", "-", "-", "1"}}},
		{"empty queue", `{"items":[{"queue":"","payload":1}]}`, []item{{"", "-", "-", "1"}}},
		{"escapes in names", `{"items":[{"queue":"a\/b\u0026\"\\","partition":"\ud83d\ude00\n","transactionId":"\b\f\r\t","payload":1}]}`,
			[]item{{`a/b&"\`, "\U0001f600\n", "\b\f\r\t", "1"}}},
		{"names beyond ASCII", `{"items":[{"queue":"Größe","partition":"順序😀","payload":"ключ"}]}`, []item{{"Größe", "順序😀", "-", `"ключ"`}}},
		{"escaped keys", `{"\u0069tems":[{"que\u0075e":"q","p\u0061yload":1}]}`, []item{{"q", "-", "-", "1"}}},
		{"keys are case-sensitive", `{"Items":5,"items":[{"Queue":5,"queue":"q","payload":1}]}`, []item{{"q", "-", "-", "1"}}},
		{"unknown keys, M-002", `{"x":{"items":[{}]},"items":[{"queue":"q","y":[{"queue":1}],"payload":1}],"z":null}`, []item{{"q", "-", "-", "1"}}},
		{"traceId and producerSub, M-102, M-103", `{"items":[{"queue":"q","traceId":5,"producerSub":{},"payload":1}]}`, []item{{"q", "-", "-", "1"}}},
		{"last key wins", `{"items":[{"queue":"a","queue":"b","payload":1,"payload":2,"partition":"x","partition":null}]}`, []item{{"b", "-", "-", "2"}}},
		{"last key wins over a mistyped one", `{"items":[{"queue":5,"queue":"b","payload":1}]}`, []item{{"b", "-", "-", "1"}}},
		{"last items wins", `{"items":[{"queue":"a","payload":1}],"items":[{"queue":"b","payload":2}]}`, []item{{"b", "-", "-", "2"}}},
		{"last items wins over a wrong one", `{"items":[{"queue":5}],"items":[]}`, nil},
	}
	var p Push
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if err := p.Decode([]byte(row.body)); err != nil {
				t.Fatal(err)
			}
			if got := itemsOf(&p); fmt.Sprint(got) != fmt.Sprint(row.want) {
				t.Errorf("got %q want %q", got, row.want)
			}
		})
	}
}

func TestPushDecodeRefuses(t *testing.T) {
	push := func(members string) string { return `{"items":[{"queue":"q","payload":1},{` + members + `}]}` }
	rows := []struct{ name, body, want string }{
		{"empty body", ``, "unexpected end at byte 0"},
		{"only white space", " \n", "unexpected end at byte 2"},
		{"not JSON", `x`, "unexpected 'x' at byte 0"},
		{"mark", "\ufeff{}", "unexpected 0xef at byte 0"},
		{"cut", `{"items":[{"queue":"q","payl`, "unexpected end at byte 28"},
		{"cut before a value", `{"items":`, "unexpected end at byte 9"},
		{"cut before a colon", `{"items"`, "unexpected end at byte 8"},
		{"cut before a member", `{"items":[],`, "unexpected end at byte 12"},
		{"cut behind a brace", `{`, "unexpected end at byte 1"},
		{"trailing garbage", `{"items":[]}x`, "unexpected 'x' at byte 12"},
		{"two bodies", `{"items":[]} {"items":[]}`, "unexpected '{' at byte 13"},
		{"trailing comma in items", `{"items":[{"queue":"q","payload":1},]}`, "unexpected ']' at byte 36"},
		{"trailing comma in an item", `{"items":[{"queue":"q","payload":1,}]}`, "unexpected '}' at byte 35"},
		{"colon missing", `{"items" []}`, "unexpected '[' at byte 9"},
		{"wrong closer", `{"items":[}}`, "unexpected '}' at byte 10"},
		{"array", `[]`, "the body is not an object"},
		{"null", `null`, "the body is not an object"},
		{"syntax before type", `[1,]`, "unexpected ']' at byte 3"},
		{"items missing, M-100", `{}`, "items is missing"},
		{"items null", `{"items":null}`, "items is not an array"},
		{"items object", `{"items":{"queue":"q"}}`, "items is not an array"},
		{"item not an object", `{"items":[{"queue":"q","payload":1},null]}`, "items[1] is not an object"},
		{"queue missing, M-100", push(`"payload":1`), "items[1].queue is missing"},
		{"empty item", push(``), "items[1].queue is missing"},
		{"queue null", push(`"queue":null,"payload":1`), "items[1].queue is not a string"},
		{"queue number", push(`"queue":7,"payload":1`), "items[1].queue is not a string"},
		{"payload missing, M-100", push(`"queue":"q"`), "items[1].payload is missing"},
		{"data is no alias, M-101", push(`"queue":"q","data":1`), "items[1].payload is missing"},
		{"partition number, M-100", push(`"queue":"q","payload":1,"partition":1`), "items[1].partition is not a string"},
		{"partition object", push(`"queue":"q","payload":1,"partition":{}`), "items[1].partition is not a string"},
		{"transaction id bool, M-100", push(`"queue":"q","payload":1,"transactionId":true`), "items[1].transactionId is not a string"},
		{"first complaint stays", `{"items":[{"queue":"q"},{"payload":1}]}`, "items[0].payload is missing"},
		{"syntax after a complaint", `{"items":[{"queue":"q"},{"payload":01}]}`, "unexpected '1' at byte 36"},
		{"mistyped duplicate wins", push(`"queue":"q","queue":null,"payload":1`), "items[1].queue is not a string"},
		{"invalid value of an unknown key", `{"items":[],"x":tru}`, "unexpected '}' at byte 19"},
		{"invalid value of an unknown key in an item", push(`"queue":"q","payload":1,"x":[1 2]`), "unexpected '2' at byte 68"},
		{"invalid escape in an unknown key", `{"items":[],"\x":1}`, "unexpected 'x' in an escape at byte 14"},
		{"invalid UTF-8 in a payload, D-30", push("\"queue\":\"q\",\"payload\":\"a\xff\""), "invalid UTF-8 at byte 61"},
		{"invalid UTF-8 in a name", push("\"queue\":\"\xc3\",\"payload\":1"), "invalid UTF-8 at byte 46"},
		{"invalid UTF-8 in an unknown key", "{\"items\":[],\"\x80\":1}", "invalid UTF-8 at byte 13"},
	}
	var p Push
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			err := p.Decode([]byte(row.body))
			var e *Error
			if !errors.As(err, &e) || err.Error() != row.want {
				t.Errorf("got %v want %s", err, row.want)
			}
		})
	}
}

func TestPushTransactionIDLimit(t *testing.T) {
	for _, row := range []struct {
		name, id string
		want     string
	}{
		{"at the limit", strings.Repeat("x", MaxTransactionID), ""},
		{"above, D-26", strings.Repeat("x", MaxTransactionID+1), "transactionId exceeds 65535 bytes"},
		{"escapes count resolved", strings.Repeat("x", MaxTransactionID-1) + `\u0041`, ""},
		{"escapes count resolved, above", strings.Repeat("x", MaxTransactionID-1) + `\u00e4`, "transactionId exceeds 65535 bytes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var p Push
			err := p.Decode([]byte(`{"items":[{"queue":"q","payload":1,"transactionId":"` + row.id + `"}]}`))
			if got := fmt.Sprint(err); (err != nil || row.want != "") && got != row.want {
				t.Errorf("got %s want %s", got, row.want)
			}
		})
	}
}

// TestPushBorrows checks whose memory the fields are: parts of the body, with no room
// behind them, and scratch memory that stays good while it grows.
func TestPushBorrows(t *testing.T) {
	body := []byte(`{"items":[{"queue":"q1","payload":[1],"partition":"p"}]}`)
	var p Push
	if err := p.Decode(body); err != nil {
		t.Fatal(err)
	}
	first := p.Items[0]
	for _, b := range [][]byte{first.Queue, first.Partition, first.Payload} {
		if cap(b) != len(b) {
			t.Errorf("%q: got capacity %d want %d", b, cap(b), len(b))
		}
	}
	if &first.Queue[0] != &body[bytes.Index(body, []byte("q1"))] {
		t.Error("queue was copied")
	}

	var items []string
	for i := range 500 {
		items = append(items, fmt.Sprintf(`{"queue":"a\/%d","transactionId":"t\n%d","payload":1}`, i, i))
	}
	if err := p.Decode([]byte(`{"items":[` + strings.Join(items, ",") + `]}`)); err != nil {
		t.Fatal(err)
	}
	for i, item := range p.Items {
		if got, want := string(item.Queue)+string(item.TransactionID), fmt.Sprintf("a/%dt\n%d", i, i); got != want {
			t.Fatalf("got %q want %q", got, want)
		}
	}
}

// TestPushResetForgets checks that a pooled Push keeps no body alive and no unusual
// amount of memory.
func TestPushResetForgets(t *testing.T) {
	var p Push
	body := `{"items":[` + strings.Repeat(`{"queue":"q\n","payload":1},`, maxKeptItems) + `{"queue":"` + strings.Repeat(`\n`, maxKeptScratch+1) + `","payload":1}]}`
	if err := p.Decode([]byte(body)); err != nil {
		t.Fatal(err)
	}
	p.Reset()
	if p.scan.body != nil || cap(p.Items) > maxKeptItems || cap(p.scan.scratch) > maxKeptScratch {
		t.Errorf("kept body %t, %d items, %d bytes", p.scan.body != nil, cap(p.Items), cap(p.scan.scratch))
	}
	if err := p.Decode([]byte(`{"items":[{"queue":"q","payload":1}]}`)); err != nil || len(p.Items) != 1 {
		t.Fatal(err)
	}
	p.Reset()
	if kept := p.Items[:1][0]; kept.Queue != nil || kept.Payload != nil {
		t.Error("the last body is still referenced")
	}
}

// referencePush decodes a push with encoding/json.
func referencePush(body []byte) (items []item, ok bool) {
	top, ok := referenceObject(body)
	if !ok || !utf8.Valid(body) {
		return nil, false
	}
	var raws []json.RawMessage
	if json.Unmarshal(top["items"], &raws) != nil || raws == nil {
		return nil, false
	}
	for _, raw := range raws {
		members, ok := referenceObject(raw)
		if !ok {
			return nil, false
		}
		i := item{payload: "-"}
		if i.queue, ok = referenceString(members["queue"]); !ok || i.queue == "-" {
			return nil, false
		}
		if i.partition, ok = referenceString(members["partition"]); !ok {
			return nil, false
		}
		if i.id, ok = referenceString(members["transactionId"]); !ok || len(i.id) > MaxTransactionID {
			return nil, false
		}
		if i.id == "" {
			i.id = "-"
		}
		if members["payload"] == nil {
			return nil, false
		}
		i.payload = string(members["payload"])
		items = append(items, i)
	}
	return items, true
}

func referenceObject(raw []byte) (members map[string]json.RawMessage, ok bool) {
	err := json.Unmarshal(raw, &members)
	return members, err == nil && members != nil
}

// referenceString gives "-" for a string that is absent or null.
func referenceString(raw json.RawMessage) (string, bool) {
	if raw == nil || string(raw) == "null" {
		return "-", true
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

func FuzzPush(f *testing.F) {
	f.Add([]byte(`{"items":[{"queue":"q","partition":"p","transactionId":"t","payload":{"a":[1,2.5e3,true,null,"\u00e9\ud83d\ude00"]}}]}`))
	f.Add([]byte(` { "items" : [ {"payload" : "` + "\xf0\x9f\x98\x80 \xff" + `" , "queue" : "a\/b" , "partition" : null } ] , "x" : {} } `))
	f.Add([]byte(`{"items":[{"queue":"q","queue":null,"payload":-0.0e-0,"payload":[]}],"items":[]}`))
	f.Add(pushBody(3))
	var p Push
	f.Fuzz(func(t *testing.T, body []byte) {
		want, ok := referencePush(body)
		err := p.Decode(body)
		if (err == nil) != ok {
			t.Fatalf("got %v, encoding/json accepts: %t", err, ok)
		}
		if err == nil && fmt.Sprintf("%q", itemsOf(&p)) != fmt.Sprintf("%q", append([]item{}, want...)) {
			t.Fatalf("got %q want %q", itemsOf(&p), want)
		}
	})
}

// The number of elements is bounded: a few bytes of body take hundreds decoded.
func TestMaxItems(t *testing.T) {
	build := func(key, item string, n int) []byte {
		return []byte(`{"` + key + `":[` + strings.Repeat(item+",", n-1) + item + `]}`)
	}
	var p Push
	var a AckBatch
	for _, n := range []int{MaxItems, MaxItems + 1} {
		errs := map[string]error{
			"items":           p.Decode(build("items", `{"queue":"q","payload":0}`, n)),
			"acknowledgments": a.Decode(build("acknowledgments", `{}`, n)),
		}
		for key, err := range errs {
			if (err != nil) != (n > MaxItems) || (err != nil && !strings.Contains(err.Error(), key+" has more than 200000")) {
				t.Errorf("%d %s: %v", n, key, err)
			}
		}
	}
}
