// Package faultfs is a file system in memory for tests: strict about what has been
// synced, able to fail at any call and to lose its power.
//
// A test runs its script on [New], arms [FS.FailAt] with call 0, then 1, then 2, until
// a run ends before the fault is met, and opens what [FS.Crash] or [FS.CrashStrict]
// leave of each run. To crash *at* a call, arm a sticky fault there: nothing after it
// changes the disk.
//
// # What a crash leaves
//
// Bytes of a file are on the disk once Sync of one of its handles has returned nil.
// Of each later write, every block of the file is there or not, in any order: blocks of
// 4 KiB, of a sector or of fewer bytes, as the crash has it for each file. An extension
// whose bytes did not arrive may read as zeros. Bytes whose Sync failed stay
// doubtful for ever, as they do on Linux: a later success does not bring them back.
//
// A name is on the disk once SyncDir of its directory has returned nil. Of later
// creations, renames and removals, any may have happened, in any order; one rename
// happens whole or not at all, also between two directories, of which syncing either
// is enough. Syncing a file does not sync its name, though ext4 does.
package faultfs
