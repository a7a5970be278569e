package codec

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestDecodeConfigure(t *testing.T) {
	set := func(n int64) OptInt { return OptInt{Value: n, Set: true} }
	str := func(s string) OptString { return OptString{Value: s, Set: true} }
	rows := []struct {
		name, body string
		want       Configure
	}{
		{"queue alone", `{"queue":"q"}`, Configure{Queue: "q"}},
		{"empty queue, M-500", `{"queue":""}`, Configure{}},
		{"escapes", `{"queue":"a\/b","options":{"t\u0061sk":"x\n"}}`, Configure{Queue: "a/b", Options: Options{Task: str("x\n")}}},
		{"under options, M-501", `{"queue":"q","options":{"leaseTime":120,"deadLetterQueue":false}}`,
			Configure{Queue: "q", Options: Options{LeaseTime: set(120), DeadLetterQueue: OptBool{Set: true}}}},
		{"at the top, M-501", `{"queue":"q","leaseTime":120,"encryptionEnabled":true}`,
			Configure{Queue: "q", Options: Options{LeaseTime: set(120), EncryptionEnabled: OptBool{Value: true, Set: true}}}},
		{"options win over the top", `{"leaseTime":1,"retryLimit":9,"queue":"q","options":{"leaseTime":2}}`, Configure{Queue: "q", Options: Options{LeaseTime: set(2)}}},
		{"null options are none", `{"queue":"q","leaseTime":1,"options":null}`, Configure{Queue: "q", Options: Options{LeaseTime: set(1)}}},
		{"last options win", `{"queue":"q","options":{"ttl":1},"options":{"maxSize":2}}`, Configure{Queue: "q", Options: Options{MaxSize: set(2)}}},
		{"last of an option wins", `{"queue":"q","options":{"ttl":"x","ttl":1}}`, Configure{Queue: "q", Options: Options{TTL: set(1)}}},
		{"labels at the top, M-501", `{"queue":"q","namespace":"n","task":"t","options":{}}`, Configure{Queue: "q", Options: Options{Namespace: str("n"), Task: str("t")}}},
		{"null labels at the top are absent, M-805", `{"queue":"q","namespace":null,"task":null,"options":{"task":"t"}}`, Configure{Queue: "q", Options: Options{Task: str("t")}}},
		{"empty labels at the top are absent", `{"queue":"q","namespace":"","options":{"namespace":"n"}}`, Configure{Queue: "q", Options: Options{Namespace: str("n")}}},
		{"labels without options", `{"queue":"q","namespace":"n","task":""}`, Configure{Queue: "q", Options: Options{Namespace: str("n")}}},
		{"label of options wins", `{"queue":"q","namespace":"top","options":{"namespace":"in"}}`, Configure{Queue: "q", Options: Options{Namespace: str("in")}}},
		{"empty label of options wins", `{"queue":"q","namespace":"top","options":{"namespace":""}}`, Configure{Queue: "q", Options: Options{Namespace: str("")}}},
		{"null label of options does not", `{"queue":"q","namespace":"top","options":{"namespace":null}}`, Configure{Queue: "q", Options: Options{Namespace: str("top")}}},
		{"nulls, M-502", `{"queue":"q","options":{"leaseTime":null,"retentionEnabled":null,"task":null}}`,
			Configure{Queue: "q", Options: Options{LeaseTime: OptInt{Null: true}, RetentionEnabled: OptBool{Null: true}, Task: OptString{Null: true}}}},
		{"unknown keys, M-002", `{"queue":"q","x":{"queue":1},"options":{"y":[1],"Ttl":"z"}}`, Configure{Queue: "q"}},
		{"replace, M-503", `{"queue":"q","mode":"replace"}`, Configure{Queue: "q", Mode: ModeReplace}},
		{"merge, M-503", `{"queue":"q","mode":"m\u0065rge"}`, Configure{Queue: "q", Mode: ModeMerge}},
		{"null mode", `{"queue":"q","mode":null}`, Configure{Queue: "q"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got, err := DecodeConfigure([]byte(row.body)); err != nil || got != row.want {
				t.Errorf("got %+v, %v want %+v", got, err, row.want)
			}
		})
	}
}

// TestDecodeConfigureReadsEveryOption sends each key by itself and checks that it ends
// in the field of that name, and in no other.
func TestDecodeConfigureReadsEveryOption(t *testing.T) {
	if n := reflect.TypeFor[Options]().NumField(); n != len(optionNames) {
		t.Fatalf("got %d fields want %d", n, len(optionNames))
	}
	for _, name := range optionNames {
		for _, value := range []string{"1", `"true"`, `"a"`} {
			c, err := DecodeConfigure(fmt.Appendf(nil, `{"queue":"q","options":{%q:%s}}`, name, value))
			if err != nil {
				continue // not of this type
			}
			v := reflect.ValueOf(c.Options)
			for i := range v.NumField() {
				field := v.Type().Field(i).Name
				if set := v.Field(i).FieldByName("Set").Bool(); set != strings.EqualFold(field, name) {
					t.Errorf("%s: %s: got set %t", name, field, set)
				}
			}
		}
	}
}

func TestDecodeConfigureRefuses(t *testing.T) {
	rows := []struct {
		name, body, want string
		as               any
	}{
		{"not JSON", `{"queue":"q"`, "unexpected end at byte 12", new(*Error)},
		{"not an object", `["queue"]`, "the body is not an object", new(*Error)},
		{"queue missing, M-500", `{}`, "queue is required", nil},
		{"queue null", `{"queue":null}`, "queue is required", nil},
		{"queue number", `{"queue":5}`, "queue is required", nil},
		{"mode", `{"queue":"q","mode":"upsert"}`, `mode must be "merge" or "replace", got "upsert"`, new(*ModeError)},
		{"mode mistyped", `{"queue":"q","mode":{"a":1}}`, `mode must be "merge" or "replace", got {"a":1}`, new(*ModeError)},
		{"options mistyped", `{"queue":"q","options":[1]}`, `option options: [1] is not an object`, new(*OptionError)},
		{"int", `{"queue":"q","options":{"leaseTime":"soon"}}`, `option leaseTime: "soon" is not an integer`, new(*OptionError)},
		{"bool", `{"queue":"q","retentionEnabled":2}`, `option retentionEnabled: 2 is not a boolean`, new(*OptionError)},
		{"string", `{"queue":"q","options":{"task":5}}`, `option task: 5 is not a string`, new(*OptionError)},
		{"label at the top", `{"queue":"q","task":5}`, `option task: 5 is not a string`, new(*OptionError)},
		{"long value", `{"queue":"q","ttl":"` + strings.Repeat("ä", 100) + `"}`, `option ttl: "` + strings.Repeat("ä", 31) + `... is not an integer`, new(*OptionError)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, err := DecodeConfigure([]byte(row.body))
			if text(err) != row.want || got != (Configure{}) {
				t.Errorf("got %+v, %v want %s", got, err, row.want)
			}
			if row.as == nil && !errors.Is(err, ErrQueueRequired) || row.as != nil && !errors.As(err, row.as) {
				t.Errorf("got a %T", err)
			}
		})
	}
}

// TestCasts holds the rules of D-17. "!" is refused, "0" and "1" stand for booleans too.
func TestCasts(t *testing.T) {
	rows := []struct{ value, asInt, asBool, asString string }{
		{`null`, "null", "null", "null"},
		{`0`, "0", "false", "!"},
		{`1`, "1", "true", "!"},
		{`1.0`, "1", "true", "!"},
		{`-5`, "-5", "!", "!"},
		{`5.0`, "5", "!", "!"},
		{`1e2`, "100", "!", "!"},
		{`5.5`, "!", "!", "!"},
		{`1e400`, "!", "!", "!"},
		{`9223372036854775807`, "9223372036854775807", "!", "!"},
		{`true`, "1", "true", "!"},
		{`false`, "0", "false", "!"},
		{`"5"`, "5", "!", "5"},
		{`"\u0035"`, "5", "!", "5"},
		{`"-5.0"`, "-5", "!", "-5.0"},
		{`"1"`, "1", "!", "1"},
		{`"true"`, "!", "true", "true"},
		{`"false"`, "!", "false", "false"},
		{`"True"`, "!", "!", "True"},
		{`""`, "!", "!", ""},
		{`"5 "`, "!", "!", "5 "},
		{`" 5"`, "!", "!", " 5"},
		{`"05"`, "!", "!", "05"},
		{`"+5"`, "!", "!", "+5"},
		{`"null"`, "!", "!", "null"},
		{`"[1]"`, "!", "!", "[1]"},
		{`[]`, "!", "!", "!"},
		{`{}`, "!", "!", "!"},
	}
	for _, row := range rows {
		t.Run(row.value, func(t *testing.T) {
			for name, want := range map[string]string{"ttl": row.asInt, "deadLetterQueue": row.asBool, "task": row.asString} {
				c, err := DecodeConfigure(fmt.Appendf(nil, `{"queue":"q","options":{%q:%s}}`, name, row.value))
				if got := showOption(c.Options, name, err); got != want {
					t.Errorf("%s: got %s, %v want %s", name, got, err, want)
				}
			}
		})
	}
}

func showOption(o Options, name string, err error) string {
	switch {
	case err != nil:
		return "!"
	case o.TTL.Null || o.DeadLetterQueue.Null || o.Task.Null:
		return "null"
	case name == "ttl" && o.TTL.Set:
		return fmt.Sprint(o.TTL.Value)
	case name == "deadLetterQueue" && o.DeadLetterQueue.Set:
		return fmt.Sprint(o.DeadLetterQueue.Value)
	case name == "task" && o.Task.Set:
		return o.Task.Value
	}
	return "absent"
}

func TestOr(t *testing.T) {
	if got := (OptInt{Value: 0, Set: true}).Or(7); got != 0 {
		t.Errorf("got %d want 0", got)
	}
	if got := (OptInt{Null: true}).Or(7); got != 7 {
		t.Errorf("got %d want 7", got)
	}
	if got := (OptBool{Set: true}).Or(true); got {
		t.Error("got true want false")
	}
	if got := (OptBool{}).Or(true); !got {
		t.Error("got false want true")
	}
	if got := (OptString{Set: true}).Or("x"); got != "" {
		t.Errorf("got %q want none", got)
	}
	if got := (OptString{Null: true}).Or("x"); got != "x" {
		t.Errorf("got %q want x", got)
	}
}

func TestDecodeExtend(t *testing.T) {
	rows := []struct {
		body string
		want int64
	}{
		{`{"seconds":120}`, 120},
		{` {"x":[],"seconds" : 120.0 } `, 120},
		{`{"seconds":1.2e2}`, 120},
		{`{"seconds":1}`, 1},
		{`{"seconds":0}`, 1},
		{`{"seconds":-5}`, 1},
		{`{"seconds":5,"seconds":7}`, 7},
		{``, 60},
		{`  `, 60},
		{`{}`, 60},
		{`null`, 60},
		{`120`, 60},
		{`[120]`, 60},
		{`seconds=120`, 60},
		{`{"seconds":120`, 60},
		{`{"seconds":120}x`, 60},
		{`{"seconds":"120"}`, 60},
		{`{"seconds":null}`, 60},
		{`{"seconds":true}`, 60},
		{`{"seconds":1.5}`, 60},
		{`{"seconds":1e99}`, 60},
		{`{"Seconds":120}`, 60},
		{"{\"seconds\":120,\"x\":\"\xff\"}", 60},
	}
	for _, row := range rows {
		if got := DecodeExtend([]byte(row.body)); got != row.want {
			t.Errorf("%s: got %d want %d", row.body, got, row.want)
		}
	}
}

func TestDecodeReplay(t *testing.T) {
	rows := []struct {
		body string
		want Replay
		err  string
	}{
		{``, Replay{}, ""},
		{" \n", Replay{}, ""},
		{`{}`, Replay{}, ""},
		{`{"queue":"q"}`, Replay{Queue: OptString{Value: "q", Set: true}}, ""},
		{`{"partition":"","x":1}`, Replay{Partition: OptString{Set: true}}, ""},
		{`{"queue":" ","partition":null}`, Replay{Queue: OptString{Value: " ", Set: true}, Partition: OptString{Null: true}}, ""},
		{`{"queue":5,"queue":"\u0071"}`, Replay{Queue: OptString{Value: "q", Set: true}}, ""},
		{`{"queue":5}`, Replay{}, "queue is not a string"},
		{`{"partition":[]}`, Replay{}, "partition is not a string"},
		{`null`, Replay{}, "the body is not an object"},
		{`{"queue":"q"`, Replay{}, "unexpected end at byte 12"},
	}
	for _, row := range rows {
		got, err := DecodeReplay([]byte(row.body))
		if got != row.want || text(err) != row.err {
			t.Errorf("%s: got %+v, %v want %+v, %q", row.body, got, err, row.want, row.err)
		}
	}
}

func FuzzConfigure(f *testing.F) {
	f.Add([]byte(`{"queue":"q","mode":"merge","namespace":"n","options":{"leaseTime":"5","ttl":1e2,"task":null,"deadLetterQueue":0}}`))
	f.Add([]byte(`{"queue":"q\n","options":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		valid := Valid(body) == nil
		if _, err := DecodeConfigure(body); err == nil && !valid {
			t.Fatal("accepted what is not JSON")
		}
		if _, err := DecodeReplay(body); err == nil && !valid && strings.Trim(string(body), " \t\r\n") != "" {
			t.Fatal("accepted what is not JSON")
		}
		if n := DecodeExtend(body); n < 1 || !valid && n != DefaultExtendSeconds {
			t.Fatalf("got %d", n)
		}
	})
}
