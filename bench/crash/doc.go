// Command crash kills a broker again and again under load and checks from the outside
// that it keeps its promises.
//
//	go run ./bench/crash                          # what CI runs: every mode, under a minute
//	go run ./bench/crash --mode kill --duration 10m --seed 42
//
// Its life, in order:
//
//   - It builds the broker (or takes --skep) and makes a store, which knows how to
//     crash: "kill" sends SIGKILL; "torn" then also appends garbage to the newest file
//     of a log, as a write that nobody was answered for leaves it; "powercut" shuts
//     down an ext4 file system on a loop device under the broker's feet, so that
//     whatever was not synced is gone, and mounts it again. "powercut-commit1" and
//     "powercut-xfs" do so with other mount options and another file system.
//   - A run is made of epochs, an epoch of rounds. Within an epoch workers push, pop,
//     ack and misbehave over HTTP; each round ends with a crash at a random moment, now
//     and then with another one while the broker starts.
//   - Every request is told to the checker before its first byte is sent, and its
//     answer, or that there was none, afterwards. The checker knows what the broker may
//     do at any time, and complains at the first answer outside of that.
//   - An epoch ends with a drain: everything is consumed in every group, what was
//     stored is compared with what was answered, the broker is killed once more, and
//     nothing may come again. Then the checker forgets the epoch, which bounds memory,
//     and its queues are deleted.
//
// The random choices come from --seed, as far as scheduling allows: the same seed makes
// the same workers want the same things, but how many of them happen before a kill is
// the machine's affair.
//
// # The load
//
// Beside the queues that everybody pushes to and consumes from, an epoch has others with
// workers of their own; each is left out, and the summary says so, if the broker lacks
// what it needs.
//
//   - Movers carry parcels between queues, in transactions that acknowledge a message and
//     push the next one of its parcel: of several partitions, queues and groups at once,
//     now and then one that must be rolled back, and after a lost answer the same again.
//     Readers read these queues from the beginning, over and over. Drifters do the same
//     for a group that they seek and delete, which must end the leases of transactions.
//   - Solos have a queue each and insist on answers. One seeks, for a queue or a partition
//     and to the end, the beginning or a time, deletes groups, and has one that conflates.
//     The other has messages that expire after a second.
//   - A maintainer switches push maintenance on and off, while producers go on.
//   - A churner makes and deletes a queue.
//
// # What is checked
//
// The messages of a partition have one order, the one in which they are first
// delivered; a message's place in it is its position, and equals its offset. For each
// group the checker keeps between which positions the cursor can be, given every ack
// that was answered, refused, or lost. So a delivery must begin right behind the cursor
// and go on without a gap: nothing is skipped, nothing comes again after an answered
// ack, no position holds two messages and no message two positions. The same is done
// for the retry counter, and so for the time of each dead letter. Leases are compared
// by the client's clock: one was granted between request and answer, and lives for as
// long after. A lease counts as kept across a crash once a write that was sent after it
// has been answered, for there is one journal and it is written in order.
//
// A transaction is committed if it was answered to be, or if any message of it was seen;
// it never was, if it was answered to be rolled back, or if what it acknowledged comes
// again after the crash that cut off its answer. Then all of it must be there, or nothing:
// what it pushed is read completely by each reader, what it acknowledged never comes to
// that group again, and no message is acknowledged by two. When all is read, before and
// after the last crash of an epoch, each parcel has one message that its group has not
// acknowledged, at the end of its journey, and it is delivered. A reader that has seen one
// message of a transaction must have found the others when it has read everything once
// more.
//
// For each cursor of a solo its diary knows where it can be, exactly so after a seek or a
// deletion. So a delivery tells if the cursor went where it was sent, if that of another
// group moved too, and if a message is missing that is younger than the time it is kept.
// A message that maintenance has buffered is like one that is stored: it comes, once, and
// in the order of the pushes.
//
// Exit status 1 means a violation: its rule, the seed and the history of the message
// are printed, the broker's log and data directory are kept.
package main
