package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// payloadSize is how long each payload is, in bytes.
const payloadSize = 256

// shape is what a push request looks like.
type shape struct {
	batch  int
	ids    bool // every item carries a transaction id
	spread bool // every item goes to another partition
	size   int  // of a payload in bytes; 0: payloadSize
}

// pushRequest is the bytes of a push, made once. Partitions, transaction ids and time
// stamps have a fixed width and are overwritten in place before each use.
type pushRequest struct {
	bytes []byte
	shape shape

	partitionAt []int
	idAt        []int
	stampAt     []int
}

const (
	partitionDigits = 8
	idDigits        = 16
	stampDigits     = 19
)

func getRequest(path string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

// appendPostHead appends the head of a POST whose body is n bytes long.
func appendPostHead(b []byte, path string, n int) []byte {
	return fmt.Appendf(b, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, n)
}

// newPushRequest builds a request with payloads that rng decides.
func newPushRequest(path, queue string, s shape, rng *rand.Rand) *pushRequest {
	r := &pushRequest{shape: s}
	b := []byte(`{"items":[`)
	for i := range s.batch {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"queue":"`+queue+`","partition":"p`...)
		r.partitionAt = append(r.partitionAt, len(b))
		b = append(b, strings.Repeat("0", partitionDigits)...)
		b = append(b, `",`...)
		if s.ids {
			b = append(b, `"transactionId":"order-created-`...)
			r.idAt = append(r.idAt, len(b))
			b = append(b, strings.Repeat("0", idDigits)...)
			b = append(b, `",`...)
		}
		b = append(b, `"payload":`...)
		r.stampAt = append(r.stampAt, len(b)+len(payloadStart))
		b = appendPayload(b, rng, cmp.Or(s.size, payloadSize))
		b = append(b, '}')
	}
	b = append(b, `]}`...)
	head := appendPostHead(nil, path, len(b))
	for _, places := range [][]int{r.partitionAt, r.idAt, r.stampAt} {
		for i := range places {
			places[i] += len(head)
		}
	}
	r.bytes = append(head, b...)
	return r
}

// payloadStart is how every payload begins; a time stamp follows.
const payloadStart = `{"at":`

// appendPayload appends an order as a shop would send it, size bytes long.
func appendPayload(b []byte, rng *rand.Rand, size int) []byte {
	from := len(b)
	b = fmt.Appendf(b, `%s%0*d,"orderId":%d,"customer":{"id":"cust-%05d","email":"user%d@example.com"},`+
		`"items":[{"sku":"SKU-%06d","qty":%d,"price":%d.%02d}],"total":%d.%02d,"currency":"EUR","paid":%t,"note":"`,
		payloadStart, stampDigits, stampBase, 80000+rng.IntN(10000), rng.IntN(99999), rng.IntN(9999),
		rng.IntN(999999), 1+rng.IntN(12), rng.IntN(400), rng.IntN(100), rng.IntN(2000), rng.IntN(100), rng.IntN(2) == 0)
	const end = `"}`
	for len(b)-from < size-len(end) {
		b = strconv.AppendInt(b, rng.Int64N(36), 36)
	}
	return append(b, end...)
}

// stampBase is added to a stamp, so that its first digit is not 0, which JSON forbids.
const stampBase = int64(1e18)

// setPartition addresses the request to partition n, or, if its items are spread, to n
// and those that follow it in a circle of total.
func (r *pushRequest) setPartition(n, total int) {
	for _, at := range r.partitionAt {
		putDecimal(r.bytes[at:at+partitionDigits], uint64(n))
		if r.shape.spread {
			if n++; n == total {
				n = 0
			}
		}
	}
}

// setIDs gives the items of the request the transaction ids from first on.
func (r *pushRequest) setIDs(first uint64) {
	for i, at := range r.idAt {
		putDecimal(r.bytes[at:at+idDigits], first+uint64(i))
	}
}

// setStamp puts a stamp into every payload.
func (r *pushRequest) setStamp(stamp int64) {
	for _, at := range r.stampAt {
		putDecimal(r.bytes[at:at+stampDigits], uint64(stampBase+stamp))
	}
}

// putDecimal fills dst with the last digits of v.
func putDecimal(dst []byte, v uint64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + v%10)
		v /= 10
	}
}
