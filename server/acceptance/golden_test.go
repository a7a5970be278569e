package acceptance

import (
	"strings"
	"testing"
)

// TestM019Bytes shows the bytes of one answer of each route.
func TestM019Bytes(t *testing.T) {
	w := open(t)
	step := func(method, target, body string, status int, want string) string {
		t.Helper()
		a := w.call(method, target, body)
		if got := masked(a.body); a.status != status || got != want {
			t.Errorf("%s %s\n got %d %s\nwant %d %s", method, target, a.status, got, status, want)
		}
		return string(a.body)
	}
	between := func(s, from, to string) string {
		_, s, _ = strings.Cut(s, from)
		s, _, _ = strings.Cut(s, to)
		return s
	}

	step("POST", "/api/v1/configure", `{"queue":"orders.eu","namespace":"orders","options":{"leaseTime":120,"retryLimit":0}}`, 200,
		`{"configured":true,"queueId":"id1","partitionId":null,"queue":"orders.eu","namespace":"orders","task":"","storage":"segments",`+
			`"options":{"priority":0,"leaseTime":120,"retryLimit":0,"retryDelay":1000,"maxSize":0,"ttl":3600,"deadLetterQueue":true,`+
			`"dlqAfterMaxRetries":true,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,`+
			`"retentionEnabled":false,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"minPopWaitTime":0,"dedupWindowSeconds":3600,`+
			`"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800}}`)
	step("POST", "/api/v1/push", `{"items":[{"queue":"orders.eu","partition":"p","transactionId":"a","payload":{"n": 1}},`+
		`{"queue":"orders.eu","partition":"p","transactionId":"a","payload":2},{"queue":"orders.eu","partition":"p","payload":null}]}`, 201,
		`[{"index":0,"message_id":"id1","transaction_id":"a","queueName":"orders.eu","status":"queued"},`+
			`{"index":1,"message_id":"id1","transaction_id":"a","queueName":"orders.eu","status":"duplicate"},`+
			`{"index":2,"message_id":"id2","transaction_id":"id2","queueName":"orders.eu","status":"queued"}]`)
	pop := step("GET", "/api/v1/pop/queue/orders.eu/partition/p?batch=1", "", 200,
		`{"success":true,"queue":"orders.eu","partition":"p","partitionId":"id1","leaseId":"id2","consumerGroup":"__QUEUE_MODE__",`+
			`"messages":[{"id":"id3","transactionId":"a","traceId":null,"data":{"n": 1},"producerSub":null,"createdAt":"time.3",`+
			`"partitionId":"id1","partition":"p","leaseId":"id2","consumerGroup":"__QUEUE_MODE__"}],"partitionsClaimed":1}`)
	lease, partition := between(pop, `"leaseId":"`, `"`), between(pop, `"partitionId":"`, `"`)
	step("POST", "/api/v1/lease/"+lease+"/extend", `{"seconds":200}`, 200,
		`{"leaseId":"id1","success":true,"renewed":1,"newExpiresAt":"time.6","expiresAt":"time.6","lease_expires_at":"time.6"}`)
	step("POST", "/api/v1/lease/nope/extend", ``, 200,
		`{"leaseId":"nope","success":false,"renewed":0,"newExpiresAt":null,"expiresAt":null,"lease_expires_at":null}`)
	step("POST", "/api/v1/ack", `{"transactionId":"zz","partitionId":"`+partition+`"}`, 200,
		`[{"index":0,"transactionId":"zz","success":false,"error":"`+unresolvable+`","leaseReleased":false,"dlq":false,"noop":false}]`)
	step("POST", "/api/v1/ack/batch", `{"acknowledgments":[{"transactionId":"a","partitionId":"`+partition+`","leaseId":"`+lease+`","status":"failed","error":"no \"luck\""}]}`, 200,
		`[{"index":0,"transactionId":"a","success":true,"error":null,"leaseReleased":true,"dlq":true,"noop":false}]`)
	step("GET", "/api/v1/pop?namespace=orders&autoAck=true&consumerGroup=audit", "", 200,
		`{"success":true,"queue":"","partition":"p","partitionId":"id1","leaseId":"","consumerGroup":"audit",`+
			`"messages":[{"id":"id2","transactionId":"a","traceId":null,"data":{"n": 1},"producerSub":null,"createdAt":"time.3",`+
			`"partitionId":"id1","partition":"p","leaseId":"","consumerGroup":"audit"},`+
			`{"id":"id3","transactionId":"id3","traceId":null,"data":null,"producerSub":null,"createdAt":"time.3",`+
			`"partitionId":"id1","partition":"p","leaseId":"","consumerGroup":"audit"}],"partitionsClaimed":1}`)

	list := step("GET", "/api/v1/dlq?limit=5", "", 200,
		`{"messages":[{"id":"id1","transactionId":"a","partitionId":"id2","queue":"orders.eu","partition":"p","consumerGroup":"__QUEUE_MODE__",`+
			`"errorMessage":"no \"luck\"","retryCount":0,"data":{"n": 1},"producerSub":null,"createdAt":"time.3","failedAt":"time.3"}],`+
			`"pagination":{"limit":5,"offset":0},"total":1}`)
	letter := between(list, `"id":"`, `"`)
	replayed := step("POST", "/api/v1/messages/"+partition+"/a/retry", `{}`, 200,
		`{"success":true,"result":"moved","queue":"orders.eu","partition":"p","consumerGroup":"__QUEUE_MODE__","dlqId":"id1",`+
			`"originalTransactionId":"a","replayedAs":{"index":0,"message_id":"id2","transaction_id":"dlq:id1","queueName":"orders.eu",`+
			`"status":"queued","offset":2},"dlqRowRemoved":true}`)
	if got := between(replayed, `"dlqId":"`, `"`); got != letter {
		t.Errorf("replayed %s, listed %s", got, letter)
	}
	step("DELETE", "/api/v1/messages/"+partition+"/a", "", 404,
		`{"success":false,"partitionId":"id1","transactionId":"a","error":"Message not found","message":"No dead letter with this address"}`)
	step("DELETE", "/api/v1/dlq?queue=orders.eu", "", 200, `{"success":true,"deleted":0,"queue":"orders.eu","consumerGroup":null}`)

	step("GET", "/api/v1/resources/queues/none", "", 404, `{"error":"Queue not found"}`)
	detail := string(w.call("GET", "/api/v1/resources/queues/orders.eu", "").body)
	detail = strings.Replace(detail, between(detail, `"retainedBytes":`, `,`), "N", 1)
	want := `{"id":"id1","name":"orders.eu","namespace":"orders","task":"","createdAt":"time.3","partitions":[{"id":"id2","name":"p","createdAt":"time.3",` +
		`"stats":{"total":3,"pending":2,"processing":0,"completed":1,"failed":null,"deadLetter":0},"oldestMessage":"time.3","newestMessage":"time.3"}],` +
		`"totals":{"total":3,"pending":2,"processing":0,"completed":1,"failed":null,"deadLetter":0},"retainedBytes":N,"segments":{"segments":0,"messages":3},` +
		`"options":{"namespace":"orders","task":"","priority":0,`
	if got := masked([]byte(detail)); !strings.HasPrefix(got, want) {
		t.Errorf("detail\n got %s\nwant %s…", got, want)
	}
	list = string(w.call("GET", "/api/v1/resources/queues", "").body)
	list = strings.Replace(list, between(list, `"retainedBytes":`, `,`), "N", 1)
	want = `{"queues":[{"id":"id1","name":"orders.eu","namespace":"orders","task":"","createdAt":"time.3","partitions":1,"retainedBytes":N,` +
		`"segments":{"segments":0,"messages":3},"messages":{"total":3,"pending":2,"processing":0}}]}`
	if got := masked([]byte(list)); got != want {
		t.Errorf("list\n got %s\nwant %s", got, want)
	}
	step("DELETE", "/api/v1/resources/queues/orders.eu", "", 200, `{"deleted":true,"queue":"orders.eu","existed":true}`)
}
