package openapi

// popParameters are those of every pop.
var popParameters = []field{
	{"batch?", "integer = 200", "Messages of the call, over all partitions. Below 1 acts as 1."},
	{"partitions?", "integer = 1", "Partitions of the call; 0 or less is no limit. A pop of one partition ignores it."},
	{"consumerGroup?", "string = '__QUEUE_MODE__'", "The group that consumes. It comes into being with its first pop."},
	{"leaseSeconds?", "integer", "How long the messages are leased; absent, 0 or less: the queue's leaseTime."},
	{"autoAck?", "boolean = false", "Acknowledge in the same step. There is no lease, and what is lost on the way is lost."},
	{"wait?", "boolean = false", "Wait for messages if there are none."},
	{"timeout?", "integer ..600000 = 30000", "How long to wait, in milliseconds; more acts as 600000. DEFAULT_TIMEOUT changes the default."},
	{"subscriptionMode?", "string", "Where a new group begins: all, with the oldest message, or new, with what is stored from now on. DEFAULT_SUBSCRIPTION_MODE is the default."},
	{"subscriptionFrom?", "string", "Where a new group begins: an instant, or now."},
	{"conflation?", "boolean = false", "Register the group for the newest message of each partition alone."},
}

// popAnswers are those of every pop that is read.
var popAnswers = []answer{
	{200, "Popped", "Messages, leased. With conflation also an answer without any.", `{"success":true,"queue":"orders.created","partition":"customer-42","partitionId":"5dbb8c28-2838-8fdd-8000-000000000001","leaseId":"01a228c7-5e96-73e4-a853-8dccb93fe156","consumerGroup":"billing","messages":[{"id":"01a228c7-5e88-77e8-a068-a90000000000","transactionId":"order-1","traceId":null,"data":{"id":1},"producerSub":null,"createdAt":"2026-11-29T19:28:04.232Z","partitionId":"5dbb8c28-2838-8fdd-8000-000000000001","partition":"customer-42","leaseId":"01a228c7-5e96-73e4-a853-8dccb93fe156","consumerGroup":"billing"}],"partitionsClaimed":1}`},
	{204, "", "There is nothing to deliver.", ""},
}

var consuming = area{
	tag: "Pop and acknowledge", text: "Lease messages, work on them, and say what came of it.",
	operations: []operation{
		{
			route: "GET /api/v1/pop/queue/:queue", id: "popQueue",
			summary: "Lease messages of a queue",
			text: `From the partitions that have something to deliver and no live lease of the group, in turn. A queue
that does not exist is made. HEAD is not answered: a pop consumes.`,
			query: popParameters, answers: popAnswers,
		},
		{
			route: "GET /api/v1/pop/queue/:queue/partition/:partition", id: "popPartition",
			summary: "Lease messages of one partition",
			text:    "As of a queue, but it makes no queue and registers no group.",
			query:   popParameters, answers: popAnswers,
		},
		{
			route: "GET /api/v1/pop", id: "popByLabel",
			summary: "Lease messages of all queues with a label",
			text:    "At least one of namespace and task is needed; of both, both must match. Messages do not tell their queue.",
			query: append([]field{
				{"namespace?", "string", "Label of the queues."},
				{"task?", "string", "Label of the queues."},
			}, popParameters...),
			answers: append([]answer{
				{400, "NoLabel|Error", "Neither label is given, or a parameter cannot be read.", `{"success":false,"error":"namespace or task is required","messages":[]}`},
			}, popAnswers...),
		},
		{
			route: "POST /api/v1/ack", id: "ack",
			summary: "Acknowledge one message",
			text: `Completing a message completes all before it in its partition. A failure stops the cursor before it.
The answer is an array of one verdict, once the cursor is on disk; a verdict that refuses is a 200 as well.`,
			body:    &body{typ: "Ack", example: `{"transactionId":"order-1","partitionId":"5dbb8c28-2838-8fdd-8000-000000000001","leaseId":"01a228c7-5e96-73e4-a853-8dccb93fe156","status":"completed"}`},
			answers: []answer{{200, "AckResult[]", "The verdict.", exampleAck}},
		},
		{
			route: "POST /api/v1/ack/batch", id: "ackBatch",
			summary: "Acknowledge many messages",
			text:    "Acknowledgements of one partition and one lease are decided together; others of the call are not concerned.",
			body:    &body{typ: "AckBatch", text: "Up to 200,000 acknowledgements.", example: `{"consumerGroup":"billing","acknowledgments":[{"transactionId":"order-2","partitionId":"5dbb8c28-2838-8fdd-8000-000000000001","status":"retry"}]}`},
			answers: []answer{{200, "AckResult[]", "The verdict on each, in their order.", exampleAck}},
		},
		{
			route: "POST /api/v1/lease/:leaseId/extend", id: "extendLease",
			summary: "Work longer",
			text: `Moves the deadline of everything still leased under this id. A deadline is never moved to an earlier
time, and a lease that has ended stays so. Always 200; the body is the verdict.`,
			body:    &body{typ: "Extension", text: "None, or one that says nothing of use, is 60 seconds.", example: `{"seconds":120}`, optional: true},
			answers: []answer{{200, "Extended", "The verdict.", `{"leaseId":"01a228c7-5e96-73e4-a853-8dccb93fe156","success":true,"renewed":2,"newExpiresAt":"2026-11-29T19:30:04.512873Z","expiresAt":"2026-11-29T19:30:04.512873Z","lease_expires_at":"2026-11-29T19:30:04.512873Z"}`}},
		},
	},
	schemas: []schema{
		{name: "Popped", text: "Without messages it has only what is said of conflation.", fields: []field{
			{"success?", "boolean", ""},
			{"queue?", "string", "Empty in a pop by label."},
			{"partition?", "string", "That of the first message."},
			{"partitionId?", "uuid", "That of the first message."},
			{"leaseId?", "string", "Of everything in the answer; empty with autoAck."},
			{"consumerGroup?", "string", ""},
			{"messages", "Message[]", "Those of a partition stand together, in order."},
			{"partitionsClaimed?", "count", ""},
			{"paused?", "boolean", "True under pop maintenance."},
			{"conflation?", "boolean", "True where the group gets the newest message alone."},
			{"conflationConflict?", "boolean", "True where conflation was asked for, and the group is registered without."},
		}},
		{name: "Message", fields: []field{
			{"id", "uuid", ""},
			{"transactionId", "string", "What an acknowledgement names, with partitionId."},
			{"traceId", "uuid|null", "Only of messages pushed by a transaction."},
			{"data", "Payload", ""},
			{"producerSub", "string|null", "The sub of the token it was pushed with."},
			{"createdAt", "time", "When it was stored."},
			{"partitionId", "uuid", ""},
			{"partition", "string", ""},
			{"leaseId", "string", "Empty with autoAck."},
			{"consumerGroup", "string", ""},
			{"deliveryAttempt?", "count", "From 1, with SKEP_DELIVERY_DETAILS on."},
			{"offset?", "count", "Its number in its partition, with SKEP_DELIVERY_DETAILS on."},
		}},
		{name: "NoLabel", fields: []field{
			{"success", "boolean", ""}, {"error", "string", ""}, {"messages", "Message[]", "Empty."},
		}},
		{name: "Ack", fields: append(ackFields, field{"consumerGroup?", "string|null", "Absent: __QUEUE_MODE__."})},
		{name: "AckOfBatch", fields: ackFields},
		{name: "AckBatch", fields: []field{
			{"consumerGroup?", "string|null", "Of all acknowledgements. Absent: __QUEUE_MODE__."},
			{"acknowledgments", "AckOfBatch[]", ""},
		}},
		{name: "AckResult", fields: []field{
			{"index", "count", ""},
			{"transactionId", "string", ""},
			{"success", "boolean", "The instruction was carried out. That of a failure is too."},
			{"error", "string|null", "Null with success, else why not."},
			{"leaseReleased", "boolean", "The lease of this partition has ended."},
			{"dlq", "boolean", "The message has become a dead letter."},
			{"noop", "boolean", "It had been completed before."},
			{"conflated?", "count", "Messages that were passed over, of an acknowledgement that completes the lease of a conflating group."},
		}},
		{name: "Extension", fields: []field{{"seconds?", "any", "From now, a whole number; below 1 acts as 1, what is none as 60."}}},
		{name: "Extended", fields: []field{
			{"leaseId", "string", ""},
			{"success", "boolean", "Something was extended."},
			{"renewed", "count", "Partitions."},
			{"newExpiresAt", "time|null", "The earliest of the new deadlines."},
			{"expiresAt", "time|null", "The same."},
			{"lease_expires_at", "time|null", "The same."},
		}},
	},
}

const exampleAck = `[{"index":0,"transactionId":"order-1","success":true,"error":null,"leaseReleased":false,"dlq":false,"noop":false}]`

// ackFields are the members of an acknowledgement that a batch has for each.
var ackFields = []field{
	{"transactionId?", "string|null", "Absent it resolves to nothing."},
	{"partitionId?", "string|null", "From the message. Without it the acknowledgement fails."},
	{"leaseId?", "string|null", "From the message. Absent: no lease is checked."},
	{"status?", "string|null", "Absent, completed, success, acked or ok: done. retry: deliver it again, uncharged. dlq: set it aside now. failed, and any other text: deliver it again, charged."},
	{"error?", "string|null", "The reason, kept with a dead letter."},
}
