package acceptance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker"
)

const (
	tenantOne = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	tenantTwo = "6ba7b811-9dad-11d1-80b4-00c04fd430c8"
)

// everyTenant are the default one, by its name and without, two others, one of them under
// two spellings, and the one of zeros.
var everyTenant = []string{"", tenantOne, tenantTwo, uuid.Nil.String()}

// of is an item whose payload says whose it is.
func of(tenant, queue, partition, id string) item {
	return item{queue, partition, id, json.RawMessage(quote(tenant + id))}
}

// wantAll takes the queue of every tenant, and wants ids of each, his own.
func (w *world) wantAll(queue string, ids ...string) {
	w.t.Helper()
	for _, tenant := range everyTenant {
		v := w.as(tenant)
		got := v.take(queue)
		if len(got) != len(ids) {
			w.t.Fatalf("tenant %q has %d messages, want %v", tenant, len(got), ids)
		}
		for i, m := range got {
			if m.TransactionID != ids[i] || string(m.Data) != quote(tenant+ids[i]) {
				w.t.Errorf("tenant %q: message %d is %s %s, want %s", tenant, i, m.TransactionID, m.Data, ids[i])
			}
		}
	}
}

// G-830, G-831, G-834: what there was before is the default tenant's, with its name and
// without; what others have outlives restarts, crashes, and a start without the setting,
// which serves the default tenant alone and does not read the header.
func TestG834SwitchedOnAndOff(t *testing.T) {
	w := open(t, eagerCheckpoints)
	w.as(tenantOne).queued(of("", "q", "p", "before")) // not read
	w.stop()
	w.server.TenancyHeader = true
	w.start()
	for _, tenant := range everyTenant[1:] {
		v := w.as(tenant)
		if names := v.queueNames(); len(names) != 0 {
			t.Errorf("tenant %q begins with %v", tenant, names)
		}
		v.queued(of(tenant, "q", "p", "before"))
	}
	w.filed()
	w.as(broker.DefaultTenant.String()).queued(of("", "q", "p", "named"))
	w.as(tenantTwo).queued(of(tenantTwo, "q", "p", "named"))
	w.as(strings.ToUpper(tenantOne)).queued(of(tenantOne, "q", "p", "named"))
	w.as(uuid.Nil.String()).queued(of(uuid.Nil.String(), "q", "p", "named"))
	w.crash()
	letters := map[string]string{}
	for _, tenant := range everyTenant {
		letters[tenant] = w.as(tenant).letter("set aside", "p", tenant+"x", "g").ID
	}
	w.stop()
	w.server.TenancyHeader = false
	w.start()
	for _, tenant := range everyTenant { // all are the default one
		v := w.as(tenant)
		if ids := v.deadLetters(); len(ids) != 1 || ids[0].ID != letters[""] || v.queue("q").Totals.Total != 2 {
			t.Errorf("without the setting: %+v", ids)
		}
	}
	w.stop()
	w.server.TenancyHeader = true
	w.start()
	for _, tenant := range everyTenant {
		if ids := w.as(tenant).deadLetters(); len(ids) != 1 || ids[0].ID != letters[tenant] {
			t.Errorf("tenant %q has the dead letters %+v", tenant, ids)
		}
	}
	w.wantAll("q", "before", "named")
}

// G-832: what is spooled goes to who pushed it, over a restart too, with equal names and
// transaction ids; and each has duplicates of his own.
func TestG832Spool(t *testing.T) {
	w := open(t, withTenants)
	for _, tenant := range everyTenant {
		w.as(tenant).queued(of(tenant, "q", "p", "stored"))
	}
	w.maintain(true)
	for _, id := range []string{"a", "stored", "b"} {
		for _, tenant := range everyTenant {
			w.as(tenant).buffered(of(tenant, "q", "p", id))
		}
	}
	w.crash()
	for _, tenant := range everyTenant {
		v := w.as(tenant)
		v.buffered(of(tenant, "q", "p", "c"))
		if names := fmt.Sprint(v.queueNames()); names != "[q]" {
			t.Errorf("tenant %q sees %s", tenant, names)
		}
	}
	w.restart()
	w.drained()
	w.wantAll("q", "stored", "a", "b", "c")
}

// G-832: a pop that waits is not answered with what another has pushed, made or labelled
// under the same names, and is with what its own tenant does.
func TestG832ParkedPops(t *testing.T) {
	w := open(t, withTenants)
	one, two := w.as(tenantOne), w.as(tenantTwo)
	one.configureRaw(`{"queue":"there","namespace":"n","options":{}}`)
	one.queued(msg("there", "other", "old"))
	one.wantTaken("there", "old")
	const wait = "timeout=60000"
	pops := []<-chan *popAnswer{
		later(func() *popAnswer { return one.pop("there", "wait=true", wait) }),
		later(func() *popAnswer { return one.popFrom("there", "p", "wait=true", wait, "consumerGroup=pinned") }),
		later(func() *popAnswer { return one.popFrom("new", "p", "wait=true", wait) }),
		later(func() *popAnswer {
			return one.discover("namespace=n", "wait=true", wait, "consumerGroup=labels", "subscriptionMode=new")
		}),
		later(func() *popAnswer { return one.discover("namespace=later", "wait=true", wait) }),
	}
	w.parked(len(pops))
	two.configureRaw(`{"queue":"there","namespace":"n","options":{}}`)
	two.queued(msg("there", "p", "theirs"), msg("new", "p", "theirs"), msg("later.q", "p", "theirs"))
	two.seek(queueMode, "there", `{"timestamp":"1970-01-01T00:00:00Z"}`)
	two.deleteGroup("pinned", "")
	two.want(two.pop("there"), "theirs")
	two.want(two.discover("namespace=later"), "theirs")
	two.deleteQueue("there")
	w.running.broker.CatchUp()
	w.still(pops...)

	one.queued(msg("there", "p", "m0"), msg("new", "p", "m1"), msg("later.q", "p", "m2"))
	for i, want := range []string{"m0", "m0", "m1", "m0", "m2"} {
		w.want(<-pops[i], want)
	}
}

// G-832, G-113: metrics are of the whole broker. What two tenants have under one name is one
// series.
func TestG832Metrics(t *testing.T) {
	w := open(t, withTenants)
	for _, tenant := range everyTenant {
		v := w.as(tenant)
		v.letter("q", "p", "x", "g")
		v.queued(msg("q", "p", "m"))
	}
	w.wantMetrics(map[string]float64{
		`queen_dlq_depth_by_queue{queue="q"}`:             4,
		`queen_queue_push_messages_per_minute{queue="q"}`: 8,
		`queen_group_lag_messages{group="g",queue="q"}`:   4,
		`queen_groups`: 4,
		`queen_queues`: 4,
	})
}

// G-160: an overview tells a tenant that is named of his own traffic, and the default one of
// all.
func TestG160Tenants(t *testing.T) {
	w := open(t, withTenants)
	for i, tenant := range everyTenant {
		v := w.as(tenant)
		v.queued(numbered("q", "p", "m", 300*(i+1))...)
		v.ackAll("", v.pop("q", fmt.Sprint("batch=", 30*(i+1))))
		for n := range i {
			v.configure(fmt.Sprint("empty", n), "{}")
		}
	}
	w.rolled()
	want := func(rates ...string) {
		t.Helper()
		for i, tenant := range everyTenant {
			stored, done, lag, queues := 300*(i+1), 30*(i+1), 270*(i+1), 1+i
			if tenant == "" {
				stored, done = 3000, 300
			}
			body := string(w.as(tenant).get("/api/v1/resources/overview"))
			for _, part := range []string{
				fmt.Sprintf(`{"queues":%d,`, queues), fmt.Sprintf(`"messages":{"total":%d,`, stored), fmt.Sprintf(`"completed":%d,`, done),
				fmt.Sprintf(`"offset":{"avg":%d,`, lag), `"ingestedPerSecond":` + rates[i] + ",",
			} {
				if !strings.Contains(body, part) {
					t.Errorf("tenant %q: no %s in %s", tenant, part, body)
				}
			}
		}
	}
	want("10.00", "2.00", "3.00", "4.00")
	for range 6 {
		w.clock.advance(60_000_000_000)
		w.rolled()
	}
	want("0.00", "0.00", "0.00", "0.00")
	w.as(tenantOne).deleteQueue("q")
	if body := string(w.as(tenantOne).get("/api/v1/resources/overview")); !strings.Contains(body, `"messages":{"total":0,`) || !strings.Contains(body, `"ingestedPerSecond":0.00`) {
		t.Errorf("after the queue is gone: %s", body)
	}
}
