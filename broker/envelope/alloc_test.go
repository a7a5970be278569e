//go:build !race

package envelope

import (
	"strings"
	"testing"
)

// With room neither way costs an allocation, and a payload in the clear costs none without.
func TestAllocations(t *testing.T) {
	k := testKeys(t)
	payload := []byte(`"` + strings.Repeat("s", 1022) + `"`)
	sealed := k.AppendSeal(nil, payload)
	room := make([]byte, 0, 4096)
	for name, fn := range map[string]func(){
		"seal":  func() { k.AppendSeal(room, payload) },
		"open":  func() { k.AppendOpen(room, sealed, true) },
		"plain": func() { k.AppendOpen(nil, payload, false) },
	} {
		if got := testing.AllocsPerRun(100, fn); got > 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
