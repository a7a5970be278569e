package testkit

import (
	"net/http"
	"testing"
)

// Texts are of one shape if their members are, and the kinds of their values.
func TestShape(t *testing.T) {
	of := shapeOf([]byte(`{"a":[{"id":"x","n":17},{"id":"\"","n":2}],"b":null}`))
	for text, same := range map[string]bool{
		`{"b":null,"a":[{"n":0,"id":"c:\"d\":"}]}`:   true,
		`{"a":[{"id":"x","n":17}],"b":true}`:         false,
		`{"a":[{"id":"x","n":-17}],"b":null}`:        false,
		`{"a":[{"id":"x","n":1,"more":1}],"b":null}`: false,
		`{"a":[{"id":"x"}],"b":null}`:                false,
		`{"a`:                                        false, `{"a"`: false, `{"a":`: false, `"\`: false, ``: false,
	} {
		if got := shapeOf([]byte(text)); (got == of) != same {
			t.Errorf("%s: %v, that of the other is %v", text, got, of)
		}
	}
}

// What is new is looked at however much was seen that is known.
func TestSample(t *testing.T) {
	c, err := TheContract()
	if err != nil {
		t.Fatal(err)
	}
	call := func(body string) error {
		return c.Sample("GET", "/status", "", Answer{200, http.Header{"Content-Type": {"application/json"}}, []byte(body)})
	}
	for range 2 * manyAlike {
		if err := call(`{"status":"ok","engine":"skep"}`); err != nil {
			t.Fatal(err)
		}
	}
	if call(`{"status":"ok","engine":"skep","more":1}`) == nil || call(`{"status":"ok","engine":7}`) == nil {
		t.Error("what is not described was passed over")
	}
}
