// Package fsck checks a data directory that no broker serves, and repairs it.
//
// Verify reads everything and changes nothing. It folds the catalogue, the consumer-offset
// log and the journal as a broker's start does, by code of its own, and then holds against
// each other what they say and what the files hold: every batch and every index entry of
// every segment, the chain of extents of every partition from its end to its start, the
// payload of every dead letter, every page of the index of transaction ids. What it finds
// is a Finding each, with file, position, what it means and what to do.
//
// A Finding is an error if something that was answered is lost or a broker would not
// start, a warning if a broker makes it good by itself at a price, and a note if it is what
// any crash leaves behind.
//
// # Memory
//
// What a broker keeps of queues, partitions, groups, cursors and dead letters, without the
// messages: files are read an extent or a log segment at a time.
package fsck
