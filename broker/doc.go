// Package broker decides: which offset a message gets, whether it is a duplicate, who may
// work on it until when, how far a consumer group has come. It knows nothing of HTTP and
// JSON, and every file it needs belongs to a package below it.
//
// # The life of a message
//
// Push groups the items of a request by partition. Under the partition's lock it looks up
// transaction ids, gives out offsets and a timestamp, and hands one record to the commit
// journal, which also keeps the bytes: the partition's tail points into the journal's
// memory. The lock that assigns the offset queues the record, so append order, offset
// order, journal order and timestamp order are one. When the journal has synced, the high
// watermark rises over the batch, and only then can anyone see it: the partition is
// offered to every group of the queue.
//
// Pop takes the next ready partition of its group and claims it: under the lock it
// reserves the cursor, without the lock it reads the messages, under the lock again it
// takes the lease. Acknowledge decides all acks of one lease in one partition together
// (decide is the whole rule, as a pure function) and answers when the cursor is on disk.
//
// A checkpoint, in the background, brings tails into segments, cursors into the
// consumer-offset log and the rest into the catalogue, and then drops the journal
// generations that held them.
//
// # Design
//
// Facts, not commands. The broker decides under its locks and writes down what it
// decided. Replaying a record decides nothing again and may happen twice: a batch that is
// filed is known by its offset, and every other record is the whole new state of its key.
//
// Implied cursors. A group that registers on a queue of a million partitions makes no
// million cursors. Where it starts in a partition it has not touched follows from the
// subscription's instant and the times of the partition's batches. For this, the instant
// of a group that wants new messages only is chosen above every timestamp given out so
// far in the queue, and later timestamps never fall below it.
//
// Ready partitions. See type ready. Its invariant: a partition that has something for a
// group, and whose cursor is not busy, is in the group's FIFO, or not yet scanned, or
// being looked at, or the wheel will offer it.
//
// What is decided but not yet on disk keeps a cursor busy (cursor.inflight), so nothing
// is ever handed out that rests on a change a power cut could undo.
//
// Dead letters keep their payload in a hidden partition of their queue, so it is stored,
// filed and checksummed like any message; what lists need of them is in memory.
//
// Partition ids are formed from the data directory's id and the partition's number, so
// finding one is indexing an array. Message ids are formed from the batch's id and the
// offset, so a batch stores one, and a minted transaction id tells its offset.
//
// # Goroutines
//
//	checkpointer   Open starts it, Close ends it; see checkpoint
//	turnWheel      Open, Close; offers partitions whose lease expired or whose
//	               messages became visible
//	watchSpace     Open, Close; knows how full the disk is
//	sweepParked    Open, Close; ends long polls whose clients are gone
//	the committer  package journal's, started and ended by it
//
// A parked pop waits in its request's own goroutine.
//
// # Locks, in the order they are taken
//
//	wheel.turnMu               one look at what is due at a time
//	configureMu                one change of options at a time
//	checkpointMu               one checkpoint at a time
//	Broker.mu                  queues and groups by name and number
//	partition.mu               everything of a partition, its cursors included
//	hidden partition's mu      after the partition whose message is set aside
//	queue.mu                   partitions and groups of a queue, announcing it
//	ready.mu, watch.mu         candidates and waiters
//	deadLetters.mu, wheel.mu, lease table, changes.mu, journal, dedup
//	                           leaves: nothing is locked under them
//
// Broker.mu and partition.mu are never held together; nor are two partitions but for the
// hidden one. No lock is held across a write, a sync, a channel send that could block, or
// a request's answer. One exception reads under a lock: a push whose transaction id is
// found in the index compares it with the stored message, which may be in a segment.
package broker
