package openapi

// inTime are the parameters of everything that is shown over time.
var inTime = []field{
	{"from?", "string", "Since when, as RFC 3339, also without a time or an offset. Absent: an hour before to."},
	{"to?", "string", "Until when. Absent: now."},
}

// chosen are the parameters that choose queues.
var chosen = []field{
	{"queue?", "string", "This queue alone."},
	{"namespace?", "string", "Queues with this label."},
	{"task?", "string", "Queues with this label."},
}

// replica are the parameters that choose a process: there is one.
var replica = []field{
	{"hostname?", "string", "Of the process, its QUEEN_SERVER_ID. There is nothing of another."},
	{"workerId?", "integer = 0", "Of the process: 0. There is nothing of another."},
}

var groupBy = field{"groupBy?", "'namespace'|'task'|'queue'", "By what to add up."}

// tooMuch is what a time may be refused for.
var tooMuch = answer{400, "Error", "A time that cannot be read, ends before it begins, begins in the future, or has more buckets or rows than an answer; or an unknown groupBy.", `{"error":"from is not before to"}`}

// appended returns fields of several lists.
func appended(lists ...[]field) (all []field) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

var analytics = area{
	tag: "Status and series", text: "What went through, by the minute, and where the work is.",
	operations: []operation{
		{
			route: "GET /api/v1/status", id: "aggregateStatus",
			summary: "The status of everything",
			text:    "Throughput, newest first, and what there is.",
			query:   appended(inTime, chosen),
			answers: []answer{{200, "AggregateStatus", "The status.", `{"timeRange":{"from":"2026-07-30T08:12:41.118Z","to":"2026-07-30T09:12:41.118Z"},"bucketMinutes":1,"pointCount":1,"throughput":[{"timestamp":"2026-07-30T09:12:00Z","ingested":4,"processed":3,"popMessages":4,"ingestedPerSecond":0.07,"processedPerSecond":0.05,"popPerSecond":0.07,"avgLagMs":105,"maxLagMs":120,"avgEventLoopLagMs":0.02,"maxEventLoopLagMs":0.02,"minFreeSlots":0,"dbErrors":0,"ackFailed":1,"dlqCount":1,"queenCpuUserPct":1.25,"queenCpuSysPct":0.40,"queenRssMb":61.50,"dbPoolActive":null,"dbPoolIdle":null,"dbPoolSize":null}],"queues":[{"id":"0198f2c1-4d3a-7c10-9f2b-000000000001","name":"orders.created","namespace":"shop","task":"","partitions":3,"totalConsumed":4}],"messages":{"total":4,"pending":0,"processing":0,"completed":3,"failed":1,"deadLetter":1,"requests":{"push":2,"pop":4,"ack":3},"batchEfficiency":{"push":2.00,"pop":1.00,"ack":1.33}},"leases":{"active":0,"partitionsWithLeases":0,"totalBatchSize":0,"totalAcked":0},"deadLetterQueue":{"totalMessages":1,"affectedPartitions":1,"topErrors":[]},"workers":[{"hostname":"mq1","workerId":0,"avgEventLoopLagMs":0.02,"maxEventLoopLagMs":0.02,"freeSlots":0,"dbConnections":0,"jobQueueSize":0,"messagesProcessed":11}],"errors":{"dbErrors":0,"ackFailed":1,"dlqMessages":1},"statsAge":0}`}, tooMuch},
		},
		{
			route: "GET /api/v1/status/analytics", id: "statusAnalytics",
			summary: "How many messages were stored, over time",
			text:    "Oldest first. Without from it is the last 24 hours.",
			query:   appended(inTime, chosen, []field{{"interval?", "string = 'hour'", "minute, hour or day; anything else is hour."}}),
			answers: []answer{{200, "StoredSeries", "The points.", `{"dataPoints":[{"timestamp":"2026-07-30T09:00:00Z","messages":4}],"interval":"hour","from":"2026-07-30T08:12:41.118Z","to":"2026-07-30T09:12:41.118Z"}`}, tooMuch},
		},
		{
			route: "GET /api/v1/analytics/queue-ops", id: "queueOps",
			summary: "What queues had, over time",
			text:    "Oldest first. A bucket in which a queue had nothing is left out.",
			query:   appended(inTime, chosen),
			answers: []answer{{200, "QueueOpsSeries", "The series.", `{"timeRange":{"from":"2026-07-30T08:12:41.118Z","to":"2026-07-30T09:12:41.118Z"},"bucketMinutes":1,"series":[{"bucket":"2026-07-30T09:12:00Z","queueName":"orders.created","pushRequests":2,"pushMessages":4,"popMessages":4,"popEmpty":1,"ackRequests":3,"ackSuccess":3,"ackFailed":1,"transactions":1,"partitionsCreated":1,"partitionsDeleted":0,"partitionCount":3,"avgLagMs":105,"maxLagMs":120,"pushPerSecond":0.07,"popPerSecond":0.07,"ackPerSecond":0.07,"emptyPerSecond":0.02,"parkedCount":3.00}],"queues":["orders.created"]}`}, tooMuch},
		},
		{
			route: "GET /api/v1/analytics/queue-lag", id: "queueLag",
			summary: "How old messages were at their delivery, over time",
			text:    "Newest first.",
			query:   appended(inTime, chosen),
			answers: []answer{{200, "QueueLag[]", "The buckets.", `[{"queueName":"orders.created","popCount":4,"avgLagMs":105,"maxLagMs":120,"bucketMinutes":1,"bucketTime":"2026-07-30T09:12:00Z"}]`}, tooMuch},
		},
		{
			route: "GET /api/v1/analytics/queue-parked-replicas", id: "queueParked",
			summary: "How many pops waited, over time",
			text:    "Oldest first. There is one replica.",
			query:   appended(inTime, chosen),
			answers: []answer{{200, "ParkedSeries", "The series.", `{"timeRange":{"from":"2026-07-30T08:12:41.118Z","to":"2026-07-30T09:12:41.118Z"},"bucketMinutes":1,"series":[{"bucket":"2026-07-30T09:12:00Z","queueName":"orders.created","hostname":"mq1","workerId":0,"parkedCount":3.00}],"replicas":[{"hostname":"mq1","workerId":0}]}`}, tooMuch},
		},
		{
			route: "GET /api/v1/analytics/retention", id: "retention",
			summary: "What retention took, over time",
			text:    "Oldest first; with groupBy also by label or queue, those of which most was taken first.",
			query:   appended(inTime, chosen, []field{groupBy}),
			answers: []answer{{200, "RetentionSeries", "The series.", `{"timeRange":{"from":"2026-07-30T08:12:41.118Z","to":"2026-07-30T09:12:41.118Z"},"bucketMinutes":1,"series":[{"bucket":"2026-07-30T09:12:00Z","retentionMsgs":5,"completedRetentionMsgs":1,"evictionMsgs":2,"totalMsgs":8,"eventCount":3}],"totals":{"retentionMsgs":5,"completedRetentionMsgs":1,"evictionMsgs":2,"totalMsgs":8,"eventCount":3}}`}, tooMuch},
		},
		{
			route: "GET /api/v1/analytics/workload", id: "workload",
			summary: "Where the work is",
			text:    "What groups of queues had, over time, and what they have; and the same of all queues.",
			query:   appended(inTime, chosen, []field{{groupBy.name, groupBy.typ + " = 'namespace'", groupBy.text}}),
			answers: []answer{{200, "Workload", "The rows, by key.", ""}, tooMuch},
		},
		{
			route: "GET /api/v1/analytics/worker-metrics", id: "workerMetrics",
			summary: "What the process did, over time",
			text:    "Newest first.",
			query:   appended(inTime, chosen, replica),
			answers: []answer{{200, "WorkerMetrics", "The series.", ""}, tooMuch},
		},
		{
			route: "GET /api/v1/analytics/system-metrics", id: "systemMetrics",
			summary: "What the process took of its machine, over time",
			text:    "Oldest first.",
			query:   appended(inTime, replica),
			answers: []answer{{200, "SystemMetrics", "The series.", ""}, tooMuch},
		},
		{
			route: "GET /api/v1/analytics/postgres-stats", id: "postgresStats",
			summary: "Nothing: there is no database",
			text:    "For dashboards that ask.",
			answers: []answer{{200, "PostgresStats", "Empty.", `{"available":false,"reason":"no_postgres","timestamp":"2026-07-30T09:12:41.118Z","database":null,"databaseCache":null,"tableCache":[],"indexCache":[],"cacheSummary":null,"deadTuples":[],"hotUpdates":[],"activeQueries":[],"autovacuumStatus":[],"bufferConfig":null,"bufferUsage":[],"tableSizes":[]}`}},
		},
		{
			route: "GET /api/v1/analytics/dlq-signatures", id: "deadLetterSignatures",
			summary: "Why messages fail",
			text:    "The errors of the newest dead letters of a queue, folded and counted.",
			query:   []field{{"queue", "string", "The queue."}, {"limit?", "count ..1000 = 200", "How many dead letters; beyond, the nearest number."}},
			answers: []answer{{200, "DeadLetterSignatures", "The signatures.", `{"queue":"orders.created","rowsNow":412,"sample":200,"retryCounts":[0,3],"groups":["__QUEUE_MODE__","billing"],"oldest":"2026-07-29T22:10:03.118Z","newest":"2026-07-30T09:12:41.118Z","avgBytes":311,"signatures":[{"text":"no customer <id>","n":50,"share":0.25}],"byDay":[{"day":"2026-07-30","n":120}]}`}, {404, "@QueueNotFound", "", ""}},
		},
		{
			route: "GET /api/v1/analytics/partition-liveness", id: "partitionLiveness",
			summary: "How many partitions are written to",
			text:    "Queues with most partitions first. An empty namespace or task is that of queues without one.",
			query:   appended(chosen, []field{{"limit?", "count ..200 = 20", "How many queues; beyond, the nearest number."}}),
			answers: []answer{{200, "PartitionLiveness", "The queues.", `{"capturedAt":"2026-07-30T09:12:41.118Z","rows":[{"queue":"orders.created","namespace":"shop","task":"","partitions":5210,"live1h":311,"live24h":1877,"live7d":4120,"created24h":96,"oldestWriteAt":"2026-05-02T17:40:11.902Z","newestWriteAt":"2026-07-30T09:12:40.903Z","pending":30}]}`}},
		},
	},
	schemas: []schema{
		{name: "TimeRange", fields: []field{{"from", "time", ""}, {"to", "time", ""}}},
		{name: "AggregateStatus", fields: appended(ofTime, []field{
			{"pointCount", "count", ""},
			{"throughput", "ThroughputPoint[]", "Newest first."},
			{"queues", "ConsumedQueue[]", "Those that hold messages."},
			{"messages", "StatusMessages", ""},
			{"leases", "LeaseCounts", "Live ones."},
			{"deadLetterQueue", "DeadLetterCounts", ""},
			{"workers", "Worker[]", "The process."},
			{"errors", "StatusErrors", "Of the time."},
			{"statsAge", "count", "0."},
		})},
		{name: "ThroughputPoint", fields: appended([]field{
			{"timestamp", "time", ""},
			{"ingested", "count", ""},
			{"processed", "count", ""},
			{"popMessages", "count", ""},
			{"ingestedPerSecond", "number", ""},
			{"processedPerSecond", "number", ""},
			{"popPerSecond", "number", ""},
		}, lagsOf, eventLoop, []field{
			{"minFreeSlots", "count", "0."},
			{"dbErrors", "count", "Of the store, that the broker went on after."},
			{"ackFailed", "count", ""},
			{"dlqCount", "count", ""},
			{"queenCpuUserPct", "number", "Of one processor."},
			{"queenCpuSysPct", "number", "Of one processor."},
			{"queenRssMb", "number", ""},
			{"dbPoolActive", "null", ""},
			{"dbPoolIdle", "null", ""},
			{"dbPoolSize", "null", ""},
		})},
		{name: "ConsumedQueue", fields: []field{
			{"id", "uuid", ""}, {"name", "string", ""}, {"namespace", "string", ""}, {"task", "string", ""},
			{"partitions", "count", ""}, {"totalConsumed", "count", ""},
		}},
		{name: "StatusMessages", text: "All but pending and processing over the life of the data directory.", fields: []field{
			{"total", "count", ""}, {"pending", "count", ""}, {"processing", "count", ""}, {"completed", "count", ""},
			{"failed", "count", ""}, {"deadLetter", "count", ""},
			{"requests", "RequestCounts", ""},
			{"batchEfficiency", "BatchEfficiency", "Messages by request."},
		}},
		{name: "RequestCounts", fields: []field{{"push", "count", ""}, {"pop", "count", ""}, {"ack", "count", ""}}},
		{name: "BatchEfficiency", fields: []field{{"push", "number", ""}, {"pop", "number", ""}, {"ack", "number", ""}}},
		{name: "LeaseCounts", fields: []field{
			{"active", "count", ""}, {"partitionsWithLeases", "count", ""},
			{"totalBatchSize", "count", "Messages handed out."}, {"totalAcked", "count", "Those of them that have been acknowledged."},
		}},
		{name: "DeadLetterCounts", fields: []field{{"totalMessages", "count", ""}, {"affectedPartitions", "count", ""}, {"topErrors", "any[]", "Empty."}}},
		{name: "Worker", fields: appended(processName, eventLoop, []field{
			{"freeSlots", "count", "0."},
			{"dbConnections", "count", "0."},
			{"jobQueueSize", "count", "0."},
			{"backoffSize?", "count", "0, of worker metrics."},
			{"messagesProcessed", "count", ""},
			{"lastSeen?", "time", "Of worker metrics."},
		})},
		{name: "StatusErrors", fields: []field{{"dbErrors", "count", "Of the store, that the broker went on after."}, {"ackFailed", "count", ""}, {"dlqMessages", "count", ""}}},
		{name: "StoredSeries", fields: []field{
			{"dataPoints", "StoredPoint[]", "Oldest first."}, {"interval", "'minute'|'hour'|'day'", ""}, {"from", "time", ""}, {"to", "time", ""},
		}},
		{name: "StoredPoint", fields: []field{{"timestamp", "time", ""}, {"messages", "count", ""}}},
		{name: "QueueOpsSeries", fields: appended(ofTime, []field{{"series", "QueueOps[]", "Oldest first."}, {"queues", "string[]", "Those in it."}})},
		{name: "QueueOps", fields: appended([]field{
			{"bucket", "time", ""},
			{"queueName", "string", ""},
			{"pushRequests", "count", ""},
			{"pushMessages", "count", ""},
			{"popMessages", "count", ""},
			{"popEmpty", "count", ""},
			{"ackRequests", "count", ""},
			{"ackSuccess", "count", ""},
			{"ackFailed", "count", ""},
			{"transactions", "count", ""},
			{"partitionsCreated", "count", ""},
			{"partitionsDeleted", "count", ""},
			{"partitionCount", "count", "At the end."},
		}, lagsOf, []field{
			{"pushPerSecond", "number", ""},
			{"popPerSecond", "number", ""},
			{"ackPerSecond", "number", "Failures too."},
			{"emptyPerSecond", "number", ""},
			{"parkedCount", "number", "Pops that waited, on the average."},
		})},
		{name: "QueueLag", fields: appended([]field{{"queueName", "string", ""}, {"popCount", "count", ""}}, lagsOf, []field{
			{"bucketMinutes", "count", ""}, {"bucketTime", "time", ""},
		})},
		{name: "ParkedSeries", fields: appended(ofTime, []field{{"series", "ParkedPoint[]", "Oldest first."}, {"replicas", "Replica[]", "Those in it."}})},
		{name: "ParkedPoint", fields: appended([]field{{"bucket", "time", ""}, {"queueName", "string", ""}}, processName, []field{{"parkedCount", "number", ""}})},
		{name: "Replica", fields: processName},
		{name: "RetentionSeries", fields: appended(ofTime, []field{
			{"series", "RetentionPoint[]", "Oldest first."},
			{"totals", "Dropped", ""},
			{"rows?", "RetentionRow[]", "With groupBy."},
		})},
		{name: "Dropped", fields: droppedCounts},
		{name: "RetentionPoint", fields: appended([]field{{"bucket", "time", ""}}, droppedCounts)},
		{name: "RetentionRow", fields: appended([]field{{"key", "string", "Label or queue."}, {"queues", "count", ""}}, droppedCounts)},
		{name: "Workload", fields: appended(ofTime, []field{
			{"groupBy", "'namespace'|'task'|'queue'", ""},
			{"buckets", "time[]", ""},
			{"rows", "WorkloadRow[]", "By key."},
			{"tenant", "WorkloadTotal", "Of all queues."},
		})},
		{name: "WorkloadRow", fields: appended([]field{
			{"key", "string", "Label or queue."},
			{"namespace?", "string", "Of a queue."},
			{"task?", "string", "Of a queue."},
		}, workloadFields)},
		{name: "WorkloadTotal", fields: workloadFields},
		{name: "WorkloadWindow", text: "In the whole of the time.", fields: appended([]field{
			{"pushMessages", "count", ""},
			{"pushRequests", "count", ""},
			{"popMessages", "count", ""},
			{"popEmpty", "count", ""},
			{"ackRequests", "count", ""},
			{"ackSuccess", "count", ""},
			{"ackFailed", "count", ""},
			{"transactions", "count", ""},
			{"conflated", "count", ""},
			{"partitionsCreated", "count", ""},
			{"partitionsDeleted", "count", ""},
			{"parkedAvg", "number", ""},
		}, lagsOf)},
		{name: "WorkloadSeries", text: "A value for each bucket; null where there was nothing at all.", fields: []field{
			{"push", "count|null[]", ""}, {"pop", "count|null[]", ""}, {"popEmpty", "count|null[]", ""}, {"ackFailed", "count|null[]", ""},
			{"parked", "number|null[]", ""}, {"avgLagMs", "count|null[]", ""}, {"maxLagMs", "count|null[]", ""},
		}},
		{name: "WorkloadNow", text: "What there is.", fields: []field{
			{"pending", "count", ""},
			{"processing", "count", ""},
			{"deadLetter", "count", ""},
			{"retainedBytes", "count", ""},
			{"partitions", "count", ""},
			{"groups", "count", "One for each group and queue."},
			{"queuesWithoutGroup", "count", "Nobody reads them."},
			{"pendingWithoutGroup", "count", ""},
			{"queuesTouched", "count", "They had something in the time."},
			{"queuesActive", "count", "In the last five minutes."},
		}},
		{name: "WorkerMetrics", fields: appended(ofTime, []field{
			{"pointCount", "count", ""},
			{"timeSeries", "WorkerPoint[]", "Newest first."},
			{"workers", "Worker[]", "The process, in the last five minutes."},
			{"queues", "WorkerQueue[]", "Those that messages were popped from."},
			{"summary", "WorkerSummary", ""},
		})},
		{name: "WorkerPoint", fields: appended([]field{
			{"timestamp", "time", ""},
			{"pushMessages", "count", ""},
			{"popMessages", "count", ""},
			{"ackMessages", "count", "Failures too."},
			{"pushRequests", "count", ""},
			{"popRequests", "count", ""},
			{"ackRequests", "count", ""},
			{"jobsDone", "count", "Pushes."},
			{"pushPerSecond", "number", ""},
			{"popPerSecond", "number", ""},
			{"ackPerSecond", "number", ""},
		}, eventLoop, []field{
			{"avgFreeSlots", "count", "0."},
			{"minFreeSlots", "count", "0."},
			{"dbConnections", "count", "0."},
			{"avgJobQueueSize", "count", "0."},
			{"maxJobQueueSize", "count", "0."},
			{"backoffSize", "count", "0."},
		}, lagsOf, []field{
			{"lagCount", "count", ""},
			{"dbErrors", "count", "Of the store, that the broker went on after."},
			{"ackSuccess", "count", ""},
			{"ackFailed", "count", ""},
			{"dlqCount", "count", ""},
		})},
		{name: "WorkerQueue", fields: appended([]field{{"queueName", "string", ""}, {"popCount", "count", ""}}, lagsOf)},
		{name: "WorkerSummary", fields: []field{
			{"totalPushMessages", "count", ""},
			{"totalPopMessages", "count", ""},
			{"totalAckMessages", "count", ""},
			{"totalPushRequests", "count", ""},
			{"totalPopRequests", "count", ""},
			{"totalAckRequests", "count", ""},
			{"totalDbErrors", "count", "Of the store, that the broker went on after."},
			{"totalAckFailed", "count", ""},
			{"totalDlq", "count", ""},
			{"pendingMessages", "count", "Now."},
		}},
		{name: "SystemMetrics", fields: appended(ofTime, []field{
			{"pointCount", "count", ""}, {"replicaCount", "count", ""}, {"replicas", "SystemReplica[]", ""},
		})},
		{name: "SystemReplica", fields: []field{
			{"hostname", "string", ""}, {"port", "count|null", ""}, {"workerId", "count", ""}, {"timeSeries", "SystemPoint[]", "Oldest first."},
		}},
		{name: "SystemPoint", fields: []field{{"timestamp", "time", ""}, {"sampleCount", "count", "Minutes."}, {"metrics", "SystemSample", ""}}},
		{name: "SystemSample", fields: []field{
			{"cpu", "SystemCPU", ""},
			{"memory", "SystemMemory", ""},
			{"database", "SystemDatabase", "Null: there is none."},
			{"uptime_seconds", "Samples", ""},
			{"threadpool", "null", ""},
			{"shared_state", "SystemSharedState", ""},
			{"storage", "SystemStorage", ""},
		}},
		{name: "SystemCPU", text: "In hundredths of a percent of one processor.", fields: []field{{"user_us", "Samples", ""}, {"system_us", "Samples", ""}}},
		{name: "SystemMemory", fields: []field{{"rss_bytes", "Samples", ""}, {"virtual_bytes", "Samples", ""}}},
		{name: "SystemDatabase", fields: []field{{"pool_size", "Samples", ""}, {"pool_idle", "Samples", ""}, {"pool_active", "Samples", ""}}},
		{name: "SystemSharedState", fields: []field{{"enabled", "boolean", "False."}}},
		{name: "SystemStorage", fields: []field{
			{"bytes", "Samples", ""}, {"segments", "Samples", ""}, {"fsync_ms", "Samples", "As 99 of 100 in a minute were no slower."},
		}},
		{name: "Samples", text: "Null: it was not measured.", fields: []field{
			{"avg", "number|null", ""}, {"min", "number|null", ""}, {"max", "number|null", ""}, {"last", "number|null", ""},
		}},
		{name: "PostgresStats", fields: []field{
			{"available", "boolean", "False."},
			{"reason", "string", ""},
			{"timestamp", "time", ""},
			{"database", "null", ""},
			{"databaseCache", "null", ""},
			{"tableCache", "any[]", ""},
			{"indexCache", "any[]", ""},
			{"cacheSummary", "null", ""},
			{"deadTuples", "any[]", ""},
			{"hotUpdates", "any[]", ""},
			{"activeQueries", "any[]", ""},
			{"autovacuumStatus", "any[]", ""},
			{"bufferConfig", "null", ""},
			{"bufferUsage", "any[]", ""},
			{"tableSizes", "any[]", ""},
		}},
		{name: "DeadLetterSignatures", fields: []field{
			{"queue", "string", ""},
			{"rowsNow", "count", "Dead letters of the queue."},
			{"sample", "count", "Those of them that the rest is about."},
			{"retryCounts", "count[]", "Which there are."},
			{"groups", "string[]", "Which there are."},
			{"oldest", "time|null", "When it was set aside."},
			{"newest", "time|null", ""},
			{"avgBytes", "count|null", "Of a payload."},
			{"signatures", "Signature[]", "The most frequent first, at most eight."},
			{"byDay", "LettersOfDay[]", ""},
		}},
		{name: "Signature", fields: []field{{"text", "string", ""}, {"n", "count", ""}, {"share", "number 0..1", ""}}},
		{name: "LettersOfDay", fields: []field{{"day", "string", "In UTC."}, {"n", "count", ""}}},
		{name: "PartitionLiveness", fields: []field{{"capturedAt", "time", ""}, {"rows", "QueueLiveness[]", "Those with most partitions first."}}},
		{name: "QueueLiveness", fields: []field{
			{"queue", "string", ""},
			{"namespace", "string", ""},
			{"task", "string", ""},
			{"partitions", "count", ""},
			{"live1h", "count", "With a write in that time."},
			{"live24h", "count", ""},
			{"live7d", "count", ""},
			{"created24h", "count", ""},
			{"oldestWriteAt", "time|null", "The latest write of the partition that is quiet for longest."},
			{"newestWriteAt", "time|null", ""},
			{"pending", "count", ""},
		}},
	},
}

var (
	ofTime        = []field{{"timeRange", "TimeRange", ""}, {"bucketMinutes", "count", "Width of a bucket."}}
	lagsOf        = []field{{"avgLagMs", "count|null", "Age at delivery; null where nothing was delivered."}, {"maxLagMs", "count|null", ""}}
	eventLoop     = []field{{"avgEventLoopLagMs", "number", "How long goroutines waited for a processor."}, {"maxEventLoopLagMs", "number", ""}}
	processName   = []field{{"hostname", "string", ""}, {"workerId", "count", "0."}}
	droppedCounts = []field{
		{"retentionMsgs", "count", ""},
		{"completedRetentionMsgs", "count", ""},
		{"evictionMsgs", "count", ""},
		{"totalMsgs", "count", ""},
		{"eventCount", "count", "Minutes of queues in which something was taken."},
	}
	workloadFields = []field{
		{"queues", "count", ""},
		{"window", "WorkloadWindow", ""},
		{"series", "WorkloadSeries", ""},
		{"now", "WorkloadNow", ""},
	}
)
