package codec

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestDecodeSeek(t *testing.T) {
	for _, row := range []struct {
		body string
		want Seek
		err  string
	}{
		{``, Seek{Empty: true}, ""},
		{" \n", Seek{Empty: true}, ""},
		{`{}`, Seek{Empty: true}, ""},
		{` { } `, Seek{Empty: true}, ""},
		{`{"position":"end"}`, Seek{}, ""},
		{`{"toEnd":true}`, Seek{ToEnd: true}, ""},
		{`{"toEnd":false}`, Seek{}, ""},
		{`{"toEnd":null,"timestamp":null}`, Seek{}, ""},
		{`{"timestamp":"2026-07-30T08:00:00Z"}`, Seek{Timestamp: "2026-07-30T08:00:00Z"}, ""},
		{`{"toEnd":true,"timestamp":"x\u0079"}`, Seek{ToEnd: true, Timestamp: "xy"}, ""},
		{`{"toEnd":5,"toEnd":true}`, Seek{ToEnd: true}, ""},
		{`{"ToEnd":true}`, Seek{}, ""},
		{`{"toEnd":"true"}`, Seek{}, "toEnd is not true or false"},
		{`{"toEnd":1}`, Seek{}, "toEnd is not true or false"},
		{`{"timestamp":1}`, Seek{}, "timestamp is not a string"},
		{`[]`, Seek{}, "the body is not an object"},
		{`{"toEnd":true`, Seek{}, "unexpected end at byte 13"},
		{`{}x`, Seek{}, "unexpected 'x' at byte 2"},
	} {
		got, err := DecodeSeek([]byte(row.body))
		if got != row.want || text(err) != row.err {
			t.Errorf("%s: got %+v, %v want %+v, %q", row.body, got, err, row.want, row.err)
		}
	}
}

func TestDecodeSubscription(t *testing.T) {
	for _, row := range []struct{ body, want, err string }{
		{``, "", ""},
		{`{}`, "", ""},
		{`{"subscriptionTimestamp":null}`, "", ""},
		{`{"subscriptionTimestamp":7}`, "", ""},
		{`{"subscriptionTimestamp":""}`, "", ""},
		{`{"subscriptionTimestamp":"now"}`, "now", ""},
		{`{"subscriptionTimestamp":1,"subscriptionTimestamp":"2026-07-30"}`, "2026-07-30", ""},
		{`"now"`, "", "the body is not an object"},
		{`{`, "", "unexpected end at byte 1"},
	} {
		got, err := DecodeSubscription([]byte(row.body))
		if got != row.want || text(err) != row.err {
			t.Errorf("%s: got %q, %v want %q, %q", row.body, got, err, row.want, row.err)
		}
	}
}

func FuzzSeek(f *testing.F) {
	f.Add([]byte(`{"toEnd":true,"timestamp":"2026-07-30T08:00:00Z"}`))
	f.Add([]byte(`{"subscriptionTimestamp":"2026-07-30"}`))
	f.Add([]byte(` {} `))
	f.Fuzz(func(t *testing.T, body []byte) {
		valid := Valid(body) == nil || len(bytes.Trim(body, " \t\r\n")) == 0
		seek, err := DecodeSeek(body)
		if err == nil && !valid {
			t.Fatal("accepted what is not JSON")
		}
		var members map[string]json.RawMessage
		if err == nil && json.Unmarshal(body, &members) == nil && seek.Empty != (len(members) == 0) {
			t.Fatalf("got %+v for %d members", seek, len(members))
		}
		if seek.ToEnd && string(members["toEnd"]) != "true" {
			t.Fatalf("to the end by %s", members["toEnd"])
		}
		if _, err := DecodeSubscription(body); err == nil && !valid {
			t.Fatal("accepted what is not JSON")
		}
	})
}
