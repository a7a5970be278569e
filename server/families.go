package server

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// family is the metrics of one name. All are made once; what they are worth is read at each
// scrape.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func counter(name, help string, labels ...string) family {
	return family{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) family {
	return family{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

// scrape is one collection. Names of clients may hold any bytes, labels only text.
type scrape struct{ metricsC chan<- prometheus.Metric }

func (s scrape) add(f family, value float64, labels ...string) {
	for i := range labels {
		labels[i] = strings.ToValidUTF8(labels[i], "�")
	}
	m, err := prometheus.NewConstMetric(f.desc, f.kind, value, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(f.desc, err)
	}
	s.metricsC <- m
}

func (s scrape) flag(f family, on bool) {
	value := 0.0
	if on {
		value = 1
	}
	s.add(f, value)
}

// The process.
var (
	uptimeSeconds = gauge("queen_uptime_seconds", "Seconds since the process started.")
	residentBytes = gauge("queen_process_resident_memory_bytes", "Resident memory.")
	heapLiveBytes = gauge("queen_heap_bytes", "Bytes that objects take on the heap, garbage included.")
	schedLag      = gauge("queen_event_loop_lag_avg_milliseconds", "Mean wait of a goroutine for a processor, over the last minute.")
	connections   = gauge("queen_connections", "Open connections.")
	maxConns      = gauge("queen_connections_max", "Connections beyond which another is refused.")
	budgetUsed    = gauge("queen_memory_used_bytes", "Memory in use of what has a bound.", "kind")
	budgetLimit   = gauge("queen_memory_limit_bytes", "Bounds of memory; at a bound requests wait or are refused.", "kind")

	httpRequests = counter("queen_http_requests_total", "Requests answered since the start.", "op", "code")
	requestTook  = gauge("queen_request_milliseconds", "How long requests take, since the start; pops, which wait for messages, left out.", "op", "quantile")
	ready        = gauge("queen_ready", "1: the broker has recovered and takes writes.")
)

// What the broker counts, since the start.
var (
	pushRequests     = counter("queen_process_push_requests_total", "Push requests.")
	popRequests      = counter("queen_process_pop_requests_total", "Pop requests, empty ones included.")
	ackRequests      = counter("queen_process_ack_requests_total", "Acknowledging requests.")
	pushMessages     = counter("queen_process_push_messages_total", "Messages stored.")
	popMessages      = counter("queen_process_pop_messages_total", "Messages delivered, each time.")
	ackMessages      = counter("queen_process_ack_messages_total", "Messages acknowledged as completed.")
	emptyPops        = counter("queen_process_pop_empty_total", "Pops answered empty.")
	failedAcks       = counter("queen_process_ack_failed_total", "Messages given back or set aside, and acknowledgements refused.")
	transactionCount = counter("queen_process_transactions_total", "Transactions committed.")
	deadLettered     = counter("queen_process_dlq_total", "Messages set aside as dead letters.")

	targetedPops = counter("queen_pop_targeted_total", "Pops of one partition.")
	wildcardPops = counter("queen_pop_wildcard_total", "Pops of a queue, or of all with a label, that take from any partition.")
	heldPops     = counter("queen_pop_fill_wait_total", "Pops that waited for more messages than there were, because of minPopWaitTime.")
	heldTime     = counter("queen_pop_fill_wait_microseconds_total", "For how long, all together.")

	batchesFired  = counter("queen_batches_fired_total", "Commits of the journal that served an operation; one may serve several.", "op")
	batchItems    = counter("queen_batch_items_fired_total", "What an operation committed: one item for each partition that a request touched.", "op")
	itemsPerBatch = gauge("queen_fusion_items_per_batch", "Mean number of items in a commit, over the last minute or two.", "op")
	batchTook     = gauge("queen_batch_rtt_milliseconds", "How long these commits took, over the last minute or two.", "op", "quantile")

	totalPushRequests = counter("queen_cluster_push_requests_total", "Push requests since the data directory was made.", "scope")
	totalPopRequests  = counter("queen_cluster_pop_requests_total", "Pop requests since then.", "scope")
	totalAckRequests  = counter("queen_cluster_ack_requests_total", "Acknowledging requests since then.", "scope")
	totalPushMessages = counter("queen_cluster_push_messages_total", "Messages stored since then.", "scope")
	totalPopMessages  = counter("queen_cluster_pop_messages_total", "Messages delivered since then.", "scope")
	totalAckMessages  = counter("queen_cluster_ack_messages_total", "Messages acknowledged as completed since then.", "scope")
	totalTransactions = counter("queen_cluster_transactions_total", "Transactions committed since then.", "scope")
	totalDLQ          = counter("queen_cluster_dlq_total", "Messages set aside since then.", "scope")
	totalAcks         = counter("queen_cluster_ack_total", "Acknowledgements since then.", "scope", "result")
	totalErrors       = counter("queen_cluster_db_errors_total", "Errors of the store that the broker went on after, and pushes refused for want of disk, since then.", "scope")

	deletedMessages = counter("queen_retention_deleted_messages_total", "Messages dropped, by the rule of their queue.", "rule")
	deletedBytes    = counter("queen_retention_deleted_bytes_total", "Bytes of segments that have left the disk. Messages of one segment go by several rules, so bytes have none.")
	evictedUnread   = counter("queen_retention_evicted_unread_messages_total", "Messages that a rule took from a group that had not acknowledged them.")
	reclaimedBytes  = counter("queen_retention_reclaimed_bytes_total", "Bytes given back by rewriting segments that were mostly dead.")
)

// What there is now.
var (
	queueCount     = gauge("queen_queues", "Queues.")
	partitionCount = gauge("queen_partitions", "Partitions.")
	damagedCount   = gauge("queen_damaged_partitions", "Partitions out of service because of damage.")
	damagedByQueue = gauge("queen_damaged_partitions_by_queue", "Partitions out of service, of queues that have any.", "queue")
	leasesLive     = gauge("queen_leases", "Live leases.")
	parkedPolls    = gauge("queen_parked_long_polls", "Pops that wait, by queue; those that wait for labels have none.", "queue")
	parkedMax      = gauge("queen_parked_long_polls_max", "Waiting pops beyond which another is refused.")
	dlqDepth       = gauge("queen_dlq_depth", "Dead letters.", "scope")
	dlqByQueue     = gauge("queen_dlq_depth_by_queue", "Dead letters of queues that have any.", "queue")

	pushMaintenance = gauge("queen_maintenance_mode_enabled", "1: pushes are spooled.")
	popMaintenance  = gauge("queen_pop_maintenance_mode_enabled", "1: pops are answered empty.")
	bufferPending   = gauge("queen_file_buffer_pending", "Messages in the spool of push maintenance.")
	bufferFailed    = gauge("queen_file_buffer_failed", "Messages of the spool that were given up; none ever is.")
	bufferHealthy   = gauge("queen_file_buffer_db_healthy", "1: the spool can be written, and drained when the time comes.")

	groupLag        = gauge("queen_group_lag_messages", "Messages that a group has not acknowledged; the groups that are furthest behind.", "queue", "group")
	groupLagSeconds = gauge("queen_group_lag_seconds", "Age of the oldest of them.", "queue", "group")
	groupCount      = gauge("queen_groups", "Consumer groups, each queue's.")
	groupLagAge     = gauge("queen_group_lag_age_seconds", "How old the lags are; finding them walks over all partitions.")
)

// The store.
var (
	storeBytes      = gauge("queen_store_bytes", "Bytes on disk.", "kind")
	storeSegments   = gauge("queen_store_segments", "Segment files.")
	openSegments    = gauge("queen_store_open_segments", "Segment files open for reading.")
	fsyncs          = counter("queen_store_fsync_total", "Syncs of the commit journal.")
	slowFsyncs      = counter("queen_store_slow_fsync_total", "Syncs that took a second or more.")
	fsyncTook       = gauge("queen_store_fsync_milliseconds", "How long syncs take, over the last minute or two.", "quantile")
	fsyncSeconds    = counter("queen_store_fsync_seconds_total", "Time spent in syncs.")
	appendBytes     = counter("queen_store_append_bytes_total", "Bytes written to the commit journal.")
	filedBytes      = counter("queen_store_filed_bytes_total", "Bytes written to segments by checkpoints and rewrites.")
	commits         = counter("queen_store_commits_total", "Entries of the journal, each of which commits one or more records.")
	commitRecords   = counter("queen_store_commit_records_total", "Records that these entries held.")
	recoverySeconds = gauge("queen_store_recovery_seconds", "How long each part of the start took, and the total.", "phase")
	diskFree        = gauge("queen_disk_free_bytes", "Free bytes of the disk of the data directory.")
	diskUsed        = gauge("queen_disk_used_ratio", "Used part of that disk, from 0 to 1.")
	diskFull        = gauge("queen_disk_full", "1: pushes are refused.")
	undecrypted     = counter("queen_undecrypted_payloads_total", "Encrypted payloads that were read as they are stored, since the start: their key is not here.")
	memoryHigh      = gauge("queen_memory_high", "1: new queues, partitions and groups are refused.")
)

// The newest minute of queues that had traffic in the last five.
var (
	minutePushRequests = gauge("queen_queue_push_requests_per_minute", "Push requests of the newest minute.", "queue")
	minutePushed       = gauge("queen_queue_push_messages_per_minute", "Messages stored in the newest minute.", "queue")
	minutePopped       = gauge("queen_queue_pop_messages_per_minute", "Messages delivered in the newest minute.", "queue")
	minuteEmpty        = gauge("queen_queue_pop_empty_per_minute", "Empty pops of the newest minute.", "queue")
	minuteTransactions = gauge("queen_queue_transactions_per_minute", "Transactions of the newest minute.", "queue")
	minuteAcks         = gauge("queen_queue_ack_per_minute", "Acknowledgements of the newest minute.", "queue", "result")
	minuteConflated    = gauge("queen_queue_conflated_per_minute", "Messages passed undelivered in the newest minute.", "queue")
	minuteLag          = gauge("queen_queue_pop_lag_milliseconds", "Age of messages at their delivery, in the newest minute with any.", "queue", "stat")
	minuteParked       = gauge("queen_queue_parked_consumers", "Pops that waited at the end of the newest minute.", "queue")
	minuteAge          = gauge("queen_queue_metrics_age_seconds", "How long ago the newest minute ended; 0 while it runs.", "queue")
)
