package server

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/log/journal"
)

// BenchmarkScrape reads the metrics of a broker with many queues that all had traffic in the
// minute that is running, four scrapers at a time.
func BenchmarkScrape(b *testing.B) {
	for _, queues := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint("queues=", queues), func(b *testing.B) {
			broke, err := broker.Open(broker.Options{Dir: b.TempDir(), Sync: journal.SyncNever})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := broke.Close(); err != nil {
					b.Error(err)
				}
			}()
			items, results := make([]broker.PushItem, 1000), make([]broker.PushResult, 1000)
			for i := 0; i < queues; i += len(items) {
				for j := range items {
					items[j] = broker.PushItem{Queue: fmt.Append(nil, "queue-", i+j), Partition: []byte("p"), Payload: []byte("1")}
				}
				if err := broke.Push(broker.DefaultTenant, items, nil, results); err != nil {
					b.Fatal(err)
				}
			}
			ln := newMemoryListener()
			s := start(b, ln, nil, Options{})
			s.SetBroker(broke)
			c := memoryClient(b, ln)
			b.ReportAllocs()
			var length atomic.Int64
			for b.Loop() {
				var scrapers sync.WaitGroup
				for range 4 {
					scrapers.Go(func() {
						res, err := c.Get("http://skep/metrics/prometheus")
						if err != nil {
							b.Error(err)
							return
						}
						n, err := io.Copy(io.Discard, res.Body)
						if res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
							b.Errorf("%d, %v", res.StatusCode, err)
						}
						length.Store(n)
					})
				}
				scrapers.Wait()
			}
			b.ReportMetric(float64(length.Load()), "answer-B")
		})
	}
}
