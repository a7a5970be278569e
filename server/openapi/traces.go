package openapi

import "strconv"

var traces = area{
	tag: "Traces", text: "What consumers note about messages.",
	operations: []operation{
		{
			route: "POST /api/v1/traces", id: "addTrace",
			summary: "Note something about a message",
			text:    "The message is not touched, and need not exist. Nothing waits for the disk.",
			body:    &body{typ: "TraceRequest", text: "1 MiB at the most.", example: `{"transactionId":"order-1","partitionId":"5dbb8c28-2838-8fdd-8000-000000000001","consumerGroup":"billing","data":{"step":"charged"},"traceNames":["customer-42","charges"]}`},
			answers: []answer{
				{201, "TraceAdded", "It is noted.", `{"success":true,"traceId":"01a22a8b-6139-76a9-bd24-9043cba2c8a9"}`},
				{507, "@StorageFull", "", ""},
			},
		},
		{
			route: "GET /api/v1/traces/:partitionId/:transactionId", id: "messageTraces",
			summary: "The traces of a message",
			text:    "Oldest first; none for a message that nobody has noted anything about.",
			answers: []answer{{200, "MessageTraces", "The traces.", `{"traces":[{"id":"01a22a8b-6139-76a9-bd24-9043cba2c8a9","event_type":"info","data":{"step":"charged"},"consumer_group":"billing","worker_id":"skep","created_at":"2026-11-30T03:41:47.193Z","trace_names":["customer-42","charges"]}]}`}},
		},
		{
			route: "GET /api/v1/traces/by-name/:traceName", id: "namedTraces",
			summary: "The traces with a name",
			text:    "Oldest first, of partitions that exist.",
			query:   tracePage(100),
			answers: []answer{{200, "NamedTraces", "A page.", `{"traces":[{"id":"01a22a8b-6139-76a9-bd24-9043cba2c8a9","transaction_id":"order-1","partition_id":"5dbb8c28-2838-8fdd-8000-000000000001","event_type":"info","data":{"step":"charged"},"consumer_group":"billing","worker_id":"skep","created_at":"2026-11-30T03:41:47.193Z","queue_name":"orders.created","partition_name":"customer-42","message_payload":null,"trace_names":["customer-42","charges"]}],"total":1,"pagination":{"limit":10,"offset":0}}`}},
		},
		{
			route: "GET /api/v1/traces/names", id: "traceNames",
			summary: "The names of traces",
			text:    "Those used last first.",
			query:   tracePage(50),
			answers: []answer{{200, "TraceNames", "A page.", `{"trace_names":[{"trace_name":"charges","trace_count":1,"message_count":1,"last_seen":"2026-11-30T03:41:47.193Z"}],"total":1,"pagination":{"limit":50,"offset":0}}`}},
		},
	},
	schemas: []schema{
		{name: "TraceRequest", fields: []field{
			{"transactionId", "string", "Of the message."},
			{"partitionId", "string", "Of the message, a UUID."},
			{"data", "any", "What is noted; null as well."},
			{"consumerGroup?", "any", "A text. Absent: __QUEUE_MODE__."},
			{"eventType?", "any", "A text. Absent: info."},
			{"traceNames?", "any", "An array of texts, or one, up to 64 of up to 511 bytes. What is none is passed over."},
		}},
		{name: "TraceAdded", fields: []field{{"success", "boolean", ""}, {"traceId", "uuid", ""}}},
		{name: "MessageTraces", fields: []field{{"traces", "Trace[]", ""}, {"truncated?", "boolean", "True where there are more than an answer takes."}}},
		{name: "Trace", fields: traceFields},
		{name: "NamedTraces", fields: []field{
			{"traces", "NamedTrace[]", ""},
			{"truncated?", "boolean", "True where there are more than an answer takes."},
			{"total", "count", "Of all pages."},
			{"pagination", "Pagination", ""},
		}},
		{name: "NamedTrace", fields: append([]field{
			{"transaction_id", "string", ""},
			{"partition_id", "uuid", ""},
			{"queue_name", "string", ""},
			{"partition_name", "string", ""},
			{"message_payload", "null", ""},
		}, traceFields...)},
		{name: "TraceNames", fields: []field{{"trace_names", "TraceName[]", ""}, {"total", "count", "Of all pages."}, {"pagination", "Pagination", ""}}},
		{name: "TraceName", fields: []field{
			{"trace_name", "string", ""}, {"trace_count", "count", ""}, {"message_count", "count", ""}, {"last_seen", "time", ""},
		}},
	},
}

func tracePage(limit int) []field {
	return []field{
		{"limit?", "count ..1000 = " + strconv.Itoa(limit), "How many; beyond, the nearest number."},
		{"offset?", "count = 0", "How many to pass over."},
	}
}

var traceFields = []field{
	{"id", "uuid", ""},
	{"event_type", "string", ""},
	{"data", "any", ""},
	{"consumer_group", "string", ""},
	{"worker_id", "string", "The broker's."},
	{"created_at", "time", ""},
	{"trace_names", "string[]", ""},
}
