package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const popAnswer = `{"success":true,"queue":"orders","partition":"c 42","partitionId":"b1c2","leaseId":"0198f2c1","consumerGroup":"billing","messages":[` +
	`{"id":"m1","transactionId":"t\"1\u00e9","traceId":null,"data":{"a" : [1.0,"}\\\""]},"producerSub":null,"createdAt":"2026-07-30T09:12:41.118Z","partitionId":"b1c2","partition":"c 42","leaseId":"0198f2c1","consumerGroup":"billing"},` + "\n" +
	` {"id":"m2","transactionId":"m2","traceId":"tr","data":null,"producerSub":"svc","createdAt":"2026-07-30T09:12:41.118Z","partitionId":"b1c2","partition":"c 42","leaseId":"0198f2c1","consumerGroup":"billing","deliveryAttempt":3,"offset":7}],"partitionsClaimed":1}`

func TestPop(t *testing.T) {
	f := newFake(t, answer(200, popAnswer))
	got, err := f.Queue("orders").Group("billing").Pop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 7, 30, 9, 12, 41, 118e6, time.UTC)
	want := &Batch{Queue: "orders", Group: "billing", LeaseID: "0198f2c1", Partitions: 1, Messages: []Message{
		{ID: "m1", TransactionID: `t"1é`, Data: json.RawMessage(`{"a" : [1.0,"}\\\""]}`), CreatedAt: at, Queue: "orders", Partition: "c 42", PartitionID: "b1c2", LeaseID: "0198f2c1", Group: "billing"},
		{ID: "m2", TransactionID: "m2", Data: json.RawMessage(`null`), CreatedAt: at, Queue: "orders", Partition: "c 42", PartitionID: "b1c2", LeaseID: "0198f2c1", Group: "billing", TraceID: "tr", ProducerSub: "svc", Attempt: 3},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestPopPath(t *testing.T) {
	for _, tt := range []struct {
		name string
		q    func(Queue) Queue
		want string
	}{
		{"bare", func(q Queue) Queue { return q }, "/api/v1/pop/queue/q?wait=false"},
		{"all", func(q Queue) Queue {
			return q.Group("g&h").Batch(10).Wait(1500 * time.Millisecond).Partitions(3).LeaseSeconds(9).AutoAck().SubscriptionMode("new").SubscriptionFrom("2026-07-30T00:00:00+02:00")
		}, "/api/v1/pop/queue/q?wait=true&timeout=1500&batch=10&partitions=3&leaseSeconds=9&autoAck=true&consumerGroup=g%26h&subscriptionMode=new&subscriptionFrom=2026-07-30T00%3A00%3A00%2B02%3A00"},
		{"conflation", func(q Queue) Queue { return q.Group("g").Partitions(1).Conflation() },
			"/api/v1/pop/queue/q?wait=false&partitions=1&conflation=true&consumerGroup=g"},
		{"conflation everywhere", func(q Queue) Queue { return q.Group("g").Conflation() },
			"/api/v1/pop/queue/q?wait=false&conflation=true&consumerGroup=g"},
		{"pinned", func(q Queue) Queue { return q.Partition("p").Partitions(3) }, "/api/v1/pop/queue/q/partition/p?wait=false"},
		{"less than a millisecond", func(q Queue) Queue { return q.Wait(1) }, "/api/v1/pop/queue/q?wait=true&timeout=1"},
		{"zeros", func(q Queue) Queue { return q.Batch(0).Wait(0).Partitions(1).LeaseSeconds(-1).Group("") }, "/api/v1/pop/queue/q?wait=false"},
		{"names", func(q Queue) Queue { q.name = "a/b c?é%"; return q.Partition("..") }, "/api/v1/pop/queue/a%2Fb%20c%3F%C3%A9%25/partition/%2E%2E?wait=false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, answer(200, `{"messages":[],"conflation":true}`))
			b, err := tt.q(f.Queue("q")).Pop(t.Context())
			if err != nil || len(b.Messages) != 0 {
				t.Fatalf("got %v, %v want an empty batch", b, err)
			}
			r := f.seen()[0]
			if got := r.path + "?" + r.query; r.method != "GET" || got != tt.want || r.body != "" {
				t.Errorf("got  %s %s %s\nwant %s", r.method, got, r.body, tt.want)
			}
		})
	}
}

// TestChain expects that a Queue is a value: varying a copy leaves it alone.
func TestChain(t *testing.T) {
	c, err := New("http://h")
	if err != nil {
		t.Fatal(err)
	}
	base := c.Queue("q").Group("g")
	_ = base.Partition("p").Batch(5).Group("h").AutoAck()
	if got, want := base.popPath(), "/api/v1/pop/queue/q?wait=false&consumerGroup=g"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

// TestDecodeBroken cuts an answer after every byte: each prefix is refused, none panics.
func TestDecodeBroken(t *testing.T) {
	for i := range len(popAnswer) {
		if err := decodeBatch([]byte(popAnswer[:i]), &Batch{}); !errors.Is(err, ErrProtocol) {
			t.Fatalf("cut after %d bytes: got %v want ErrProtocol", i, err)
		}
	}
	for _, body := range []string{
		"null", "[]", `"x"`, `{"messages":{}}`, `{"messages":[1]}`, `{"leaseId":7}`, `{"partitionsClaimed":"x"}`, `{} {}`,
		`{"messages":[{"createdAt":"yesterday"}]}`, `{"messages":[{"data":}]}`, `{"messages":[{"id":"\u12"}]}`, `{,}`, `{"a":1,}`,
		`{"messages":[{},]}`, `{"a":]}`,
	} {
		if err := decodeBatch([]byte(body), &Batch{}); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: got %v want ErrProtocol", body, err)
		}
	}
}

// FuzzDecodeBatch feeds anything, and a well-formed answer built from the input.
func FuzzDecodeBatch(f *testing.F) {
	f.Add([]byte(popAnswer), "id", "p")
	f.Add([]byte(`{"a":"\\\"]}"}`), "\\", "\"é\x00")
	f.Fuzz(func(t *testing.T, data []byte, id, partition string) {
		var b Batch
		if err := decodeBatch(data, &b); err != nil && !errors.Is(err, ErrProtocol) {
			t.Errorf("got %v", err)
		}
		if !json.Valid(data) {
			return
		}
		quoted := func(s string) []byte {
			q, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		body := fmt.Appendf(nil, `{"messages":[{"id":%s,"partition":%s,"data":%s},{"data":%s,"id":%s}]}`, quoted(id), quoted(partition), data, data, quoted(id))
		var got Batch
		if err := decodeBatch(body, &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		var want struct {
			Messages []struct{ ID, Partition string }
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatal(err)
		}
		for i, m := range got.Messages {
			if m.ID != want.Messages[i].ID || m.Partition != want.Messages[i].Partition || !bytes.Equal(m.Data, bytes.Trim(data, " \t\r\n")) {
				t.Errorf("message %d: got %+v want %+v with %s", i, m, want.Messages[i], data)
			}
		}
	})
}

// bigAnswer is an answer of n messages with payloads of size bytes.
func bigAnswer(n, size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"success":true,"queue":"q","partition":"p","partitionId":"b1c2d3e4-5f60-7180-9a0b-1c2d3e4f5061","leaseId":"0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90","consumerGroup":"g","messages":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"0198f2c1-4d3a-7c10-9f2b-%012d","transactionId":"0198f2c1-4d3a-7c10-9f2b-%012d","traceId":null,"data":{"t":"%s"},"producerSub":null,"createdAt":"2026-07-30T09:12:41.118Z","partitionId":"b1c2d3e4-5f60-7180-9a0b-1c2d3e4f5061","partition":"customer-42","leaseId":"0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90","consumerGroup":"g"}`, i, i, strings.Repeat("x", size))
	}
	b.WriteString(`],"partitionsClaimed":1}`)
	return b.Bytes()
}

func BenchmarkDecodeBatch(b *testing.B) {
	for _, size := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("size=%d/batch=100", size), func(b *testing.B) {
			body := bigAnswer(100, size)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := decodeBatch(body, &Batch{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
