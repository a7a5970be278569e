package codec

import "testing"

func TestDecodeSwitch(t *testing.T) {
	for _, tt := range []struct {
		body        string
		enabled, ok bool
	}{
		{`{"enabled":true}`, true, true},
		{` { "other" : [1] , "enabled" : false } `, false, true},
		{`{"enabled":1,"enabled":true}`, true, true},
		{``, false, false},
		{`{}`, false, false},
		{`{"enabled":null}`, false, false},
		{`{"enabled":"true"}`, false, false},
		{`{"enabled":1}`, false, false},
		{`{"enabled":true`, false, false},
		{`{"enabled":true} x`, false, false},
		{`[true]`, false, false},
		{`true`, false, false},
	} {
		if enabled, ok := DecodeSwitch([]byte(tt.body)); enabled != tt.enabled || ok != tt.ok {
			t.Errorf("%s: %t, %t; want %t, %t", tt.body, enabled, ok, tt.enabled, tt.ok)
		}
	}
}
