// Package partition keeps the logs of partitions: what was pushed and is no longer
// in the broker's memory.
//
// Open takes the list of segments that the caller's catalogue knows, cuts what a
// crashed checkpoint left behind them and removes segments nobody knows. A
// checkpoint hands the tails of all partitions to File. Small tails of a queue go,
// sorted by partition, into its shared segment as one run; a large one goes to a
// segment that its partition has for itself. File syncs what it wrote and returns
// for each partition a pointer to its newest index entry and for each segment its
// new length. Once the caller has recorded both, and not before, Read finds the
// batches from that pointer. If the caller dies in between, the next Open has the
// old lengths and cuts what was added. Drop unlinks the segments of a queue.
//
// What retention has dropped goes by whole segments. Aged and Extents tell the caller,
// who knows where each partition starts, what is in a segment. When nothing of it is
// needed, Retire seals it, the caller records that it is gone, and Remove unlinks it. Where
// little of it is needed, Rewrite copies that, of several segments at once, to a new one. The
// caller records in one step that this is there and those are gone, and Replace unlinks them.
//
// Hold keeps the files of the segments that there are for whoever copies them: those that are
// unlinked meanwhile go when they are released.
//
// Per partition a Store remembers nothing, only what was read lately, within
// Options.CacheBytes. So a million partitions cost the 12 bytes of pointer that the
// caller keeps of each.
//
// # Locks and owners
//
// A Store has no goroutine of its own; File starts writers and waits for them.
// Store.mu guards the segment list and who replaces whom, files.mu the open files, cache.mu the cache.
// None is held while another is taken, nor across any call into the file system.
// Whoever reads holds a reference to the open file, and a file that was dropped or
// pushed out by others closes with the last reference.
//
// # Design
//
// File first decides where every byte goes (plan.go), without writing, then writes
// one segment a goroutine. The plan needs the place of an entry before it is
// written, because the entry after it points there; and a File that fails has only
// a plan to forget. Bytes already written lie past the valid length of their
// segment, where the next File cuts them.
//
// A rewritten segment answers for those that it replaces. Entries in other segments, and the
// pointers that the caller keeps, go on naming places that are gone, and nothing has to be
// changed for them: a chain only ever asks for the last extent of a partition that begins
// before an offset, and a rewritten segment has one run, sorted by partition and offset, so
// a binary search finds that without the place. In memory that takes an id for an id
// (Store.moved), and in the catalogue the list of ids that a segment replaces, those included
// that its sources had replaced. Both go with the segment. The alternatives were to move the
// whole chain of a partition, so that one pointer is changed and a partition with a long
// backlog is copied over and over; a table of old and new places, an entry an extent, to be
// kept in memory; and punching holes, which needs a file system that can, and frees nothing
// where what is needed lies scattered. The cost is some twenty reads of an entry where a
// chain crosses into a rewritten segment, once while the chain stays cached.
//
// What is not copied lies below the start of its partition, and so does all that comes before
// it there. Partitions with holes, those of dead letters, are the exception; see
// keptWithHoles.
//
// Whoever reads while segments are replaced goes on with the files that are open. If what was
// two extents is one by now, or an extent of a cached chain is gone from where it was, the
// read starts over from the offset it has come to (errMoved).
//
// A segment whose sync has failed is never written again: the kernel may have
// dropped the pages and report success the next time. What it held before stays
// readable, for that was synced.
package partition
