package server

import (
	"testing"

	"github.com/skepmq/skep/broker"
)

// G-200 to G-203, G-205: the bytes.
func TestGroupLists(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{})
	check(t, c, "GET", "/api/v1/consumer-groups", "", 200, `[]`)
	check(t, c, "GET", "/api/v1/consumer-groups/lagging", "", 200, `[]`)
	check(t, c, "GET", "/api/v1/consumer-groups/g", "", 200, `{}`)

	f.groups = []broker.GroupInfo{
		{Name: "billing", Queue: "orders", Cursors: 8, PartitionsWithLag: 2, Lag: 314, LagSeconds: 42, Consumed: true,
			Registered: true, Mode: "new", InstantMs: 1785402761118, CreatedMs: 1785402761119, Conflation: true},
		{Name: "billing", Queue: "x", LagSeconds: 301, Registered: true, Mode: "all", CreatedMs: 1785402761119, Consumed: true},
		{Name: "never", Queue: "x", LagSeconds: 300, EvictedUnread: 7},
	}
	check(t, c, "GET", "/api/v1/consumer-groups", "", 200,
		`[{"name":"billing","topics":["orders"],"queueName":"orders","members":8,"partitionCursors":8,"partitionsWithLag":2,"totalLag":314,"maxTimeLag":42,"state":"Stable","storage":"segments",`+
			`"subscriptionMode":"new","subscriptionTimestamp":"2026-07-30T09:12:41.118Z","subscriptionCreatedAt":"2026-07-30T09:12:41.119Z","conflation":true,"evictedUnread":0},`+
			`{"name":"billing","topics":["x"],"queueName":"x","members":0,"partitionCursors":0,"partitionsWithLag":0,"totalLag":0,"maxTimeLag":301,"state":"Lagging","storage":"segments",`+
			`"subscriptionMode":"all","subscriptionTimestamp":"1970-01-01T00:00:00.000Z","subscriptionCreatedAt":"2026-07-30T09:12:41.119Z","conflation":false,"evictedUnread":0},`+
			`{"name":"never","topics":["x"],"queueName":"x","members":0,"partitionCursors":0,"partitionsWithLag":0,"totalLag":0,"maxTimeLag":300,"state":"Dead","storage":"segments",`+
			`"subscriptionMode":null,"subscriptionTimestamp":null,"subscriptionCreatedAt":null,"conflation":false,"evictedUnread":7}]`)

	part := broker.GroupPartition{Partition: "p", PartitionID: testID(1), Lag: 3, OldestMs: 1785402761118, LagSeconds: 7409, Consumed: 5}
	leased := part
	leased.LeaseID, leased.LastConsumedMs = testID(2), 1785402761119
	f.lagging = []broker.LaggingPartition{{Group: "g", Queue: "q", GroupPartition: part}, {Group: "g", Queue: "q", GroupPartition: leased}}
	const row = `{"consumer_group":"g","queue_name":"q","partition_name":"p","partition_id":` + id1 + `,"worker_id":`
	const behind = `,"offset_lag":3,"time_lag_seconds":7409,"lag_hours":2.06,"oldest_unconsumed_at":"2026-07-30T09:12:41.118Z","last_consumed_at":`
	check(t, c, "GET", "/api/v1/consumer-groups/lagging?minLagSeconds=60", "", 200,
		`[`+row+`null`+behind+`null},`+row+id2+behind+`"2026-07-30T09:12:41.119Z"}]`)

	f.groupQueues = []broker.GroupQueue{{Queue: "a", EvictedUnread: 7, Partitions: []broker.GroupPartition{part, leased}, Count: 2}, {Queue: "b", Conflation: true, Count: 1}}
	check(t, c, "GET", "/api/v1/consumer-groups/g", "", 200,
		`{"a":{"conflation":false,"evictedUnread":7,"partitions":[{"partition":"p","workerId":null,"lastConsumedAt":null,"totalConsumed":5,"offsetLag":3,"timeLagSeconds":7409,"leaseActive":false},`+
			`{"partition":"p","workerId":`+id2+`,"lastConsumedAt":"2026-07-30T09:12:41.119Z","totalConsumed":5,"offsetLag":3,"timeLagSeconds":7409,"leaseActive":true}],"partitionCount":2},`+
			`"b":{"conflation":true,"evictedUnread":0,"partitions":[],"partitionCount":1,"partitionsTruncated":true}}`)
}

// What the parameters of the routes mean; G-006: truth values in all their spellings.
func TestGroupParameters(t *testing.T) {
	f := newFake()
	f.removed = 7
	c := startMemory(t, f, Options{})
	for _, row := range []struct{ method, target, body, asked string }{
		{"GET", "/api/v1/consumer-groups/lagging", "", "3600 10000"},
		{"GET", "/api/v1/consumer-groups/lagging?minLagSeconds=5&limit=20000", "", "5 10000"},
		{"GET", "/api/v1/consumer-groups/lagging?minLagSeconds=x&limit=-1", "", "3600 0"},
		{"GET", "/api/v1/consumer-groups/a%2Fb", "", "a/b0 10000"},
		{"GET", "/api/v1/consumer-groups/g?partitionOffset=3&partitionLimit=4", "", "g3 4"},
		{"GET", "/api/v1/consumer-groups/g?partitionOffset=-3&partitionLimit=-1", "", "g0 2147483647"},
		{"DELETE", "/api/v1/consumer-groups/g", "", "gfalse"},
		{"DELETE", "/api/v1/consumer-groups/g?deleteMetadata=true", "", "gfalse"},
		{"DELETE", "/api/v1/consumer-groups/g?deleteMetadata=false", "", "gtrue"},
		{"DELETE", "/api/v1/consumer-groups/g?deleteMetadata=0", "", "gtrue"},
		{"DELETE", "/api/v1/consumer-groups/g?deleteMetadata=no", "", "gtrue"},
		{"DELETE", "/api/v1/consumer-groups/g?deleteMetadata=1", "", "gfalse"},
		{"DELETE", "/api/v1/consumer-groups/g?deleteMetadata=yes", "", "gfalse"},
		{"DELETE", "/api/v1/consumer-groups/g?deleteMetadata=", "", "gfalse"},
		{"DELETE", "/api/v1/consumer-groups/g?deleteMetadata=False", "", "gfalse"},
		{"DELETE", "/api/v1/consumer-groups//queues/q?deleteMetadata=false", "", "__QUEUE_MODE__ qtrue"},
		{"POST", "/api/v1/consumer-groups/g/subscription", `{"subscriptionTimestamp":"1970-01-01T00:00:01.5Z"}`, "g1500"},
		{"POST", "/api/v1/consumer-groups/g/queues/q/seek", `{"timestamp":"1970-01-01T00:00:01Z"}`, "g q{false 1000}"},
		{"POST", "/api/v1/consumer-groups/g/queues/q/partitions/p/seek", ``, "g q p{true 0}"},
	} {
		if status, body, _ := call(t, c, row.method, row.target, row.body); status != 200 || f.asked != row.asked {
			t.Errorf("%s %s: asked %q, want %q; %d %s", row.method, row.target, f.asked, row.asked, status, body)
		}
	}
	check(t, c, "DELETE", "/api/v1/consumer-groups/g", "", 200, `{"success":true,"consumerGroup":"g","deletedPartitions":7,"metadataDeleted":true}`)
	check(t, c, "DELETE", "/api/v1/consumer-groups/g/queues/q?deleteMetadata=false", "", 200,
		`{"success":true,"consumerGroup":"g","queueName":"q","deletedPartitions":7,"metadataDeleted":false}`)
}

// Errors of the broker reach the client as everywhere.
func TestGroupFailures(t *testing.T) {
	f := newFake()
	f.err = broker.ErrStorageFailed
	c := startMemory(t, f, Options{})
	for _, row := range []struct{ method, target, body string }{
		{"GET", "/api/v1/consumer-groups", ""},
		{"GET", "/api/v1/consumer-groups/lagging", ""},
		{"GET", "/api/v1/consumer-groups/g", ""},
		{"DELETE", "/api/v1/consumer-groups/g", ""},
		{"DELETE", "/api/v1/consumer-groups/g/queues/q", ""},
		{"POST", "/api/v1/consumer-groups/g/subscription", `{"subscriptionTimestamp":"2026-07-30"}`},
		{"POST", "/api/v1/consumer-groups/g/queues/q/seek", `{"toEnd":true}`},
		{"POST", "/api/v1/consumer-groups/g/queues/q/partitions/p/seek", ``},
		{"GET", "/api/v1/resources/queues/q/depth?group=g", ""},
	} {
		if status, body, _ := call(t, c, row.method, row.target, row.body); status != 503 {
			t.Errorf("%s %s: %d %s", row.method, row.target, status, body)
		}
	}
}
