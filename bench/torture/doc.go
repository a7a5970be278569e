// Command torture does to a broker what disks and machines do, with real file systems and
// a real kernel, and checks from the outside that it keeps its promises.
//
//	go run ./bench/torture                       # every part, five minutes
//	go run ./bench/torture --list                # what they are
//	go run ./bench/torture --only full,rot --duration 1h --seed 42
//
// A part runs rounds for its share of the duration, at least one, and prints one line of
// counts. What the machine lacks for it (root, loop devices, strace, mkfs.xfs) is said in
// a line with SKIPPED, and is no failure. Exit status 1 means a violation: the rule, the
// seed and what was seen are printed, logs and data are kept.
//
// # How it checks
//
// The parts that crash run the crash test, bench/crash, which has a checker for everything
// that a broker may do. The others break something, and what they ask is simpler: is all
// there that was answered, and nothing else. They have a tally.
//
//   - A partition is pushed to by one pusher, one request at a time, so the order of its
//     messages is known. A payload follows from seed, partition and place alone. Each
//     message is stored, refused or of unknown outcome.
//   - A drain gives a group everything. Payloads must be equal byte for byte, in order, no
//     stored one skipped, no refused one there, nothing twice, nothing after its ack.
//   - The group of the workers acknowledges under load. It may have an ack more than was
//     answered, and never one less.
//
// After each crash and each end the broker checks the directory itself (skep verify), if
// it has that command, and must find it clean.
package main
