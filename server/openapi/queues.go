package openapi

// labelled are the parameters of lists of queues.
var labelled = []field{
	{"namespace?", "string", "With this label."},
	{"task?", "string", "With this label."},
}

// partitionWindow are the parameters that cut the partitions of an answer.
var partitionWindow = []field{
	{"partitionLimit?", "integer = 10000", "How many partitions, by name. Below 0 is no limit."},
	{"partitionOffset?", "integer = 0", "How many to pass over."},
}

const exampleDetail = `{"id":"01a228c7-5ee6-7a28-a546-9f3012aba63e","name":"orders.created","namespace":"orders","task":"created","createdAt":"2026-11-29T19:28:04.232Z","partitions":[],"totals":{"total":0,"pending":0,"processing":0,"completed":0,"failed":null,"deadLetter":0},"retainedBytes":0,"segments":{"segments":0,"messages":0},"options":{"namespace":"orders","task":"created","priority":0,"leaseTime":60,"retryLimit":3,"retryDelay":1000,"maxSize":0,"ttl":3600,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"minPopWaitTime":0,"dedupWindowSeconds":3600,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800},"partitionCount":0}`

var queues = area{
	tag: "Queues", text: "Make, describe and delete queues.",
	operations: []operation{
		{
			route: "POST /api/v1/configure", id: "configure",
			summary: "Create a queue, or set its options",
			text:    "The answer has the options that now hold, once they are on disk.",
			body:    &body{typ: "Configuration", example: `{"queue":"orders.created","namespace":"orders","task":"created","options":{"leaseTime":30,"retryLimit":5}}`},
			answers: []answer{{200, "Configured", "The options that now hold.", ""}},
		},
		{
			route: "GET /api/v1/resources/queues", id: "listQueues",
			summary: "List queues",
			text:    "Newest first.",
			query: append([]field{
				{"limit?", "integer", "How many. Absent or below 0: all."},
				{"offset?", "integer = 0", "How many to pass over."},
			}, labelled...),
			answers: []answer{{200, "QueueList", "The queues.", ""}},
		},
		{
			route: "GET /api/v1/resources/queues/:queue", id: "describeQueue",
			summary: "Describe a queue",
			text:    "With its options, and its partitions by name.",
			query:   partitionWindow,
			answers: []answer{{200, "QueueDetail", "The queue.", exampleDetail}, {404, "@QueueNotFound", "", ""}},
		},
		{
			route: "GET /api/v1/resources/queues/:queue/depth", id: "queueDepth",
			summary: "The backlog of a queue",
			text:    "For autoscalers: what the slowest group has left, or the one that is asked for.",
			query:   []field{{"group?", "string", "Of this group."}},
			answers: []answer{
				{200, "Depth", "The backlog.", `{"queue":"orders.created","group":null,"pending":3,"processing":1,"ready":2,"partitionsPending":1,"partitionsReady":1,"conflation":false,"effectivePending":3,"effectiveReady":2,"partitions":[{"partition":"customer-42","pending":3,"processing":1,"ready":2}]}`},
				{404, "@QueueNotFound", "", ""},
			},
		},
		{
			route: "DELETE /api/v1/resources/queues/:queue", id: "deleteQueue",
			summary: "Delete a queue",
			text:    "And everything of it: messages, cursors, leases, dead letters, remembered ids. One that does not exist is 200 as well.",
			answers: []answer{{200, "QueueDeleted", "It is gone.", `{"deleted":true,"queue":"orders.created","existed":true}`}},
		},
		{
			route: "GET /api/v1/resources/partitions", id: "listPartitions",
			summary: "List the partitions of a queue, with their offsets",
			text:    "By name.",
			query: []field{
				{"queue", "string", "The queue."},
				{"limit?", "integer = 10000", "How many. Below 0 is no limit."},
				{"offset?", "integer = 0", "How many to pass over."},
			},
			answers: []answer{
				{200, "PartitionList", "The partitions.", `{"partitions":[{"id":"5dbb8c28-2838-8fdd-8000-000000000001","queue":"orders.created","name":"customer-42","lastOffset":1,"logStart":0,"pending":2,"lastWriteAt":"2026-11-29T19:28:04.232Z"}],"total":1}`},
				{404, "@QueueNotFound", "", ""},
			},
		},
		{
			route: "GET /api/v1/resources/overview", id: "overview",
			summary: "Everything in a few numbers",
			text:    "Of messages, total, completed and failed count over the life of the data directory, the others what there is.",
			answers: []answer{{200, "Overview", "The numbers.", `{"queues":2,"partitions":7,"namespaces":1,"tasks":1,"messages":{"total":5120,"pending":30,"processing":4,"completed":5080,"failed":6,"deadLetter":2},"lag":{"time":{"avg":3,"median":1,"min":0,"max":9},"offset":{"avg":11,"median":4,"min":0,"max":30}},"throughput":{"ingestedPerSecond":4.20,"processedPerSecond":4.10},"timestamp":"2026-07-30T09:12:41.118Z","statsAge":0}`}},
		},
		{
			route: "GET /api/v1/resources/namespaces", id: "listNamespaces",
			summary: "Queues by namespace",
			text:    "By name; queues without one are under the empty text.",
			answers: []answer{{200, "NamespaceList", "The namespaces.", `{"namespaces":[{"namespace":"orders","queues":1,"partitions":2,"messages":{"total":3,"pending":3}}]}`}},
		},
		{
			route: "GET /api/v1/resources/tasks", id: "listTasks",
			summary: "Queues by task",
			text:    "By name; queues without one are under the empty text.",
			answers: []answer{{200, "TaskList", "The tasks.", `{"tasks":[{"task":"created","queues":1,"partitions":2,"messages":{"total":3,"pending":3}}]}`}},
		},
		{
			route: "GET /api/v1/status/queues", id: "listQueueStatus",
			summary: "Queues, with counts",
			text:    "Newest first.",
			query: append([]field{
				{"queue?", "string", "This one alone."},
				{"limit?", "integer = 100", "How many. Below 0 is no limit."},
				{"offset?", "integer = 0", "How many to pass over."},
			}, labelled...),
			answers: []answer{{200, "QueueStatusList", "The queues.", ""}},
		},
		{
			route: "GET /api/v1/status/queues/:queue", id: "queueStatus",
			summary: "The counts of a queue and its partitions",
			text:    "Partitions are sorted by name. Totals cover all of them, also where the list is cut.",
			query:   partitionWindow,
			answers: []answer{{200, "QueueStatus", "The queue.", ""}, {404, "@QueueNotFound", "", ""}},
		},
		{
			route: "POST /api/v1/stats/refresh", id: "refreshStats",
			summary: "Nothing: the numbers are never old",
			text:    "For tools that ask. A body is not read.",
			answers: []answer{{200, "Refreshed", "What there is.", `{"refreshed":true,"engine":"skep","queues":2,"segPartitions":7,"durationMs":0}`}},
		},
	},
	schemas: []schema{
		{name: "Configuration", text: "What a call does not name goes back to its default, or stays with the mode merge. Options may also stand at the top.", fields: append([]field{
			{"queue", "string", ""},
			{"mode?", "'replace'|'merge'|null", "What becomes of options that are not named. Absent: replace."},
			{"options?", "OptionChanges|null", ""},
		}, optionChanges...)},
		{name: "OptionChanges", text: "null is the default.", fields: optionChanges},
		{name: "Number", text: "A whole number, also in a text; true is 1, and false 0.", is: "number|string|boolean|null"},
		{name: "Flag", text: "true and false, also in a text; 1 is true, and 0 false.", is: "boolean|string|number|null"},
		{name: "Options", fields: options},
		{name: "LabelledOptions", fields: append([]field{
			{"namespace", "string", ""},
			{"task", "string", ""},
		}, options...)},
		{name: "Configured", fields: []field{
			{"configured", "boolean", ""},
			{"queueId", "uuid", ""},
			{"partitionId", "null", ""},
			{"queue", "string", ""},
			{"namespace", "string", ""},
			{"task", "string", ""},
			{"storage", "'segments'", ""},
			{"options", "Options", ""},
			{"warning?", "string", "Something was asked for that is not done."},
		}},
		{name: "QueueList", fields: []field{{"queues", "QueueSummary[]", ""}}},
		{name: "QueueSummary", fields: append(identity,
			field{"partitions", "count", ""},
			field{"retainedBytes", "count", "On disk."},
			field{"segments", "SegmentCounts", ""},
			field{"messages", "QueueMessages", ""},
			field{"damagedPartitions?", "count", "Those that are out of service, if any are."},
		)},
		{name: "QueueMessages", fields: []field{
			{"total", "count", ""}, {"pending", "count", ""}, {"processing", "count", ""},
		}},
		{name: "SegmentCounts", fields: []field{{"segments", "count", "Files."}, {"messages", "count", ""}}},
		{name: "QueueDetail", fields: append(identity,
			field{"partitions", "PartitionDetail[]", "By name."},
			field{"totals", "Counts", "Of all partitions."},
			field{"retainedBytes", "count", "On disk."},
			field{"segments", "SegmentCounts", ""},
			field{"options", "LabelledOptions", ""},
			field{"partitionCount", "count", ""},
			field{"partitionsTruncated?", "boolean", "True where some are left out."},
			field{"damagedPartitions?", "count", "Those that are out of service, if any are."},
		)},
		{name: "PartitionDetail", fields: []field{
			{"id", "uuid", ""},
			{"name", "string", ""},
			{"createdAt", "time|null", ""},
			{"stats", "Counts", ""},
			{"oldestMessage", "time|null", ""},
			{"newestMessage", "time|null", ""},
			{"damaged?", "boolean", "True where it is out of service."},
			{"damagedFile?", "string", "Below the data directory."},
			{"damagedPosition?", "count", "In bytes."},
		}},
		{name: "Depth", fields: []field{
			{"queue", "string", ""},
			{"group", "string|null", ""},
			{"pending", "count", "Leased ones included."},
			{"processing", "count", "Leased."},
			{"ready", "count", "Not leased."},
			{"partitionsPending", "count", ""},
			{"partitionsReady", "count", ""},
			{"conflation", "boolean", ""},
			{"effectivePending", "count", "Pending; of a group that conflates, in partitions."},
			{"effectiveReady", "count", "Ready; of a group that conflates, in partitions."},
			{"partitions", "PartitionDepth[]", ""},
		}},
		{name: "PartitionDepth", fields: []field{
			{"partition", "string", ""}, {"pending", "count", ""}, {"processing", "count", ""}, {"ready", "count", ""},
		}},
		{name: "QueueDeleted", fields: []field{
			{"deleted", "boolean", ""}, {"queue", "string", ""}, {"existed", "boolean", ""}, {"message?", "string", ""},
		}},
		{name: "PartitionList", fields: []field{{"partitions", "PartitionPlace[]", ""}, {"total", "count", "Of the queue."}}},
		{name: "PartitionPlace", fields: []field{
			{"id", "uuid", ""},
			{"queue", "string", ""},
			{"name", "string", ""},
			{"lastOffset", "integer -1..", "-1 before the first message."},
			{"logStart", "count", "The first that is kept."},
			{"pending", "count", ""},
			{"lastWriteAt", "time|null", ""},
		}},
		{name: "Overview", fields: []field{
			{"queues", "count", ""},
			{"partitions", "count", ""},
			{"namespaces", "count", ""},
			{"tasks", "count", ""},
			{"messages", "OverviewMessages", ""},
			{"lag", "Lag", "Of the groups."},
			{"throughput", "Throughput", "Of the last five minutes."},
			{"timestamp", "time", ""},
			{"statsAge", "count", "0: the numbers are never old."},
		}},
		{name: "OverviewMessages", fields: []field{
			{"total", "count", "Stored so far."},
			{"pending", "count", ""},
			{"processing", "count", ""},
			{"completed", "count", "Acknowledged so far."},
			{"failed", "count", "Given back or refused so far."},
			{"deadLetter", "count", ""},
		}},
		{name: "Lag", fields: []field{{"time", "Spread", "In seconds."}, {"offset", "Spread", "In messages."}}},
		{name: "Spread", fields: []field{{"avg", "count", ""}, {"median", "count", ""}, {"min", "count", ""}, {"max", "count", ""}}},
		{name: "Throughput", fields: []field{{"ingestedPerSecond", "number", ""}, {"processedPerSecond", "number", ""}}},
		{name: "NamespaceList", fields: []field{{"namespaces", "Namespace[]", ""}}},
		{name: "Namespace", fields: append([]field{{"namespace", "string", ""}}, labelCounts...)},
		{name: "TaskList", fields: []field{{"tasks", "Task[]", ""}}},
		{name: "Task", fields: append([]field{{"task", "string", ""}}, labelCounts...)},
		{name: "LabelMessages", fields: []field{{"total", "count", ""}, {"pending", "count", ""}}},
		{name: "QueueStatusList", fields: []field{{"queues", "QueueStatusSummary[]", ""}, {"pagination", "Pagination", ""}}},
		{name: "QueueStatusSummary", fields: append(identity,
			field{"partitions", "count", ""},
			field{"messages", "Counts", ""},
		)},
		{name: "Pagination", text: "What was asked for.", fields: []field{{"limit", "integer", ""}, {"offset", "integer", ""}}},
		{name: "QueueStatus", fields: []field{
			{"queue", "QueueStatusHead", ""},
			{"partitions", "PartitionStatus[]", "By name."},
			{"totals", "QueueTotals", "Of all partitions."},
			{"partitionCount", "count", ""},
			{"partitionsTruncated?", "boolean", "True where some are left out."},
		}},
		{name: "QueueStatusHead", fields: append(identity,
			field{"priority", "integer", ""},
			field{"config", "QueueStatusConfig", ""},
		)},
		{name: "QueueStatusConfig", fields: []field{
			{"leaseTime", "integer", ""},
			{"retryLimit", "integer", ""},
			{"retryDelay", "integer", ""},
			{"ttl", "integer", ""},
			{"maxQueueSize", "integer", ""},
			{"deadLetterQueue", "boolean", ""},
		}},
		{name: "QueueTotals", fields: []field{
			{"messages", "Counts", ""},
			{"total", "count", "As in messages, like what follows."},
			{"pending", "count", ""},
			{"processing", "count", ""},
			{"completed", "count", ""},
			{"failed", "null", ""},
			{"deadLetter", "count", ""},
		}},
		{name: "PartitionStatus", fields: []field{
			{"id", "uuid", ""},
			{"name", "string", ""},
			{"createdAt", "time|null", ""},
			{"messages", "Counts", ""},
			{"stats", "Counts", "The same."},
			{"cursor", "PartitionProgress", ""},
			{"lastActivity", "time|null", "When a group was given messages or acknowledged some."},
			{"oldestMessage", "time|null", ""},
			{"newestMessage", "time|null", ""},
		}},
		{name: "PartitionProgress", fields: []field{{"totalConsumed", "count", "By all groups."}, {"batchesConsumed", "count", "0."}}},
		{name: "Refreshed", fields: []field{
			{"refreshed", "boolean", ""}, {"engine", "string", ""}, {"queues", "count", ""}, {"segPartitions", "count", ""}, {"durationMs", "count", ""},
		}},
	},
}

// identity are the members that every description of a queue begins with.
var identity = []field{
	{"id", "uuid", ""},
	{"name", "string", ""},
	{"namespace", "string", ""},
	{"task", "string", ""},
	{"createdAt", "time|null", ""},
}

var labelCounts = []field{{"queues", "count", ""}, {"partitions", "count", ""}, {"messages", "LabelMessages", ""}}

// options of a queue, as they hold.
var options = []field{
	{"priority", "integer", "Without effect."},
	{"leaseTime", "integer", "Seconds. 0 or less acts as 60."},
	{"retryLimit", "integer", "Failures after which a message is set aside or dropped."},
	{"retryDelay", "integer", "Without effect."},
	{"maxSize", "integer", "Without effect."},
	{"ttl", "integer", "Without effect."},
	{"deadLetterQueue", "boolean", "Keep exhausted messages, if this or the next is true."},
	{"dlqAfterMaxRetries", "boolean", ""},
	{"delayedProcessing", "integer", "Seconds after which a message is delivered."},
	{"windowBuffer", "integer", "Seconds for which a partition gathers a batch."},
	{"retentionSeconds", "integer", "0 or less: off."},
	{"completedRetentionSeconds", "integer", "0 or less: off."},
	{"retentionEnabled", "boolean", "Switches those two on."},
	{"encryptionEnabled", "boolean", ""},
	{"maxWaitTimeSeconds", "integer", "Messages older than that are dropped. 0 or less: off."},
	{"minPopWaitTime", "integer", "Milliseconds for which a long poll waits for a full batch."},
	{"dedupWindowSeconds", "integer", "How long a transactionId is unique."},
	{"retentionSinkHold", "string", "Without effect."},
	{"retentionSinkHoldMaxSeconds", "integer", "Without effect."},
}

// optionChanges are the same in a request.
var optionChanges = changesOf(options)

func changesOf(options []field) []field {
	changes := []field{{"namespace?", "string|null", "Label."}, {"task?", "string|null", "Label."}}
	for _, o := range options {
		changes = append(changes, field{o.name + "?", map[string]string{"integer": "Number", "boolean": "Flag", "string": "string|null"}[o.typ], o.text})
	}
	return changes
}
