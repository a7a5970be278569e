package main

// parts are the faults, in the order in which they run.
var parts = []part{
	{"kill", "kill -9 under load and while starting", 2, crash("kill")},
	{"torn", "the same, and garbage at the end of a log", 2, crash("torn")},
	{"powercut", "power cuts of an ext4", 3, crash("powercut")},
	{"powercut-commit1", "power cuts of an ext4 with commit=1", 3, crash("powercut-commit1")},
	{"powercut-xfs", "power cuts of an XFS", 3, crash("powercut-xfs")},
	{"first-start", "kill -9 while the broker makes its directory", 1, firstStart},
	{"shorten", "kill -9, then the end of the journal is cut off or zeros are appended", 2, shorten},
	{"full", "a small disk is filled by pushes", 3, full},
	{"last-bytes", "somebody else takes the last bytes of the disk", 2, lastBytes},
	{"inodes", "the disk runs out of inodes", 2, inodes},
	{"failing", "system calls on files fail, one after the other", 5, failing},
	{"dying", "the disk takes no writes for some milliseconds; the broker ends, goes on, and loses its power", 3, dying},
	{"rot", "a file of a stopped broker is damaged", 6, rot},
	{"descriptors", "256 and 1,024 file descriptors", 2, descriptors},
	{"pause", "the broker or a consumer is stopped for longer than a lease", 1, pause},
	{"leak", "goroutines and descriptors after load", 1, leak},
}
