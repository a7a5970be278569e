package openapi

const about = `Skep is a message broker: queues of many ordered partitions, consumer groups with leases and
acknowledgements, dead letters, transactions. An answered write is on disk.

**Consuming removes nothing.** A pop leases messages just behind the cursor of its group in a
partition, an acknowledgement moves the cursor, and other groups are not concerned.

**Errors** are {"error": "text"}, some with a code. Programs should look at status and code. Beside
what an operation lists there is what every HTTP server has: a path that is no route is 404 with the
code no_such_route, and a method that a path has not is 405 with Allow.

**Lenient readers.** Bodies are read as JSON whatever Content-Type says, unknown members and
parameters are ignored, and newer versions add members to answers.

**Access** is open by default. With authentication on, x-level is the least role that opens an
operation: read-only and write-only open what they say, read-write both and more, admin everything.`

const aboutTokens = `A JSON Web Token, where the broker is configured to ask for one (JWT_ENABLED). Its claim role, or
roles, has to open the level of the operation.`

const aboutTenants = `Whose queues the request is about, where the broker is configured to ask (QUEEN_TENANCY_HEADER).
Absent: the default tenant.`

// pathParameters are the names that patterns of routes have behind colons.
var pathParameters = [...]field{
	{"queue", "string", "Name of the queue. Any text is one, percent-encoded: a/b is a%2Fb."},
	{"partition", "string", "Name of the partition."},
	{"group", "string", "Name of the consumer group; __QUEUE_MODE__ is that of requests that name none."},
	{"leaseId", "string", "The leaseId of a pop."},
	{"partitionId", "string", "The partitionId of a message. What is no id is that of no partition."},
	{"transactionId", "string", "The transactionId of a message, percent-encoded."},
	{"traceName", "string", "Name of traces."},
	{"id", "string", "The id of a dead letter. What is no id is that of none."},
}

// shared are the answers that operations have in common.
var shared = [...]struct {
	name string
	answer
}{
	{"BadRequest", answer{400, "Error", "A body, a parameter or a path that cannot be read, or a request that two programs could read in two ways. Repeating it is no use.", `{"error":"bad body: items is missing"}`}},
	{"Unauthorized", answer{401, "Error", "No token, or not a good one.", `{"error":"Authentication required"}`}},
	{"Forbidden", answer{403, "Error", "No role of the token opens this, or a page of another site has sent it (cross_site), or Host is no name of this broker (unknown_host).", `{"error":"Insufficient permissions"}`}},
	{"NotFound", answer{404, "Error", "There is no such thing.", `{"error":"Message not found"}`}},
	{"QueueNotFound", answer{404, "Error", "There is no such queue.", `{"error":"Queue not found"}`}},
	{"Timeout", answer{408, "Error", "The body arrived too slowly.", `{"error":"timeout while reading the request body"}`}},
	{"TooLarge", answer{413, "Error", "The body is larger than QUEEN_MAX_BODY_BYTES.", `{"error":"request body too large"}`}},
	{"Compressed", answer{415, "Error", "The body has a Content-Encoding: nothing is decompressed.", `{"error":"compressed request bodies are not taken"}`}},
	{"Unavailable", answer{503, "Error", "The broker recovers, stops, or is at a bound; code says which. Nothing was done, but with storage_failed nobody knows.", `{"error":"recovering","code":"recovering"}`}},
	{"StorageFull", answer{507, "Error", "The disk is nearly full: what stores messages is refused, all else goes on.", `{"error":"storage is full","code":"storage_full"}`}},
	{"Unread", answer{0, "Error", "Any other status: a request that could not be read (408, 413, 415, 431), or a fault of the broker (500).", `{"error":"partition damaged","code":"partition_damaged"}`}},
}

// What is no operation is answered.
var (
	noSuchRoute      = answer{404, "Error", "There is no such route.", `{"error":"Not Found","code":"no_such_route"}`}
	methodNotAllowed = answer{405, "Error", "The path has other methods; Allow lists them.", `{"error":"Method Not Allowed","code":"method_not_allowed"}`}
)

// common has the schemas that areas share.
var common = area{
	tag: "Document", text: "What this document is.",
	operations: []operation{{
		route: "GET /openapi.json", id: "getOpenAPI",
		summary: "This document",
		text:    "The API of this broker, in OpenAPI 3.1. It says nothing of what the broker holds, and asks for no token.",
		answers: []answer{{200, "any", "The document.", ""}},
	}},
	schemas: []schema{
		{name: "Error", fields: []field{
			{"error", "string", "For people."},
			{"code?", "'cross_site'|'unknown_host'|'no_such_route'|'method_not_allowed'|'recovering'|'stopping'|'overloaded'|'memory_high'|'storage_full'|'storage_failed'|'partition_damaged'|'internal'|'no_encryption_key'|'snapshot_running'|'trace_failed'|'too_many_names'|'name_too_long'", "For programs; only some errors have one."},
			{"errorId?", "string", "With internal: what the log says of it has the same."},
		}},
		{name: "Counts", fields: []field{
			{"total", "count", "Messages kept."},
			{"pending", "count", "Those behind the slowest group that are not leased."},
			{"processing", "count", "Those that are leased."},
			{"completed", "count", "Those that every group has done."},
			{"failed", "null", "Always null."},
			{"deadLetter", "count", "Dead letters of all groups."},
		}},
		{name: "Payload", is: "any", text: "Any JSON value, delivered byte for byte as it was pushed."},
	},
}
