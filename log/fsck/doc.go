// Package fsck checks a data directory that no broker serves, and repairs it.
//
// Verify reads everything and changes nothing. It folds the catalogue, the consumer-offset
// log and the journal as a broker's start does, by code of its own, and then holds against
// each other what they say and what the files hold: every batch and every index entry of
// every segment, the chain of extents of every partition from its end to its start, the
// payload of every dead letter, every page of the index of transaction ids. Pointers into
// segments that were rewritten are followed as package log/partition says. What it finds
// is a Finding each, with file, position, what it means and what to do.
//
// A Finding is an error if something that was answered is lost or a broker would not
// start, a warning if a broker makes it good by itself at a price, and a note if it is what
// any crash leaves behind.
//
// Repair looks with the eyes of Verify, changes what it can, and looks again, until there is
// nothing more. A batch that cannot be read is overwritten, in its place, by one that says how
// many messages are lost (segment.AppendLost), so that positions, offsets, index and chains
// around it stay as they are. An index is built again from its batches. Where both are gone
// the chains of their partitions are joined over new segments that hold nothing but what is
// lost, and the place is filled with a run that is nobody's. The journal is cut.
//
// # Design
//
// No state of a repair is kept: each one begins with a look, so one that was interrupted is
// completed by the next. For that, a step leaves behind either what was there, or what the
// next look finds to be damaged still: the catalogue knows a new segment before anything
// points to it, generations of the journal go last first. Dropping what precedes or follows
// the damage of a partition, as retention would, needs no new format, but loses messages
// that can be read.
//
// # Memory
//
// What a broker keeps of queues, partitions, groups, cursors and dead letters, without the
// messages: files are read an extent or a log segment at a time.
package fsck
