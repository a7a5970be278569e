package acceptance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

type (
	consumption struct {
		QueueMode bool   `json:"hasQueueMode"`
		Groups    int    `json:"busGroupsCount"`
		Type      string `json:"type"`
	}
	storedMessage struct {
		ID            string `json:"id"`
		TransactionID string `json:"transactionId"`
		Hash          string `json:"txnHash"`
		PartitionID   string `json:"partitionId"`
		QueuePath     string `json:"queuePath"`
		Queue         string `json:"queue"`
		Partition     string `json:"partition"`
		Namespace     string `json:"namespace"`
		Task          string `json:"task"`
		Status        string `json:"status"`
		QueueStatus   string `json:"queueStatus"`
		Bus           struct {
			ConsumedBy  int `json:"consumedBy"`
			TotalGroups int `json:"totalGroups"`
		} `json:"busStatus"`
		TraceID     *string `json:"traceId"`
		ProducerSub *string `json:"producerSub"`
		Available   bool    `json:"payloadAvailable"`
		Segment     struct {
			Seq   int64 `json:"seq"`
			Frame int64 `json:"frameIdx"`
		} `json:"segment"`
		Encrypted bool            `json:"isEncrypted"`
		CreatedAt string          `json:"createdAt"`
		Lease     *string         `json:"leaseExpiresAt"`
		Data      json.RawMessage `json:"data"`
		Payload   json.RawMessage `json:"payload"`
	}
	messageList struct {
		Messages []storedMessage `json:"messages"`
		Mode     consumption     `json:"mode"`
		Total    int             `json:"total"`
	}
	messageConsumer struct {
		Name     string  `json:"name"`
		Group    string  `json:"group"`
		Consumed bool    `json:"consumed"`
		Lease    *string `json:"leaseExpiresAt"`
	}
	messageDetail struct {
		ID            string            `json:"id"`
		TransactionID string            `json:"transactionId"`
		Data          json.RawMessage   `json:"data"`
		Payload       json.RawMessage   `json:"payload"`
		TraceID       *string           `json:"traceId"`
		ProducerSub   *string           `json:"producerSub"`
		CreatedAt     string            `json:"createdAt"`
		PartitionID   string            `json:"partitionId"`
		Partition     string            `json:"partition"`
		Encrypted     bool              `json:"isEncrypted"`
		Queue         string            `json:"queue"`
		QueuePath     string            `json:"queuePath"`
		Namespace     string            `json:"namespace"`
		Task          string            `json:"task"`
		Status        string            `json:"status"`
		Error         *string           `json:"errorMessage"`
		RetryCount    int64             `json:"retryCount"`
		Lease         *string           `json:"leaseExpiresAt"`
		Groups        []messageConsumer `json:"consumerGroups"`
		Mode          consumption       `json:"mode"`
		Config        json.RawMessage   `json:"queueConfig"`
	}
)

// messages lists messages and checks what holds for every page.
func (w *world) messages(params ...string) messageList {
	w.t.Helper()
	a := w.call("GET", "/api/v1/messages?"+query(params), "")
	if a.status != 200 {
		w.t.Fatalf("list messages: %d %s", a.status, a.body)
	}
	l := decode[messageList](w.t, a.body)
	if l.Total != len(l.Messages) {
		w.t.Errorf("messages: total %d of %d", l.Total, len(l.Messages))
	}
	for i, m := range l.Messages {
		sum := sha256.Sum256([]byte(m.TransactionID))
		if !m.Available || m.Hash != hex.EncodeToString(sum[:16]) || string(m.Data) != string(m.Payload) || m.QueuePath != m.Queue+"/"+m.Partition {
			w.t.Errorf("message %d: %+v", i, m)
		}
		if i > 0 && m.CreatedAt > l.Messages[i-1].CreatedAt {
			w.t.Errorf("messages: %s after %s, want newest first", m.CreatedAt, l.Messages[i-1].CreatedAt)
		}
	}
	return l
}

func (l messageList) ids() (ids []string) {
	for _, m := range l.Messages {
		ids = append(ids, m.TransactionID)
	}
	return ids
}

// listed compares the transaction ids of a page, separated by spaces.
func (w *world) listed(want string, params ...string) {
	w.t.Helper()
	if got := strings.Join(w.messages(params...).ids(), " "); got != want {
		w.t.Errorf("messages with %v\n got %s\nwant %s", params, got, want)
	}
}

// message describes a message.
func (w *world) message(partitionID, transactionID string) messageDetail {
	w.t.Helper()
	a := w.call("GET", address(partitionID, transactionID), "")
	if a.status != 200 {
		w.t.Fatalf("describe message: %d %s", a.status, a.body)
	}
	return decode[messageDetail](w.t, a.body)
}

func TestG300Bytes(t *testing.T) {
	w := open(t)
	w.configure("orders.eu", `{"leaseTime":120}`)
	w.queued(item{"orders.eu", "p/1", "a", []byte(`{"n":1}`)}, item{Queue: "orders.eu", Partition: "p/1", Payload: []byte(`null`)})
	lease := w.popFrom("orders.eu", "p/1", "batch=1")
	w.popFrom("orders.eu", "p/1", "consumerGroup=audit", "batch=1", "autoAck=true")
	a := w.call("GET", "/api/v1/messages?queue=orders.eu", "")
	minted := decode[messageList](t, a.body).Messages[0]
	want := `{"messages":[` +
		`{"id":"id1","transactionId":"id1","txnHash":"` + minted.Hash + `","partitionId":"id2","queuePath":"orders.eu/p/1","queue":"orders.eu","partition":"p/1","namespace":"","task":"",` +
		`"status":"pending","queueStatus":"pending","busStatus":{"consumedBy":0,"totalGroups":1},"traceId":null,"producerSub":null,"payloadAvailable":true,` +
		`"segment":{"seq":1,"frameIdx":0},"isEncrypted":false,"createdAt":"time.3","leaseExpiresAt":null,"data":null,"payload":null},` +
		`{"id":"id3","transactionId":"a","txnHash":"ca978112ca1bbdcafac231b39a23dc4d","partitionId":"id2","queuePath":"orders.eu/p/1","queue":"orders.eu","partition":"p/1","namespace":"","task":"",` +
		`"status":"processing","queueStatus":"processing","busStatus":{"consumedBy":1,"totalGroups":1},"traceId":null,"producerSub":null,"payloadAvailable":true,` +
		`"segment":{"seq":0,"frameIdx":0},"isEncrypted":false,"createdAt":"time.3","leaseExpiresAt":"time.3","data":{"n":1},"payload":{"n":1}}],` +
		`"mode":{"hasQueueMode":true,"busGroupsCount":1,"type":"hybrid"},"total":2}`
	if got := masked(a.body); a.status != 200 || got != want {
		t.Errorf("\n got %d %s\nwant 200 %s", a.status, got, want)
	}
	w.messages("queue=orders.eu")
	w.buried(w.ack("", lease.Messages[0].as("dlq").because(`no "luck"`)))
	a = w.call("GET", address(lease.PartitionID, "a"), "")
	want = `{"id":"id1","transactionId":"a","data":{"n":1},"payload":{"n":1},"traceId":null,"producerSub":null,"createdAt":"time.3","partitionId":"id2","partition":"p/1",` +
		`"isEncrypted":false,"queue":"orders.eu","queuePath":"orders.eu/p/1","namespace":"","task":"","status":"dead_letter","errorMessage":"no \"luck\"","retryCount":0,` +
		`"leaseExpiresAt":null,"consumerGroups":[{"name":"__QUEUE_MODE__","group":"__QUEUE_MODE__","consumed":true,"leaseExpiresAt":null},` +
		`{"name":"audit","group":"audit","consumed":true,"leaseExpiresAt":null}],"mode":{"hasQueueMode":true,"busGroupsCount":1,"type":"hybrid"},` +
		`"queueConfig":{"namespace":"","task":"","priority":0,"leaseTime":120,"retryLimit":3,"retryDelay":1000,"maxSize":0,"ttl":3600,"deadLetterQueue":true,` +
		`"dlqAfterMaxRetries":true,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,` +
		`"encryptionEnabled":false,"maxWaitTimeSeconds":0,"minPopWaitTime":0,"dedupWindowSeconds":3600,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800}}`
	if got := masked(a.body); a.status != 200 || got != want {
		t.Errorf("\n got %d %s\nwant 200 %s", a.status, got, want)
	}
}

func TestG300Filters(t *testing.T) {
	w := open(t)
	for i, at := range []struct{ queue, partition string }{
		{"a.x.q", "p"}, {"a.y.q", "p"}, {"b.x.q", "r"}, {"a.x.q", "r"}, {"a.x.q", "p"},
	} {
		w.queued(msg(at.queue, at.partition, fmt.Sprint(i)))
		w.clock.advance(time.Second)
	}
	for params, want := range map[string]string{
		"": "4 3 2 1 0", "queue=a.x.q": "4 3 0", "queue=none": "", "partition=p": "4 1 0", "partition=none": "", "queue=a.x.q&partition=r": "3",
		"namespace=a": "4 3 1 0", "ns=b": "2", "namespace=a&ns=b": "4 3 1 0", "task=x": "4 3 2 0", "namespace=a&task=y": "1",
		"consumerGroup=whatever": "4 3 2 1 0", "limit=2": "4 3", "limit=2&offset=2": "2 1", "offset=4": "0", "offset=9": "", "limit=0": "4",
		"limit=x&offset=y": "4 3 2 1 0", "limit=-5": "4", "offset=-5": "4 3 2 1 0", "status=none": "", "status=": "4 3 2 1 0", "unknown=1": "4 3 2 1 0",
	} {
		var list []string
		if params != "" {
			list = strings.Split(params, "&")
		}
		w.listed(want, list...)
	}
}

// G-300: limit is 200 unless given, and 1,000 at the most.
func TestG300Limit(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 1500)...)
	for params, want := range map[string]int{"": 200, "limit=1000": 1000, "limit=5000": 1000, "limit=1000&offset=1000": 500} {
		if got := w.messages(strings.Split("queue=q&"+params, "&")...); len(got.Messages) != want {
			t.Errorf("%q: %d messages, want %d", params, len(got.Messages), want)
		}
	}
}

func TestG300Times(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		// Each push stands at the beginning of a minute.
		w.clock.advance(time.Minute - w.clock.now().Sub(w.clock.now().Truncate(time.Minute)))
		var at []time.Time
		for i := range 4 {
			w.queued(msg("q", fmt.Sprint(i%2), fmt.Sprint(i)))
			created, err := time.Parse(time.RFC3339Nano, w.messages("limit=1").Messages[0].CreatedAt)
			if err != nil {
				w.t.Fatal(err)
			}
			at = append(at, created)
			step := 30 * time.Minute
			if i == 3 {
				step = 10 * time.Minute // the second is more than an hour ago, the third less
			}
			w.clock.advance(created.Truncate(time.Minute).Add(step).Sub(w.clock.now()))
		}
		again()
		ms := func(i int, d time.Duration) string { return stamp(at[i].Add(d)) }
		w.listed("3 2") // an hour back
		w.listed("3 2 1 0", "from=2020-01-01")
		w.listed("3 2 1", "from="+ms(1, 0)) // inclusive
		w.listed("3 2", "from="+ms(1, time.Millisecond))
		w.listed("1 0", "from=2020-01-01", "to="+ms(1, 0)) // to the end of its minute
		w.listed("0", "from=2020-01-01", "to="+stamp(at[1].Truncate(time.Minute).Add(-time.Millisecond)))
		w.listed("1 0", "from=2020-01-01", "to="+stamp(at[1].Truncate(time.Minute)))
		w.listed("2 1", "from="+ms(1, 0), "to="+ms(2, 0))
		w.listed("", "from="+ms(2, 0), "to="+ms(1, 0))
		w.listed("", "from=2099-01-01")
		w.listed("3 2 1 0", "from=1960-01-01", "to=2099-01-01")
		w.expect("GET", "/api/v1/messages?from=yesterday", "", 400, `{"error":"invalid timestamp: yesterday"}`)
		w.expect("GET", "/api/v1/messages?to=x", "", 400, `{"error":"invalid timestamp: x"}`)
	})
}

// Pages fit together: each message is on one of them, in one order.
func TestG300Pages(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		want := map[string]bool{}
		for i := range 60 {
			items := numbered(fmt.Sprint("q", i%3), fmt.Sprint("p", i%7), fmt.Sprint("m", i, "."), 1+i%4)
			w.queued(items...)
			for _, it := range items {
				want[it.TransactionID] = true
			}
			if i%2 == 0 {
				w.clock.advance(time.Second)
			}
		}
		again()
		whole := w.messages("limit=1000").ids()
		if len(whole) != len(want) {
			w.t.Fatalf("%d messages listed of %d", len(whole), len(want))
		}
		var paged []string
		for len(paged) < len(whole) {
			page := w.messages("limit=7", fmt.Sprint("offset=", len(paged)))
			if page.Total == 0 {
				break
			}
			paged = append(paged, page.ids()...)
		}
		if !slices.Equal(paged, whole) {
			w.t.Errorf("pages\n got %v\nwant %v", paged, whole)
		}
		for _, id := range whole {
			if !want[id] {
				w.t.Errorf("%s is listed twice, or was never pushed", id)
			}
			delete(want, id)
		}
		// Of one time the last one of a partition comes first.
		if got := w.messages("queue=q0", "partition=p0", "limit=3").ids(); got[0] != "m42.2" || got[2] != "m42.0" {
			w.t.Errorf("newest of a partition: %v", got)
		}
	})
}

// G-303: whatever is stored is listed and found, however old.
func TestG303Retained(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.configure("q", `{"dedupWindowSeconds":0}`)
		ids := w.queued(numbered("q", "p", "m", 5)...)
		minted := w.queued(item{Queue: "q", Partition: "p"})[0]
		partition := w.popFrom("q", "p").PartitionID
		w.clock.advance(48 * time.Hour)
		w.queued(msg("q", "p", "m3")) // the same id once more
		again()
		w.clock.advance(24 * time.Hour)
		w.queued(msg("unrelated", "p", "x"))
		w.listed("x m3 "+minted+" m4 m3 m2 m1 m0", "from=2020-01-01")
		if d := w.message(partition, "m2"); d.ID != ids[2] || string(d.Data) != `"m2"` {
			w.t.Errorf("old message: %+v", d)
		}
		if d := w.message(partition, "m3"); d.ID == ids[3] {
			w.t.Error("of two messages with an id the older one is described")
		}
		if d := w.message(partition, minted); d.ID != minted {
			w.t.Errorf("minted: %+v", d)
		}
	})
}

// Many partitions: a page looks into few of them.
func TestG303ManyPartitions(t *testing.T) {
	w := open(t, eagerCheckpoints)
	var items []item
	for i := range 3000 {
		items = append(items, msg("q", fmt.Sprint(i), fmt.Sprint("m", i)))
	}
	w.queued(items...)
	w.filed()
	w.clock.advance(time.Minute)
	w.queued(msg("q", "77", "late"), msg("q", "new", "newest"))
	got := w.messages("limit=3").ids()
	if len(got) != 3 || !slices.Contains(got[:2], "late") || !slices.Contains(got[:2], "newest") {
		t.Errorf("got %v", got)
	}
	if n := len(w.messages("limit=1000", "offset=2500").ids()); n != 502 {
		t.Errorf("%d messages on the last page", n)
	}
}

// Lists are taken while everything they look at changes: each is in order, and has no
// message twice.
func TestG300UnderLoad(t *testing.T) {
	w := open(t, eagerCheckpoints)
	together(6, func(i int) {
		group := fmt.Sprint("g", i%2)
		for n := range 40 {
			switch i {
			case 0, 1:
				w.queued(numbered("q", fmt.Sprint("p", n%5), fmt.Sprint("m", i, ".", n, "."), 3)...)
			case 2, 3:
				p := w.pop("q", "consumerGroup="+group, "batch=2")
				if p == nil {
					continue
				}
				status := []string{"completed", "dlq", "retry"}[n%3]
				w.ack(group, p.Messages[0].as(status))
				for _, d := range w.deadLetters("limit=1") {
					w.call("POST", address(d.PartitionID, d.TransactionID)+"/retry", "")
				}
			default:
				status := []string{"", "pending", "processing", "completed", "dead_letter"}[n%5]
				l := w.messages("limit=50", "status="+status)
				seen := map[string]bool{}
				for _, m := range l.Messages {
					if seen[m.ID] {
						t.Errorf("%s is listed twice", m.TransactionID)
					}
					seen[m.ID] = true
					if d := w.message(m.PartitionID, m.TransactionID); d.ID != m.ID {
						t.Errorf("%s is described as %s", m.ID, d.ID)
					}
				}
			}
		}
	})
	if got := w.messages("limit=1000"); got.Total < 240 {
		t.Errorf("%d messages in the end", got.Total)
	}
}
