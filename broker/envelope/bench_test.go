package envelope

import (
	"strings"
	"testing"
)

func BenchmarkSeal(b *testing.B) {
	k := testKeys(b)
	payload := []byte(`"` + strings.Repeat("s", 1022) + `"`)
	var sealed []byte
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		sealed = k.AppendSeal(sealed[:0], payload)
	}
}

func BenchmarkOpen(b *testing.B) {
	k := testKeys(b)
	payload := []byte(`"` + strings.Repeat("s", 1022) + `"`)
	plain := []byte(`{"orderId":8891,"text":` + string(payload) + `}`)
	for _, row := range []struct {
		name       string
		keys       *Keys
		stored     []byte
		sealedHere bool
	}{
		{"sealed", k, k.AppendSeal(nil, payload), true},
		{"sealed elsewhere", k, k.AppendSeal(nil, payload), false},
		{"previous key", New(otherKey(b), testKey(b, testKeyText)), k.AppendSeal(nil, payload), true},
		{"plain", k, plain, false},
	} {
		b.Run(row.name, func(b *testing.B) {
			var opened []byte
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				opened, _ = row.keys.AppendOpen(opened[:0], row.stored, row.sealedHere)
			}
		})
	}
}
