package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func texts(list ...string) (b [][]byte) {
	for _, s := range list {
		b = append(b, []byte(s))
	}
	return b
}

func TestDecodeTrace(t *testing.T) {
	for _, row := range []struct {
		body string
		want Trace
		err  string
	}{
		{`{}`, Trace{}, ""},
		{`{"transactionId":"t","partitionId":"p","consumerGroup":"g","eventType":"e","data":{"a": 1} ,"traceNames":["a","b"],"workerId":"w"}`,
			Trace{[]byte("t"), []byte("p"), []byte("g"), []byte("e"), []byte(`{"a": 1}`), texts("a", "b")}, ""},
		{`{"transactionId":7,"partitionId":null,"consumerGroup":[],"eventType":{},"data":null,"traceNames":null}`, Trace{Data: []byte("null")}, ""},
		{`{"data":1,"data":"x"}`, Trace{Data: []byte(`"x"`)}, ""},
		{`{"transactionId":"\u0061"}`, Trace{TransactionID: []byte("a")}, ""},
		{`{"traceNames":"one"}`, Trace{Names: texts("one")}, ""},
		{`{"traceNames":""}`, Trace{}, ""},
		{`{"traceNames":7}`, Trace{}, ""},
		{`{"traceNames":{"a":"b"}}`, Trace{}, ""},
		{`{"traceNames":[]}`, Trace{}, ""},
		{`{"traceNames":[1,"a",null,["x","y"],"a",{"b":"c"},"\u0061","", "b" ]}`, Trace{Names: texts("a", "b")}, ""},
		{`{"traceNames":["old"],"traceNames":["new"]}`, Trace{Names: texts("new")}, ""},
		{`{"traceNames":["a",]}`, Trace{}, "unexpected ']' at byte 19"},
		{`{"traceNames":["a"`, Trace{}, "unexpected end at byte 18"},
		{`{"data":}`, Trace{}, "unexpected '}' at byte 8"},
		{`[]`, Trace{}, "the body is not an object"},
		{``, Trace{}, "the body is not an object"},
	} {
		got, err := DecodeTrace([]byte(row.body))
		if !reflect.DeepEqual(got, row.want) || text(err) != row.err && row.body != "" {
			t.Errorf("%s: got %q, %v want %q, %q", row.body, got, err, row.want, row.err)
		}
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("%q", fmt.Sprint(i)))
	}
	for n, want := range map[int]int{64: 64, 65: 65, 1000: 65} {
		got, err := DecodeTrace([]byte(`{"traceNames":[` + strings.Join(many[:n], ",") + `]}`))
		if err != nil || len(got.Names) != want {
			t.Errorf("%d names: %d, %v", n, len(got.Names), err)
		}
	}
}

func TestDecodeNotify(t *testing.T) {
	for _, row := range []struct{ body, want, err string }{
		{`{"queue":"q","partition":"p"}`, "q", ""},
		{`{"queue":7}`, "", ""},
		{`{}`, "", ""},
		{`"q"`, "", "the body is not an object"},
	} {
		if got, err := DecodeNotify([]byte(row.body)); got != row.want || text(err) != row.err {
			t.Errorf("%s: got %q, %v want %q, %q", row.body, got, err, row.want, row.err)
		}
	}
}

// FuzzTrace compares with encoding/json what is read of a trace.
func FuzzTrace(f *testing.F) {
	f.Add([]byte(`{"transactionId":"t","partitionId":"p","consumerGroup":"g","eventType":"e","data":{"a":1},"traceNames":["a","b"]}`))
	f.Add([]byte(`{"transactionId":1,"traceNames":"a","data":null,"data":[ 1 ]}`))
	f.Add([]byte(`{"traceNames":["a",["b"],"a",{"c":"d"},7]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		members, ok := referenceObject(body)
		ok = ok && utf8.Valid(body)
		got, err := DecodeTrace(body)
		if (err == nil) != ok {
			t.Fatalf("%v, encoding/json says %t", err, ok)
		}
		if !ok {
			return
		}
		if !bytes.Equal(got.Data, members["data"]) {
			t.Fatalf("data %q, want %q", got.Data, members["data"])
		}
		var names []json.RawMessage
		if json.Unmarshal(members["traceNames"], &names) != nil {
			names = []json.RawMessage{members["traceNames"]}
		}
		var want []string
		for _, raw := range names {
			var name *string
			if json.Unmarshal(raw, &name) == nil && name != nil && *name != "" && !slices.Contains(want, *name) && len(want) <= MaxTraceNames {
				want = append(want, *name)
			}
		}
		if !reflect.DeepEqual(got.Names, texts(want...)) {
			t.Fatalf("names %q, want %q", got.Names, want)
		}
	})
}
