package codec

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzSmallBodies compares the decoders that tell no errors with encoding/json.
func FuzzSmallBodies(f *testing.F) {
	f.Add([]byte(`{"enabled":true,"seconds":60,"queue":"q","partition":"p"}`))
	f.Add([]byte(` {"enabled" : false , "seconds":1e2,"enabled":null} `))
	f.Add([]byte(`{"seconds":-9223372036854775809,"queue":7,"partition":null}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, body []byte) {
		members, ok := referenceObject(body)
		ok = ok && utf8.Valid(body)
		value := string(members["enabled"])
		wantOK := ok && (value == "true" || value == "false")
		if enabled, ok := DecodeSwitch(body); ok != wantOK || enabled != (wantOK && value == "true") {
			t.Fatalf("switch: %t, %t from %q", enabled, ok, value)
		}
		n := DecodeExtend(body)
		var want int64
		if ok && json.Unmarshal(members["seconds"], &want) == nil && !strings.ContainsAny(string(members["seconds"]), "\"nut") {
			if n != max(want, 1) {
				t.Fatalf("extend: %d from %s", n, members["seconds"])
			}
		} else if !ok && n != DefaultExtendSeconds {
			t.Fatalf("extend: %d from what is no object", n)
		}
		_, err := DecodeReplay(body)
		if empty := strings.Trim(string(body), " \t\r\n") == ""; err == nil && !ok && !empty {
			t.Fatal("replay: accepted what encoding/json does not")
		}
	})
}
