package codec

import (
	"encoding/json"
	"testing"
	"time"
)

func BenchmarkAppendString(b *testing.B) {
	for _, row := range []struct{ name, s string }{
		{"id", "0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83"},
		{"short", "orders"},
		{"german", "Grüße aus Köln, schöne Straße"},
		{"escapes", "a \"quoted\"\tline\n"},
	} {
		b.Run("text="+row.name, func(b *testing.B) {
			buf := make([]byte, 0, 256)
			raw := []byte(row.s)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				buf = AppendString(buf[:0], raw)
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	buf := make([]byte, 0, 64)
	now := time.Now().UnixMilli()
	b.Run("what=time-ms", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendTimeMs(buf[:0], now)
		}
	})
	b.Run("what=time-micro", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendTimeMicro(buf[:0], now*1000)
		}
	})
	b.Run("what=uuid", func(b *testing.B) {
		b.ReportAllocs()
		u := [16]byte{1, 2, 3, 250}
		for b.Loop() {
			buf = AppendUUID(buf[:0], u)
		}
	})
	b.Run("what=json-marshal-string", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal("0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83")
		}
	})
}

func BenchmarkParseQuery(b *testing.B) {
	raw := []byte("batch=100&wait=true&timeout=30000&consumerGroup=billing%20eu&partitions=4")
	var v Values
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Parse(raw); err != nil {
			b.Fatal(err)
		}
		n, err := v.Int("batch", 200)
		wait, err2 := v.Bool("wait", false)
		if n != 100 || !wait || err != nil || err2 != nil {
			b.Fatal(n, wait, err, err2)
		}
	}
}
