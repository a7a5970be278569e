package openapi

var switching = &body{typ: "Switch", example: `{"enabled":true}`}

var maintenance = area{
	tag: "Maintenance", text: "Hold pushes or pops back, for the whole broker.",
	operations: []operation{
		{
			route: "GET /api/v1/system/maintenance", id: "maintenance",
			summary: "Are pushes or pops held back?",
			text:    "And what is spooled.",
			answers: []answer{{200, "Maintenance", "How the switches are.", `{"maintenanceMode":true,"popMaintenanceMode":false,"bufferedMessages":3,"bufferHealthy":true,"bufferStats":{"pendingCount":3,"failedCount":0,"dbHealthy":true,"failedFiles":{"count":0,"totalBytes":0,"totalMB":0.0,"failoverCount":0,"qos0Count":0}}}`}},
		},
		{
			route: "POST /api/v1/system/maintenance", id: "setMaintenance",
			summary: "Spool pushes, or store them again",
			text:    "While it is on, pushes are answered buffered; when it is turned off, they are stored, once each, in their order.",
			body:    switching,
			answers: []answer{{200, "MaintenanceSet", "It is on disk.", `{"maintenanceMode":true,"bufferedMessages":0,"bufferHealthy":true,"message":"Maintenance mode ENABLED. All PUSHes routing to file buffer."}`}},
		},
		{
			route: "GET /api/v1/system/maintenance/pop", id: "popMaintenance",
			summary: "Are pops held back?",
			text:    "Then each is answered 204.",
			answers: []answer{{200, "PopMaintenance", "How the switch is.", `{"popMaintenanceMode":false,"message":"Pop maintenance mode is OFF. Normal operation."}`}},
		},
		{
			route: "POST /api/v1/system/maintenance/pop", id: "setPopMaintenance",
			summary: "Answer pops empty, or serve them again",
			text:    "Polls that wait are answered at once.",
			body:    switching,
			answers: []answer{{200, "PopMaintenance", "It is on disk.", `{"popMaintenanceMode":true,"message":"Pop maintenance mode ENABLED. All POP operations will return empty arrays."}`}},
		},
		{
			route: "GET /api/v1/status/buffers", id: "buffers",
			summary: "What is spooled",
			text:    "Pushes that push maintenance holds back.",
			answers: []answer{{200, "Buffers", "Messages in the spool.", `{"pending":3,"failed":0,"dbHealthy":true,"worker":0}`}},
		},
		{
			route: "GET /api/v1/system/shared-state", id: "sharedState",
			summary: "The switches, for tools that look for a cluster",
			text:    "There is no cluster.",
			answers: []answer{sharedState},
		},
		{
			route: "GET /internal/api/shared-state/stats", id: "sharedStateStats",
			summary: "The same, for brokers that look for each other",
			text:    "There is no cluster.",
			answers: []answer{sharedState},
		},
		{
			route: "GET /internal/api/inter-instance/stats", id: "interInstanceStats",
			summary: "The same, under an older name",
			text:    "There is no cluster.",
			answers: []answer{sharedState},
		},
	},
	schemas: []schema{
		{name: "Switch", fields: []field{{"enabled", "boolean", ""}}},
		{name: "Maintenance", fields: []field{
			{"maintenanceMode", "boolean", "Pushes are spooled."},
			{"popMaintenanceMode", "boolean", "Pops are answered empty."},
			{"bufferedMessages", "count", "In the spool."},
			{"bufferHealthy", "boolean", ""},
			{"bufferStats", "BufferStats", ""},
		}},
		{name: "BufferStats", fields: []field{
			{"pendingCount", "count", ""}, {"failedCount", "count", "0."}, {"dbHealthy", "boolean", ""}, {"failedFiles", "FailedFiles", ""},
		}},
		{name: "FailedFiles", text: "There are none.", fields: []field{
			{"count", "count", ""}, {"totalBytes", "count", ""}, {"totalMB", "number", ""}, {"failoverCount", "count", ""}, {"qos0Count", "count", ""},
		}},
		{name: "MaintenanceSet", fields: []field{
			{"maintenanceMode", "boolean", ""}, {"bufferedMessages", "count", ""}, {"bufferHealthy", "boolean", ""}, {"message", "string", ""},
		}},
		{name: "PopMaintenance", fields: []field{{"popMaintenanceMode", "boolean", ""}, {"message", "string", ""}}},
		{name: "Buffers", fields: []field{
			{"pending", "count", ""}, {"failed", "count", "0."}, {"dbHealthy", "boolean", ""}, {"worker", "count", "0."},
		}},
		{name: "SharedState", fields: []field{
			{"enabled", "boolean", "False: there is no cluster."},
			{"reason", "string", ""},
			{"maintenance_mode", "boolean", ""},
			{"pop_maintenance_mode", "boolean", ""},
		}},
	},
}

var sharedState = answer{200, "SharedState", "There is no cluster.", `{"enabled":false,"reason":"single_node_segments_broker","maintenance_mode":false,"pop_maintenance_mode":false}`}

var observing = area{
	tag: "Health and metrics", text: "For probes and scrapers.",
	operations: []operation{
		{
			route: "GET /health", id: "health",
			summary: "May requests be sent here?",
			text:    "200 while the broker serves and takes writes. A full disk does not change it.",
			answers: []answer{
				{200, "Health", "Yes.", `{"status":"healthy","database":"connected","engine":"skep","version":"v0.1.0"}`},
				{503, "Health", "No: it recovers, or stops, or a write has failed.", `{"status":"unhealthy","database":"disconnected","engine":"skep","version":"v0.1.0","recovering":true}`},
			},
		},
		{
			route: "GET /status", id: "status",
			summary: "Does the process live?",
			text:    "It asks nobody.",
			answers: []answer{{200, "Alive", "Yes.", `{"status":"ok","engine":"skep"}`}},
		},
		{
			route: "GET /metrics", id: "metrics",
			summary: "A few numbers, as JSON",
			text:    "Requests and messages since the process started.",
			answers: []answer{{200, "Metrics", "The numbers.", `{"uptime":8412,"requests":{"total":91002,"rate":0},"messages":{"total":402881,"rate":0},"database":{"poolSize":0,"idleConnections":0,"waitingRequests":0},"storage":{"queues":12,"partitions":3400,"segments":41,"bytes":2718281828,"fsyncs":70211},"memory":{"rss":661257420,"heapTotal":402653184,"heapUsed":301989888,"external":0,"arrayBuffers":0},"cpu":{"user":812345678,"system":123456789}}`}},
		},
		{
			route: "GET /metrics/prometheus", id: "prometheus",
			summary: "All numbers, for Prometheus",
			text:    "A family that cannot be told is left out.",
			answers: []answer{{200, "text/plain; version=0.0.4; charset=utf-8", "The text format of Prometheus.", ""}},
		},
	},
	schemas: []schema{
		{name: "Health", fields: []field{
			{"status", "'healthy'|'unhealthy'", ""},
			{"database", "'connected'|'disconnected'", ""},
			{"engine", "string", ""},
			{"version", "string", ""},
			{"recovering?", "boolean", "True until the broker has recovered."},
			{"damagedPartitions?", "count", "Those that are out of service, if any are."},
		}},
		{name: "Alive", fields: []field{{"status", "'ok'", ""}, {"engine", "string", ""}}},
		{name: "Metrics", fields: []field{
			{"uptime", "count", "Seconds."},
			{"requests", "Rate", ""},
			{"messages", "Rate", ""},
			{"database", "MetricsDatabase", "All 0: there is none."},
			{"storage", "MetricsStorage", ""},
			{"memory", "MetricsMemory", "In bytes."},
			{"cpu", "MetricsCPU", "In microseconds."},
		}},
		{name: "Rate", fields: []field{{"total", "count", ""}, {"rate", "count", "0."}}},
		{name: "MetricsDatabase", fields: []field{{"poolSize", "count", ""}, {"idleConnections", "count", ""}, {"waitingRequests", "count", ""}}},
		{name: "MetricsStorage", fields: []field{
			{"queues", "count", ""}, {"partitions", "count", ""}, {"segments", "count", ""}, {"bytes", "count", ""}, {"fsyncs", "count", ""},
		}},
		{name: "MetricsMemory", fields: []field{
			{"rss", "count", ""}, {"heapTotal", "count", ""}, {"heapUsed", "count", ""}, {"external", "count", ""}, {"arrayBuffers", "count", ""},
		}},
		{name: "MetricsCPU", fields: []field{{"user", "count", ""}, {"system", "count", ""}}},
	},
}
