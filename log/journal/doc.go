// Package journal is the commit journal: the one log in front of everything, where a
// fact becomes durable. Many requests ride in one write and one sync.
//
// Its life. Open replays the generations that a checkpoint has not filed, oldest first,
// and starts a new one. Append copies frames into the open group under a short lock and
// returns a Ticket; Ticket.Wait returns once the group is on disk. One goroutine, the
// committer, swaps the open group for an empty one, writes it, syncs once and releases the group's waiters. What arrives while a sync runs is the next group: a
// busy journal batches by itself and an idle one commits a lone request at once. Close
// commits what is queued and ends the committer.
//
// # Generations
//
// The journal is a series of logs, one directory each, named by number. Rotate makes
// the committer go on in a new one; when the homes hold everything of the older ones,
// Drop deletes their directories. Nothing is ever truncated in place.
//
// # Memory
//
// A group is written from the memory its frames were copied to, and Append hands that
// memory out: the broker's tails point into it, so a message is copied once between the
// request and the disk. Chunks are cut from large allocations and freed by the garbage
// collector when the last tail that points into them is filed. Options.MaxUnfiled
// bounds the bytes of all generations that are not dropped; Admit waits below it.
//
// # Goroutines and locks
//
// The committer is started by Open and ended by Close. Journal.mu guards the open group
// and is never held across a write or a sync. Options that weaken the promise
// (SyncInterval, SyncNever) release waiters after the write; a second goroutine, the
// syncer of SyncInterval, does not exist: the committer syncs by a timer between groups.
//
// # Failure
//
// The first failed write or sync is final. Every waiter and every later Append gets
// ErrFailed, Failed is closed, and only a restart, which recovers from what is really
// on disk, goes on.
package journal
