//go:build !race

package codec

import "testing"

// TestAllocations holds the hot paths to no allocation, escapes and depth included.
func TestAllocations(t *testing.T) {
	var (
		push    Push
		batch   AckBatch
		values  Values
		buf     = make([]byte, 0, 256)
		body    = pushBody(100)
		escaped = []byte(`{"items":[{"queue":"a\/b","partition":"\u00e4","transactionId":"\n","payload":` + string(nestedValue(200)) + `}]}`)
		ack     = []byte(`{"transactionId":"t","partitionId":"p","leaseId":"l","status":"completed","error":null}`)
		acks    = []byte(`{"consumerGroup":"g","acknowledgments":[{"transactionId":"t\n","status":"ok"},{"transactionId":"u"}]}`)
		x       Transaction
		bundle  = []byte(`{"operations":[{"type":"ack","transactionId":"t\n","leaseId":"l"},{"type":"push","items":[{"queue":"q","traceId":"x"},{"queue":"a\/b"}]}],"requiredLeases":["l"]}`)
		extend  = []byte(`{"seconds":5}`)
		query   = []byte("batch=100&wait=true&consumerGroup=a%20b+c")
		segment = []byte("orders")
		name    = []byte("Größe \"x\"\n")
	)
	rows := []struct {
		name string
		run  func() bool
	}{
		{"push", func() bool { return push.Decode(body) == nil }},
		{"push with escapes and depth", func() bool { return push.Decode(escaped) == nil }},
		{"ack", func() bool { _, err := DecodeAck(ack); return err == nil }},
		{"ack batch", func() bool { return batch.Decode(acks) == nil }},
		{"transaction", func() bool { return x.Decode(bundle) == nil }},
		{"valid", func() bool { return Valid(body) == nil }},
		{"extend", func() bool { return DecodeExtend(extend) == 5 }},
		{"query", func() bool {
			err := values.Parse(query)
			n, err1 := values.Int("batch", 0)
			wait, err2 := values.Bool("wait", false)
			group, ok := values.Get("consumerGroup")
			return err == nil && err1 == nil && err2 == nil && n == 100 && wait && ok && string(group) == "a b c"
		}},
		{"path segment", func() bool { _, err := PathSegment(segment); return err == nil }},
		{"append", func() bool {
			buf = AppendString(AppendString(buf[:0], name), "queue")
			buf = AppendUUID(AppendTimeMicro(AppendTimeMs(buf, 1), 2), [16]byte{})
			return len(buf) > 0
		}},
		{"parse uuid", func() bool { _, ok := ParseUUID(segment); return !ok }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			allocs := testing.AllocsPerRun(100, func() {
				if !row.run() {
					t.Fatal("failed")
				}
			})
			if allocs != 0 {
				t.Errorf("got %v allocations want none", allocs)
			}
		})
	}
}

func nestedValue(n int) []byte {
	var b []byte
	for range n {
		b = append(b, '[')
	}
	for range n {
		b = append(b, ']')
	}
	return b
}
