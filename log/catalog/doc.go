// Package catalog is the catalogue: the home of everything that is neither a message
// nor a cursor. Queues, partitions, groups, dead letters, segment files, and how far
// segments hold each partition.
//
// It is a log of record frames over a snapshot (wal.Home). Open hands every frame to the
// caller, who folds them: the last frame of a key wins. A checkpoint appends one entry
// with all that changed; that entry is the checkpoint's commit point, because it says
// how much of each segment file counts and up to which generation the journal is filed.
// When the changes outgrow the snapshot, Rewrite starts a new one.
//
// One owner at a time: the broker's opening, then its checkpoint.
package catalog
