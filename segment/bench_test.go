package segment

import (
	"fmt"
	"testing"
)

// order is a payload such as brokers carry: JSON whose keys repeat and whose values
// do not.
func order(i int) []byte {
	noise := incompressible(64 * (i + 1))[64*i:]
	return fmt.Appendf(nil, `{"orderId":%d,"customer":"%x","status":"created","currency":"EUR","lines":[{"sku":"%x","quantity":%d,"price":%d.99},{"sku":"%x","quantity":1,"price":%d.50}],"note":"leave at the door"}`,
		88910000+i*7, noise[:8], noise[8:14], i%5+1, int(noise[14]), noise[15:21], int(noise[21]))
}

func orders(count int) []byte {
	var raw []byte
	for i := range count {
		raw = AppendMessage(raw, &Message{TransactionID: fmt.Appendf(nil, "order-%d", i), Payload: order(i)})
	}
	return raw
}

// Sizes around compressMin show what packing costs and saves there.
func BenchmarkAppendBatch(b *testing.B) {
	dst := make([]byte, 0, 1<<20)
	for _, count := range []int{1, 4, 8, 16, 32, 100, 1000} {
		raw := orders(count)
		b.Run(fmt.Sprintf("size=%d/batch=%d/pack=auto", len(raw)/count, count), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendBatch(dst[:0], &Header{Count: uint32(count)}, raw)
			}
			b.ReportMetric(float64(len(dst))/float64(len(raw)+HeaderLen), "stored/raw")
		})
		b.Run(fmt.Sprintf("size=%d/batch=%d/pack=s2", len(raw)/count, count), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			var packed []byte
			for b.Loop() {
				packed, _ = appendPacked(dst[:0], raw)
			}
			b.ReportMetric(float64(len(packed))/float64(len(raw)), "stored/raw")
		})
	}
}

func BenchmarkSeal(b *testing.B) {
	batch := testBatch(testMessages...)
	b.ReportAllocs()
	for b.Loop() {
		Seal(batch, 7, 40, 1_700_000_000_000, testBaseID)
	}
}

func BenchmarkNextMessage(b *testing.B) {
	const count = 100
	raw := orders(count)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		for rest := raw; len(rest) > 0; {
			_, rest, _ = NextMessage(rest)
		}
	}
	b.ReportMetric(float64(b.N)*count/b.Elapsed().Seconds(), "msg/s")
}

func BenchmarkBody(b *testing.B) {
	batch := AppendBatch(nil, &Header{Count: 100}, orders(100))
	dst := make([]byte, 0, 1<<20)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		h, err := Verify(batch)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Body(&h, batch, dst); err != nil {
			b.Fatal(err)
		}
	}
}
