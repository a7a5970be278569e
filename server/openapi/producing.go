package openapi

var producing = area{
	tag: "Push", text: "Append messages.",
	operations: []operation{{
		route: "POST /api/v1/push", id: "push",
		summary: "Append messages",
		text: `Queues and partitions are made if they do not exist. The items of one partition are one batch: all
of it is stored or none, in the order of the body. The answer is sent when everything is on disk.
An item that cannot be read refuses the whole request.`,
		body: &body{typ: "Push", text: "Up to 200,000 items.", example: `{"items":[{"queue":"orders.created","partition":"customer-42","transactionId":"order-1","payload":{"id":1}}]}`},
		answers: []answer{
			{201, "PushResult[]", "The verdict on each item, in their order.", `[{"index":0,"message_id":"01a228c7-5e88-77e8-a068-a90000000000","transaction_id":"order-1","queueName":"orders.created","status":"queued"}]`},
			{507, "@StorageFull", "", ""},
		},
	}},
	schemas: []schema{
		{name: "Push", fields: []field{{"items", "PushItem[]", ""}}},
		{name: "PushItem", fields: []field{
			{"queue", "string", "Up to 65,535 bytes, as all names."},
			{"payload", "Payload", ""},
			{"partition?", "string|null", "Absent: Default. An empty text is a partition of that name."},
			{"transactionId?", "string|null", "Unique in its partition for the deduplication window of the queue. Absent or empty: the id of the message."},
		}},
		{name: "PushResult", fields: []field{
			{"index", "count", "Of the item."},
			{"message_id", "uuid", "Of a duplicate, that of the message that is stored; all zeros if that was dropped since."},
			{"transaction_id", "string", ""},
			{"queueName", "string", ""},
			{"status", "'queued'|'duplicate'|'buffered'|'failed'", "Stored; not stored again; on disk, and stored when push maintenance is over; not stored."},
			{"error?", "string", "Why it was not stored."},
			{"offset?", "count", "Its number in its partition, with SKEP_DELIVERY_DETAILS on and of a replay."},
		}},
	},
}
