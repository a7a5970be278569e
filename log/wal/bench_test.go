package wal

import (
	"fmt"
	"path/filepath"
	"testing"
)

func BenchmarkAppendFramed(b *testing.B) {
	for _, size := range []int{256, 4 << 10, 64 << 10} {
		for _, sync := range []bool{false, true} {
			b.Run(fmt.Sprintf("size=%d/sync=%t", size, sync), func(b *testing.B) {
				l, _, err := Open(Options{Dir: filepath.Join(b.TempDir(), "log"), LogID: 1}, nil)
				must(b, err)
				buf := make([]byte, Headroom+size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := l.AppendFramed(buf); err != nil {
						b.Fatal(err)
					}
					if sync {
						must(b, l.Sync())
					}
				}
				must(b, l.Close())
			})
		}
	}
}

func BenchmarkScan(b *testing.B) {
	o := Options{Dir: filepath.Join(b.TempDir(), "log"), LogID: 1}
	l, _, err := Open(o, nil)
	must(b, err)
	buf := make([]byte, Headroom+4<<10)
	for range 10_000 {
		if _, err := l.AppendFramed(buf); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(l.Size())
	must(b, l.Close())
	b.ReportAllocs()
	for b.Loop() {
		must(b, Scan(o, nil))
	}
}
