// Package dedup is an index from transaction ids to offsets, kept for as long as a
// transaction id may come again: it tells a push that it repeats an earlier one,
// and an acknowledgement which message it means.
//
// An entry is a hash of the partition and the id, an offset and a time: 16 bytes,
// and no allocation. The hash may lie; several entries may share it, because two
// ids collide or because one id was pushed again after its window. So Lookup
// returns candidates and the caller compares with the stored message.
//
// An entry's life, in order:
//
//   - Add puts it into the active bucket, which is one open-addressing table for
//     each of 64 shards of the hash.
//   - A bucket that is full, or covers an eighth of the window, is sealed and a new
//     one begins. A sealed bucket never changes, is read without a lock, and gets a
//     Bloom filter so that a miss costs one cache line.
//   - Save appends it, with the others of its journal generation, to the append
//     file of the bucket that is active by then. This is what a restart loads.
//   - When the tables outgrow Options.CacheBytes the oldest sealed bucket is
//     spilled: written to a file sorted by hash, of which the first hash of each
//     page and the filter stay in memory. A lookup there reads one page, and only
//     when the filter says so. Small sorted files are merged into larger ones.
//   - Expire drops its bucket, in memory or on disk, when the newest entry of the
//     bucket is older than what anybody may still ask for.
//
// # Files
//
//	seed               the seed of the hash; chosen once
//	<bucket>.log       append file: blocks of entries in the order of Save
//	<bucket>.sorted    sorted file: pages of entries in the order of their hash;
//	                   covers the buckets from the one in its header to the one in its name
//	<name>.tmp         a sorted file or seed being written; removed at open
//	<name>.damaged     set aside by Open; see Recovery
//
// # Design
//
// An entry lies in the table of the bucket that was active when it was added and in
// the append file of the bucket that was active when it was saved. These need not be
// one bucket, but the second is never the older: that, and spilling in order of age,
// is all that makes it safe to delete the append file of a bucket once its table is
// in a sorted file. Whatever else the append file holds was spilled, or expired,
// before. Matching the two exactly would take a second lookup an entry at Save, or
// buckets that are cut by timestamp and go wrong when the clock does.
//
// Time buckets across all partitions, not a structure a partition: a lane with one
// message an hour costs what its entries cost, and forgetting is deleting a file.
//
// Nothing here is a source of truth. Everything can be built again from the messages
// that are kept, so a damaged file is set aside and reported, and never repaired.
//
// # Concurrency
//
// Hash, Add, Lookup and Stats are for any number of goroutines and wait for no
// input or output but the page a Lookup reads. Save, Expire, DiscardDamaged and Close
// exclude each other by a mutex that the former never take; the work in the
// background (filters, spilling, merging) is done inside Save and Expire, so the
// package has no goroutine. The memory above CacheBytes is what was added since the
// last of these calls. Lock order: filesMu, shards by number, layoutMu.
package dedup
