package openapi

var settings = area{
	tag: "System", text: "Backups, and what is in force.",
	operations: []operation{
		{
			route: "POST /api/v1/system/snapshot", id: "snapshot",
			summary: "A backup of the whole broker",
			text: `As it is at one moment, of all tenants, with metrics and traces. An answer that ends before its length is no backup. A body is
not read.`,
			answers: []answer{
				{200, "application/x-tar", "The files, and at the end MANIFEST.json with the SHA-256 of each.", ""},
				{409, "Error", "Another snapshot is being copied.", `{"error":"another snapshot is being copied","code":"snapshot_running"}`},
			},
		},
		{
			route: "GET /api/v1/system/config", id: "config",
			summary: "Every setting, its value and where that is from",
			text:    "Secrets are shown by their length alone.",
			answers: []answer{{200, "Settings", "The settings.", `{"settings":[{"name":"PORT","value":"6632","source":"default"},{"name":"JWT_SECRET","value":"<set:32 chars>","source":"environment","from":"JWT_SECRET"}],"unknown":[],"ignored":[],"warnings":[]}`}},
		},
		{
			route: "POST /internal/api/notify", id: "notify",
			summary: "Wake the polls of a queue",
			text:    "What brokers of a cluster send each other. Here polls are woken anyway.",
			body:    &body{typ: "Notification", example: `{"queue":"orders.created"}`},
			answers: []answer{{200, "Notified", "They are awake.", `{"status":"ok"}`}},
		},
	},
	schemas: []schema{
		{name: "Settings", fields: []field{
			{"settings?", "Setting[]", ""},
			{"unknown?", "UnknownSetting[]", "Variables that look like settings and are none."},
			{"ignored?", "string[]", "Variables of other brokers that have no effect."},
			{"warnings?", "string[]", ""},
		}},
		{name: "Setting", fields: []field{
			{"name", "string", ""}, {"value", "string", ""}, {"source", "string", ""}, {"from?", "string", "The variable or flag."},
		}},
		{name: "UnknownSetting", fields: []field{{"name", "string", ""}, {"nearest?", "string", "What may be meant."}}},
		{name: "Notification", fields: []field{{"queue", "string", ""}, {"partition?", "any", "It means nothing."}}},
		{name: "Notified", fields: []field{{"status", "'ok'", ""}}},
	},
}
