// Package index finds messages in segments: by offset, by time, and at all.
//
// Consecutive batches of one partition that lie together in a segment are an
// extent, and an Entry describes it. What one checkpoint adds to one segment is a
// run: batches sorted by partition and offset, the entries of their extents in the
// same order, and a Trailer. A Packer forms the extents and Write puts them behind
// the batches.
//
// Each entry points to the one before it of its partition, which may lie in another
// segment. So a partition's whole index hangs on one Pointer, to its newest entry:
// that is all a broker with a million partitions keeps in memory of each. Whoever
// reads loads the chain, newest first, and searches it with FindOffset and FindTime. Search
// finds the entry that a pointer meant whose place is gone.
//
// ReadIndex reads the entries of the run that ends at a position, and where that
// run starts, which is where the one before it ends. Rebuild makes the entries of a
// segment from its batches alone, and Link their pointers to each other; nothing in
// an index is lost with it.
//
// # Design
//
// Entries are of one length and each has its own checksum, because they are read
// one at a time, by pointer. Positions have 32 bits: a segment stays far below
// 4 GiB, and an entry below 64 bytes, of which a partition with one small batch
// costs one.
package index
