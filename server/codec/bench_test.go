package codec

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// orders returns n payloads of 250 to 330 bytes as a shop would send them.
func orders(n int) []string {
	rng := rand.New(rand.NewPCG(1, 2))
	names := []string{"Ada Lovelace", "Grace Hopper", "Jürgen Groß", "Mary Jackson", "Alan Turing"}
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(`{"orderId":%d,"customer":{"id":"cust-%05d","name":"%s","email":"user%d@example.com"},`+
			`"items":[{"sku":"SKU-%06d","qty":%d,"price":%d.%02d},{"sku":"SKU-%06d","qty":%d,"price":%d.%02d}],`+
			`"total":%d.%02d,"currency":"EUR","status":"created","paid":%t,"createdAt":"2026-07-30T09:12:%02d.118Z"}`,
			8000+i, rng.IntN(99999), names[rng.IntN(len(names))], rng.IntN(9999),
			rng.IntN(999999), 1+rng.IntN(12), rng.IntN(400), rng.IntN(100), rng.IntN(999999), 1+rng.IntN(3), rng.IntN(90), rng.IntN(100),
			rng.IntN(2000), rng.IntN(100), rng.IntN(2) == 0, rng.IntN(60))
	}
	return out
}

// pushBody returns a push of n orders.
func pushBody(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"items":[`)
	for i, order := range orders(n) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"queue":"orders.created","partition":"customer-%d","transactionId":"0198f2c1-4d3a-7c10-9f2b-6a1e5d%06x","payload":%s}`, i%17, i, order)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func BenchmarkValid(b *testing.B) {
	body := pushBody(100)
	b.Run("by=codec", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if err := Valid(body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by=encoding-json", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if !json.Valid(body) {
				b.Fatal("refused")
			}
		}
	})
}

func BenchmarkPush(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("size=order/items=%d", n), func(b *testing.B) { benchmarkPush(b, pushBody(n), n) })
	}
	for _, size := range []int{64, 256, 4096} {
		b.Run(fmt.Sprintf("size=%d/items=1", size), func(b *testing.B) { benchmarkPush(b, smallBody(size), 1) })
	}
}

// smallBody returns a push of one item that is size bytes long in all.
func smallBody(size int) []byte {
	const format = `{"items":[{"queue":"orders","partition":"c-42","payload":{"id":8891,"text":"%s"}}]}`
	return fmt.Appendf(nil, format, strings.Repeat("x", max(0, size-len(format)+2)))
}

func benchmarkPush(b *testing.B, body []byte, items int) {
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var p Push
	for b.Loop() {
		if err := p.Decode(body); err != nil || len(p.Items) != items {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(items)/b.Elapsed().Seconds(), "msg/s")
}

func BenchmarkAckBatch(b *testing.B) {
	acks := strings.Repeat(`{"transactionId":"0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83","partitionId":"b1c2d3e4-5f60-7180-9a0b-1c2d3e4f5061",`+
		`"leaseId":"0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90","status":"completed","error":null},`, 100)
	body := []byte(`{"consumerGroup":"billing","acknowledgments":[` + strings.TrimSuffix(acks, ",") + `]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var a AckBatch
	for b.Loop() {
		if err := a.Decode(body); err != nil || len(a.Items) != 100 {
			b.Fatal(err)
		}
	}
}
