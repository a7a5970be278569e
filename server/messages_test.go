package server

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker"
)

// testMessage is a message with a value in every field.
func testMessage() broker.StoredMessage {
	return broker.StoredMessage{
		Message: broker.Message{
			ID: testID(1), TransactionID: []byte("a"), Payload: []byte(`{"n":1}`), ProducerSub: []byte("me"), TraceID: testID(2), CreatedAtMs: 1785402761118,
		},
		Available: true, Queue: `q"`, Namespace: "n", Task: "t", Partition: "p", PartitionID: testID(3), Offset: 7,
		Status: broker.StatusProcessing, QueueStatus: broker.StatusCompleted, DoneBy: 1, Groups: 2, LeaseMs: 1785402761119,
	}
}

func TestMessages(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{})
	check(t, c, "GET", "/api/v1/messages", "", 200, `{"messages":[],"mode":{"hasQueueMode":false,"busGroupsCount":0,"type":"none"},"total":0}`)
	if got := f.browsed; got != (broker.MessageFilter{Limit: 200}) {
		t.Errorf("filter %+v", got)
	}
	gone := testMessage()
	gone.Message, gone.Available, gone.LeaseMs = broker.Message{CreatedAtMs: 1785402761118}, false, 0
	f.page = broker.MessagePage{Messages: []broker.StoredMessage{testMessage(), gone}, Consumption: broker.Consumption{QueueMode: true}, Truncated: true}
	place := `"partitionId":"` + testID(3).String() + `","queuePath":"q\"/p","queue":"q\"","partition":"p","namespace":"n","task":"t",` +
		`"status":"processing","queueStatus":"completed","busStatus":{"consumedBy":1,"totalGroups":2},`
	check(t, c, "GET", "/api/v1/messages?queue=q&partition=p&ns=n&task=t&status=pending&limit=5&offset=2&from=2026-07-30T09:12:41.118Z&to=1970-01-01", "", 200,
		`{"messages":[{"id":"`+testID(1).String()+`","transactionId":"a","txnHash":"ca978112ca1bbdcafac231b39a23dc4d",`+place+
			`"traceId":"`+testID(2).String()+`","producerSub":"me","payloadAvailable":true,"segment":{"seq":7,"frameIdx":0},"isEncrypted":false,`+
			`"createdAt":"2026-07-30T09:12:41.118Z","leaseExpiresAt":"2026-07-30T09:12:41.119Z","data":{"n":1},"payload":{"n":1}},`+
			`{"id":null,"transactionId":null,"txnHash":null,`+place+
			`"traceId":null,"producerSub":null,"payloadAvailable":false,"segment":{"seq":7,"frameIdx":0},"isEncrypted":false,`+
			`"createdAt":"2026-07-30T09:12:41.118Z","leaseExpiresAt":null,"data":null,"payload":null}],`+
			`"mode":{"hasQueueMode":true,"busGroupsCount":0,"type":"queue"},"total":2,"truncated":true}`)
	got := f.browsed
	if *got.FromMs != 1785402761118 || *got.ToMs != 0 {
		t.Errorf("times %d, %d", *got.FromMs, *got.ToMs)
	}
	got.FromMs, got.ToMs = nil, nil
	if want := (broker.MessageFilter{Queue: "q", Partition: "p", Namespace: "n", Task: "t", Status: "pending", Limit: 5, Offset: 2}); got != want {
		t.Errorf("filter %+v, want %+v", got, want)
	}
	f.err = errors.New("boom")
	check(t, c, "GET", "/api/v1/messages", "", 500, internalError+`}`)
}

func TestMessage(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{})
	f.detail = broker.MessageDetail{
		StoredMessage: testMessage(), Dead: true, RetryCount: 3,
		Consumers:   []broker.MessageConsumer{{Group: "g", Done: true}, {Group: "h", LeaseMs: 1785402761119}},
		Consumption: broker.Consumption{Groups: 2},
	}
	f.detail.TransactionID, f.detail.TraceID, f.detail.ProducerSub = nil, uuid.Nil, nil
	target := "/api/v1/messages/" + testID(3).String() + "/a"
	options := string(appendOptions(nil, &broker.QueueOptions{}, true))
	check(t, c, "GET", target, "", 200,
		`{"id":"`+testID(1).String()+`","transactionId":"`+testID(1).String()+`","data":{"n":1},"payload":{"n":1},"traceId":null,"producerSub":null,`+
			`"createdAt":"2026-07-30T09:12:41.118Z","partitionId":"`+testID(3).String()+`","partition":"p","isEncrypted":false,"queue":"q\"","queuePath":"q\"/p",`+
			`"namespace":"n","task":"t","status":"processing","errorMessage":"","retryCount":3,"leaseExpiresAt":"2026-07-30T09:12:41.119Z",`+
			`"consumerGroups":[{"name":"g","group":"g","consumed":true,"leaseExpiresAt":null},`+
			`{"name":"h","group":"h","consumed":false,"leaseExpiresAt":"2026-07-30T09:12:41.119Z"}],`+
			`"mode":{"hasQueueMode":false,"busGroupsCount":2,"type":"bus"},"queueConfig":`+options+`}`)
	check(t, c, "GET", "/api/v1/messages/nope/a", "", 404, `{"error":"Message not found"}`)
	f.err = broker.ErrMessageNotFound
	check(t, c, "GET", target, "", 404, `{"error":"Message not found"}`)
	f.err = broker.ErrPartitionDamaged
	check(t, c, "GET", target, "", 500, `{"error":"partition damaged","code":"partition_damaged"}`)
}

// G-313: a replay that fails says what became of the dead letter.
func TestFailedReplay(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{})
	for _, row := range []struct {
		err    error
		status int
		want   string
	}{
		{broker.ErrStorageFull, 507, `{"error":"storage is full","code":"storage_full","success":false,"dlqRowRemoved":false}`},
		{broker.ErrPartitionDamaged, 500, `{"error":"partition damaged","code":"partition_damaged","success":false,"dlqRowRemoved":false}`},
		{broker.ErrStorageFailed, 503, `{"error":"storage has failed; the outcome of the request is unknown","code":"storage_failed","success":false,"dlqRowRemoved":null}`},
		{errors.New("boom"), 500, internalError + `,"success":false,"dlqRowRemoved":false}`},
	} {
		f.err = row.err
		check(t, c, "POST", "/api/v1/dlq/"+testID(1).String()+"/replay", "", row.status, row.want)
		check(t, c, "POST", "/api/v1/messages/"+testID(1).String()+"/a/retry", "{}", row.status, row.want)
	}
}
