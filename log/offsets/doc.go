// Package offsets is the consumer-offset log: the home of every cursor, lease and retry
// counter, one record.Cursor a (partition, group), the last one wins.
//
// It is a log over a snapshot (wal.Home). Open hands every record to the caller, who
// folds them into memory. A checkpoint appends the cursors that moved; when the changes
// outweigh the snapshot, Rewrite starts a new one from the caller's memory. A record of
// a partition or group that the catalogue no longer knows is garbage, and the caller
// passes over it.
//
// One owner at a time: the broker's opening, then its checkpoint.
package offsets
