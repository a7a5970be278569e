package openapi

var transactions = area{
	tag: "Transaction", text: "Pushes and acknowledgements, all or nothing.",
	operations: []operation{{
		route: "POST /api/v1/transaction", id: "transact",
		summary: "Push and acknowledge, all or nothing",
		text: `Of any queues, partitions and groups in one step. What it does becomes visible at once. What is rolled
back has changed nothing, and is 200 with success false and a reason.`,
		body: &body{typ: "Transaction", text: "Up to 200,000 items and acknowledgements.", example: `{"operations":[{"type":"ack","transactionId":"order-1","partitionId":"5dbb8c28-2838-8fdd-8000-000000000001"},{"type":"push","items":[{"queue":"invoices","transactionId":"invoice-1","payload":{"order":1}}]}],"requiredLeases":["01a228c7-5e96-73e4-a853-8dccb93fe156"]}`},
		answers: []answer{
			{200, "TransactionResult", "Committed, or rolled back.", `{"transactionId":"01a228c7-7b5e-7e40-8a52-9d0e1f2a3b4c","success":true,"results":[{"index":0,"type":"ack","success":true,"transactionId":"order-1","error":null,"dlq":false},{"index":1,"type":"push","success":true,"transactionId":"invoice-1","messageId":"01a228c7-7b5f-7d3e-8000-9d0e00000000","queueName":"invoices"}]}`},
			{400, "TransactionResult|Error", "The body cannot be read: reason is bad_request.", `{"transactionId":"01a228c7-7b5e-7e40-8a52-9d0e1f2a3b4c","success":false,"reason":"bad_request","error":"bad body: operations is missing","results":[]}`},
			{507, "@StorageFull", "", ""},
		},
	}},
	schemas: []schema{
		{name: "Transaction", fields: []field{
			{"operations", "TransactionPush|TransactionAck[]", "In this order."},
			{"requiredLeases?", "RequiredLeases|null", "An acknowledgement without a leaseId is done under the live lease of its partition, which must be one of these or of the other leaseIds of the body."},
		}},
		{name: "RequiredLeases", is: "string|null[]"},
		{name: "TransactionPush", text: "items, or the members of one item beside type.", fields: append([]field{
			{"type", "'push'", ""},
			{"items?", "TransactionItem[]|null", ""},
		}, itemFields...)},
		{name: "TransactionItem", fields: itemFields},
		{name: "TransactionAck", fields: append([]field{
			{"type", "'ack'", ""},
			{"consumerGroup?", "string|null", "Absent: __QUEUE_MODE__."},
		}, ackFields...)},
		{name: "TransactionResult", fields: []field{
			{"transactionId", "uuid", "Names this call and nothing else."},
			{"success", "boolean", "It has committed."},
			{"reason?", "'duplicate'|'ack_rejected'|'payload_too_large'|'bad_request'", "Why it was rolled back."},
			{"error?", "string", "The same, for people."},
			{"results", "TransactionPushResult|TransactionAckResult[]", "One for each item and acknowledgement, in their order; empty if it was rolled back."},
		}},
		{name: "TransactionPushResult", fields: []field{
			{"index", "count", ""},
			{"type", "'push'", ""},
			{"success", "boolean", ""},
			{"transactionId", "string", ""},
			{"messageId", "uuid", ""},
			{"queueName", "string", ""},
			{"duplicate?", "boolean", "True where the item repeats an earlier one of the body, and is not stored again."},
		}},
		{name: "TransactionAckResult", fields: []field{
			{"index", "count", ""},
			{"type", "'ack'", ""},
			{"success", "boolean", ""},
			{"transactionId", "string", ""},
			{"error", "null", ""},
			{"dlq", "boolean", "The message has become a dead letter."},
		}},
	},
}

// itemFields are the members of a message that a transaction pushes.
var itemFields = []field{
	{"queue?", "string|null", "Absent: the queue whose name is empty."},
	{"partition?", "string|null", "Absent: Default."},
	{"transactionId?", "string|null", "Absent or empty: the id of the message."},
	{"payload?", "Payload", "data, if absent."},
	{"data?", "any", "{} if absent."},
	{"traceId?", "any", "A UUID that is stored with the message. What is none is ignored."},
}
