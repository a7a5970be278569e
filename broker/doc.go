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
// Transact decides pushes and acks of many partitions under all their locks, writes one
// entry, and shows what it has stored at once; see type bundle.
// The retainer moves the starts of partitions by the rules of their queues, finds segments
// in which no partition starts any more, rewrites those of which little is left, and removes
// partitions that nobody uses.
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
// Where only the index of the segments can tell that place, who asks keeps it in memory as
// a cursor, without a record.
//
// A seek of a whole queue is a new group of the same name. Its record says that the group
// has been placed in every partition there is, and where; the same entry deletes the old
// one. Group numbers are never used again, so whatever is on disk of the old cursors means
// nothing from then on, and moving a group in a million partitions is one record. In
// memory the old group is marked deleted, and then its cursors are taken out, one
// partition at a time: who holds an old group in its hands finds the mark under the
// partition's lock, and looks for the name again.
//
// Ready partitions. See type ready. Its invariant: a partition that has something for a
// group, and whose cursor is not busy, is in the group's FIFO, or not yet scanned, or
// being looked at, or the wheel will offer it.
//
// What is decided but not yet on disk keeps a cursor busy (cursor.inflight), so nothing
// is ever handed out that rests on a change a power cut could undo.
//
// A group that conflates gets the newest message of a partition and a lease on all that
// lies before it; nothing but the start of a lease differs, see conflate.go.
//
// A pop that would rather have more than little waits before it claims, never after. It
// is only ever late, and what it waits over is anybody's; see hold.go.
//
// Dead letters keep their payload in a hidden partition of their queue, so it is stored,
// filed and checksummed like any message; what lists need of them is in memory, in the
// order of their filing and by address. One that is removed leaves memory before its
// record is written, or with it under the lock of the partition that it moves to: a
// catalogue rewritten from memory outlives the journal's record. Nobody can miss it before
// the record is on its way, and who does waits for what is on its way, see Broker.rested.
//
// Looking at messages takes no part in any of this. Messages orders the partitions by
// their newest message, in memory, and walks as many of them backwards as a page needs;
// what became of a message is told from cursors and subscriptions. It locks a partition
// for a look at a time and reads without a lock, and there is a bound on what one call
// reads, however little of it matches.
//
// A transaction locks what it touches instead of logging an intent and undoing it. It
// reads and creates without locks and then starts over, so locks are held for a decision
// and an append, as by a push. What would need more, a two-phase protocol, is for
// transactions over several brokers, and there are none.
//
// The spool of push maintenance is a hidden queue of one partition, whose messages are
// pushed items (spoolItem). A drain appends runs of them where they belong, and the entry
// that holds a run also moves the drain's cursor over it. A push is spooled until the
// spool is empty, and the last of it is moved while no push can come in between, so
// messages of a partition keep the order of their pushes. See drainer and sweepSpool.
//
// Retention drops in two steps. A start moves at once. Its record is waited for by nobody:
// Open applies the rules again before it serves, and whatever could make them come out
// otherwise, other options, a seek, a new group, has a record behind that of the start. The
// next checkpoint has the start in the catalogue, and only together with it, or later, that
// a segment is dropped; see reap.go. A partition is looked at when its oldest message is due
// (type aging), never on a timer.
//
// A segment of which little is needed does not wait for the last of it. The retainer copies
// that to a new one, bytes as they are and verified; the next checkpoint has both in the
// catalogue, behind the starts that made it little; see rewrite.go. Nothing that pushes, pops
// or acks knows of it: they hold offsets, and a partition's pointer to its newest extent is
// good whether it was moved or not.
//
// A snapshot is what a power cut would leave at the end of a journal generation, listed while
// no checkpoint runs and copied while everything goes on; see snapshot.go.
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
//	watchSpace     Open, Close; knows how full disk and memory are
//	sweepParked    Open, Close; ends long polls whose clients are gone
//	drainSpool     Open, Close; moves what is spooled when push maintenance is off
//	retainer       Open, Close; drops what the rules say, and rewrites segments, see
//	               retain
//	the committer  package journal's, started and ended by it
//
// A parked pop waits in its request's own goroutine.
//
// # Locks, in the order they are taken
//
//	wheel.turnMu               one look at what is due at a time
//	configureMu                one change of options at a time
//	checkpointMu               one checkpoint at a time
//	maintenance.mu             the switches, and which way a push goes
//	retainMu                   one cycle of the retainer at a time
//	Broker.mu                  queues and groups by name and number
//	partition.mu               everything of a partition, its cursors included; of
//	                           several, by ascending number
//	hidden partition's mu      after those whose messages are set aside, and that of the
//	                           spool after the one that is drained into; of several,
//	                           by ascending number
//	queue.mu                   partitions and groups of a queue, announcing it
//	ready.mu, watch.mu         candidates and waiters
//	deadLetters.mu             removals are recorded under it
//	deadLetters.mu, damages.mu, aging.mu, wheel.mu, lease table, changes.mu, journal, dedup
//	                           leaves: nothing is locked under them
//
// Broker.mu and partition.mu are never held together; several partitions only by
// transactions, by an ack that sets aside and by the drain, which take a hidden one as
// well. No lock is held across a write, a sync, a channel send that could block, or a
// request's answer. Two exceptions read under a lock: a push whose transaction id is found
// in the index compares it with the stored message, which may be in a segment. So does the
// drain, at its end under maintenance.mu too. And a pop or an ack that is the first of its
// group in a partition asks the index where the group begins, if memory does not know.
//
// Whoever raises a high watermark over another's transaction reveals that first, and
// holds no lock when it begins to: see Broker.publish.
package broker
