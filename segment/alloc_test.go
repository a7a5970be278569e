//go:build !race

package segment

import (
	"bytes"
	"testing"
)

func TestAllocs(t *testing.T) {
	small := Message{TransactionID: []byte("order-1"), Payload: []byte(`{"n":1}`)}
	rawSmall := AppendMessage(nil, &small)
	rawLarge := AppendMessage(nil, &Message{Payload: bytes.Repeat([]byte("abcdefgh"), 4096)})
	large := AppendBatch(nil, &Header{Count: 1}, rawLarge)
	largeHeader, err := Verify(large)
	if err != nil {
		t.Fatal(err)
	}
	roomy, tight := make([]byte, 0, 1<<20), make([]byte, 0, len(large))
	for name, f := range map[string]func(){
		"AppendMessage":      func() { AppendMessage(roomy, &small) },
		"AppendBatch raw":    func() { AppendBatch(roomy, &Header{Count: 1}, rawSmall) },
		"AppendBatch packed": func() { AppendBatch(roomy, &Header{Count: 1}, rawLarge) },
		"AppendBatch tight":  func() { AppendBatch(tight, &Header{Count: 1}, rawLarge) },
		"Seal":               func() { Seal(large, 1, 2, 3, testBaseID) },
		"Verify":             func() { _, _ = Verify(large) },
		"Body":               func() { _, _ = Body(&largeHeader, large, roomy) },
		"NextMessage":        func() { _, _, _ = NextMessage(rawSmall) },
	} {
		if got := testing.AllocsPerRun(200, f); got >= 1 {
			t.Errorf("%s: got %v allocations a run, want 0", name, got)
		}
	}
}
