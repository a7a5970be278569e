// Package wal is a log with one owner, written in order and read from front to back:
// github.com/tidwall/wal made safe. The commit journal's generations and the homes of
// offsets and catalogue are such logs. No other package imports tidwall/wal.
//
// # A log's life
//
// [Open] walks every segment file from the front, checks every byte and hands each
// entry to its caller. It cuts a torn tail, refuses damage, replaces the last segment by a
// copy that is synced, since a sync of it may have failed, and leaves the log ready to
// append. [Log.AppendFramed] hands an entry to the kernel, [Log.Sync] puts everything
// appended on the disk. A full segment is synced and closed, and the next one begun, inside
// the append that fills it. The first write or sync that fails ends the log: every later
// call answers [ErrFailed], and only a new Open, which verifies everything again, goes on.
// [Scan] walks a log that has no owner any more.
//
// A [Home] is a log that folds: a snapshot of a state followed by changes to it, with
// a rewrite that replaces both by a new snapshot.
//
// # What is torn and what is damage
//
// Writes that were not synced may be lost in any part and any order, so bytes that
// fail their check at the end of the last segment are no surprise: they are cut, with a
// warning, and kept in a file beside. But bytes that had been synced never change by
// themselves. Every entry therefore carries the last sequence number known to be synced
// when it was written. If a later entry, wherever it lies, vouches for the bad one, or a
// later segment exists, then something that was answered is gone: a [CorruptError]
// names file and position, and nothing is touched. One case stays open: the very last
// entry, if it was synced and nothing followed it, cannot be told from a torn one.
//
// # Design
//
// tidwall/wal 1.2.1 has no checksums, takes zeros for empty entries, cannot open a torn
// log, goes on after a failed write and is then unreadable, and panics when a segment
// is missing. Our entries carry checksums and sequence numbers; it opens only what we
// have verified; its Read and Truncate methods, which hold most of its faults, are never
// called, nor is its Sync: fdatasync through our own handle of the tail costs a fifth
// less. What remains of it is framing, buffering and rolling.
//
// It calls package os itself, so over any other file system than vfs.OS an appender of
// ours writes the same bytes; a test compares the files of both. Options.Direct takes
// ours on vfs.OS too, and the commit journal does: the library holds the tail segment in
// memory and grows that buffer by copying, which was half of all bytes the broker
// allocated while a million partitions were made (2.2 of 4.4 GB), and a seventh of the
// processor time of a push (1.47 against 1.71 us a message, batches of 100, two runs of
// each side by side), with a p99 twice as high. Homes are written once a checkpoint and
// keep the library. So what fault tests simulate for the journal is what runs.
//
// What this asks of a disk: a sync that returns nil is the truth; a sector never written
// to does not change; a torn write leaves old bytes, new bytes or zeros.
package wal
