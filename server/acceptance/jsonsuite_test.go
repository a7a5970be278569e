package acceptance

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestJSONTestSuite sends every file of the JSON test suite as a payload: what is JSON
// comes back byte for byte, what is not is refused and stores nothing. Of the files that
// the suite leaves open, those are JSON whose grammar and encoding are right.
func TestJSONTestSuite(t *testing.T) {
	files, err := filepath.Glob("../codec/testdata/jsontestsuite/*.json")
	if err != nil || len(files) < 300 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	w := open(t)
	for _, path := range files {
		value, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		accept := name[0] == 'y' || name[0] == 'i' && utf8.Valid(value) && json.Valid(value)
		a := w.call("POST", "/api/v1/push", `{"items":[{"queue":"q","partition":`+quote(name)+`,"payload":`+string(value)+`}]}`)
		if !accept {
			if e := decode[errorAnswer](t, a.body); a.status != 400 || !strings.HasPrefix(e.Error, "bad body: ") {
				t.Errorf("%s: %d %s", name, a.status, a.body)
			}
			w.nothing(w.popFrom("q", name))
			continue
		}
		if a.status != 201 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
			continue
		}
		w.wantPayload(name, bytes.Trim(value, " \t\r\n"))
	}
	w.restart()
	for _, path := range files {
		if name := filepath.Base(path); name[0] == 'y' {
			value, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w.wantPayload(name, bytes.Trim(value, " \t\r\n"))
		}
	}
}

// wantPayload pops the message of a partition and compares its payload with want.
func (w *world) wantPayload(partition string, want []byte) {
	w.t.Helper()
	p := w.popFrom("q", partition, "consumerGroup=look", "leaseSeconds=60")
	if p == nil {
		w.lapse()
		p = w.popFrom("q", partition, "consumerGroup=look")
	}
	if len(p.ids()) != 1 || !bytes.Equal(p.Messages[0].Data, want) {
		w.t.Errorf("%s: got %.100q, want %.100q", partition, p.Messages[0].Data, want)
	}
}
