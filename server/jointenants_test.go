package server

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker"
)

// G-832: queues and groups of several tenants that have a name in common are one series: a
// name that came twice would be left out, or be that of one tenant alone.
func TestG832MetricsJoinTenants(t *testing.T) {
	f := newFake()
	counted := func(pushed, popped, lag int64) (c broker.Traffic) {
		c[broker.PushedMessages], c[broker.PoppedMessages], c[broker.LagMs] = pushed, popped, lag
		return c
	}
	ids := []uuid.UUID{{1}, {2}, {3}}
	f.traffic = []broker.QueueTraffic{
		{ID: ids[0], Tenant: broker.DefaultTenant, Name: "q", DeadLetters: 1, Damaged: 1, Parked: 2, MaxLagMs: 7, Traffic: counted(1, 1, 10)},
		{ID: ids[1], Tenant: broker.DefaultTenant, Name: "r", DeadLetters: 5, Traffic: counted(4, 0, 0)},
		{ID: ids[2], Tenant: broker.Tenant{9}, Name: "q", DeadLetters: 2, Damaged: 3, Parked: 4, MaxLagMs: 9, Traffic: counted(2, 3, 50)},
	}
	f.stats.Parked = 7
	f.groups = []broker.GroupInfo{
		{Name: "g", Queue: "q", Lag: 1, LagSeconds: 30}, {Name: "g", Queue: "q", Lag: 10, LagSeconds: 20}, {Name: "g", Queue: "r", Lag: 5},
		{Name: "h", Queue: "q", Lag: 3},
	}
	now := time.Unix(1000, 0)
	c := startMemory(t, f, Options{Now: func() time.Time { return now }})
	for range 2 { // what was joined is not what is counted
		_, body, _ := rawCall(t, c, "GET", "/metrics/prometheus")
		for _, want := range []string{
			`queen_dlq_depth_by_queue{queue="q"} 3`, `queen_dlq_depth_by_queue{queue="r"} 5`, `queen_damaged_partitions_by_queue{queue="q"} 4`,
			`queen_parked_long_polls{queue="q"} 6`, `queen_parked_long_polls{queue=""} 1`,
			`queen_queue_push_messages_per_minute{queue="q"} 3`, `queen_queue_push_messages_per_minute{queue="r"} 4`,
			`queen_queue_pop_messages_per_minute{queue="q"} 4`, `queen_queue_parked_consumers{queue="q"} 6`,
			`queen_queue_pop_lag_milliseconds{queue="q",stat="avg"} 15`, `queen_queue_pop_lag_milliseconds{queue="q",stat="max"} 9`,
			`queen_group_lag_messages{group="g",queue="q"} 11`, `queen_group_lag_seconds{group="g",queue="q"} 30`,
			`queen_group_lag_messages{group="g",queue="r"} 5`, `queen_group_lag_messages{group="h",queue="q"} 3`, `queen_groups 4`,
		} {
			if strings.Count(body, "\n"+want+"\n") != 1 {
				t.Errorf("want once %s in %s", want, body)
			}
		}
	}
}

// The newest of the minutes is how old they are.
func TestJoinedMinutesHaveTheLatestEnd(t *testing.T) {
	early, late := time.Unix(60, 0), time.Unix(120, 0)
	minute := func(tenant byte, end time.Time) queueMinute {
		return queueMinute{broker.QueueTraffic{Tenant: broker.Tenant{tenant}, Name: "q"}, end}
	}
	for _, all := range [][]queueMinute{{minute(1, early), minute(2, late)}, {minute(1, late), minute(2, early)}} {
		if got := joinMinutes(all); len(got) != 1 || !got[0].end.Equal(late) {
			t.Errorf("got %+v", got)
		}
	}
}
