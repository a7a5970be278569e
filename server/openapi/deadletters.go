package openapi

// replayAnswers are those of a dead letter that is put back. Errors say what became of it.
var replayAnswers = []answer{
	{200, "Replayed", "It is back, or its message is there already.", `{"success":true,"result":"moved","queue":"orders.created","partition":"customer-42","consumerGroup":"__QUEUE_MODE__","dlqId":"01a228d0-0d1e-7c53-a1c4-6d8f6b1f2a10","originalTransactionId":"order-2","replayedAs":{"index":0,"message_id":"01a228d0-2b11-7c53-a1c4-6d0000000002","transaction_id":"dlq:01a228d0-0d1e-7c53-a1c4-6d8f6b1f2a10","queueName":"orders.created","status":"queued","offset":2},"dlqRowRemoved":true}`},
	{500, "ReplayFailed", "The dead letter is damaged, or the broker has a fault.", ""},
	{503, "ReplayFailed", "Push maintenance is on, or the broker recovers, stops, or is at a bound.", ""},
	{507, "ReplayFailed", "The disk is nearly full.", ""},
}

var deadLetters = area{
	tag: "Dead letters", text: "Messages that were set aside for a group.",
	operations: []operation{
		{
			route: "GET /api/v1/dlq", id: "listDeadLetters",
			summary: "List dead letters",
			text:    "Newest first.",
			query: []field{
				{"queue?", "string", "Of this queue."},
				{"consumerGroup?", "string", "Set aside for this group."},
				{"partition?", "string", "Of this partition."},
				{"from?", "string", "Set aside at this time or later."},
				{"to?", "string", "Set aside at this time or earlier."},
				{"limit?", "count = 100", "How many."},
				{"offset?", "count = 0", "How many to pass over."},
			},
			answers: []answer{{200, "DeadLetterList", "A page.", `{"messages":[{"id":"01a228d0-0d1e-7c53-a1c4-6d8f6b1f2a10","transactionId":"order-2","partitionId":"5dbb8c28-2838-8fdd-8000-000000000001","queue":"orders.created","partition":"customer-42","consumerGroup":"__QUEUE_MODE__","errorMessage":"no such customer","retryCount":0,"data":{"id":2},"producerSub":null,"createdAt":"2026-11-29T19:28:04.232Z","failedAt":"2026-11-29T19:29:11.007Z"}],"pagination":{"limit":100,"offset":0},"total":1}`}},
		},
		{
			route: "DELETE /api/v1/dlq", id: "purgeDeadLetters",
			summary: "Delete the dead letters of a queue",
			text:    "Of one group, or of all. A queue that does not exist has none.",
			query:   []field{{"queue", "string", "Of this queue."}, {"consumerGroup?", "string", "Set aside for this group."}},
			answers: []answer{{200, "DeadLettersPurged", "They are gone.", `{"success":true,"deleted":3,"queue":"orders.created","consumerGroup":null}`}},
		},
		{
			route: "POST /api/v1/dlq/:id/replay", id: "replayDeadLetter",
			summary: "Put a dead letter back",
			text: `To the end of its partition, or of the one in the body, which is made if it does not exist. Every
group of the queue gets it. Append and removal are one step on disk.`,
			body: &body{typ: "Replay", text: "Where to, if somewhere else.", example: `{"queue":"orders.repaired"}`, optional: true},
			answers: append([]answer{
				{404, "ReplayFailed", "There is no such dead letter.", `{"success":false,"result":"gone","dlqId":"01a228d0-0d1e-7c53-a1c4-6d8f6b1f2a10","error":"Message not found","message":"No dead letter with this id"}`},
			}, replayAnswers...),
		},
	},
	schemas: []schema{
		{name: "DeadLetterList", fields: []field{
			{"messages", "DeadLetter[]", ""}, {"pagination", "Pagination", ""}, {"total", "count", "Of this page."},
		}},
		{name: "DeadLetter", fields: []field{
			{"id", "uuid", "Of the dead letter."},
			{"transactionId", "string", "Of the message, as what follows."},
			{"partitionId", "uuid", ""},
			{"queue", "string", ""},
			{"partition", "string", ""},
			{"consumerGroup", "string", "For which it was set aside."},
			{"errorMessage", "string", "Of the acknowledgement, or Retries exhausted."},
			{"retryCount", "count", ""},
			{"data", "Payload", ""},
			{"producerSub", "string|null", ""},
			{"createdAt", "time|null", "When the message was stored."},
			{"failedAt", "time|null", "When it was set aside."},
			{"isEncrypted?", "boolean", "True where the payload is encrypted on disk."},
			{"damaged?", "boolean", "True where the payload cannot be read."},
		}},
		{name: "DeadLettersPurged", fields: []field{
			{"success", "boolean", ""}, {"deleted", "count", ""}, {"queue", "string", ""}, {"consumerGroup", "string|null", ""},
		}},
		{name: "Replay", fields: []field{
			{"queue?", "string|null", "Not blank."}, {"partition?", "string|null", "Not blank."},
		}},
		{name: "Replayed", fields: []field{
			{"success", "boolean", ""},
			{"result", "'moved'|'duplicate'", "duplicate: the partition has it already, and the dead letter stays."},
			{"queue", "string", ""},
			{"partition", "string", ""},
			{"consumerGroup", "string", ""},
			{"dlqId", "uuid", ""},
			{"originalTransactionId", "string", ""},
			{"replayedAs", "PushResult", ""},
			{"dlqRowRemoved", "boolean", ""},
		}},
		{name: "ReplayFailed", fields: []field{
			{"success?", "boolean", "False."},
			{"result?", "'gone'|'maintenance'", ""},
			{"dlqId?", "string", "As in the path."},
			{"partitionId?", "string", "As in the path."},
			{"transactionId?", "string", "As in the path."},
			{"dlqRowRemoved?", "boolean|null", "False: the dead letter is still there. null: nobody knows."},
			{"error", "string", ""},
			{"code?", "string", "As of Error."},
			{"message?", "string", ""},
		}},
	},
}
