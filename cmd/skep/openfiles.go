package main

// storageFiles is how many open files are left to storage: 256 segments for readers, as many
// again for more readers at once and for checkpoints, and some for the logs.
const storageFiles = 600

// connsWithin returns how many connections a process that may have limit open files can
// serve, at most want. Connections alone must not use them up: a log that cannot open its
// next file has failed, and the process ends. 0 means no limit is known.
func connsWithin(limit uint64, want int) int {
	if limit == 0 {
		return want
	}
	room := limit / 2
	if limit > 2*storageFiles {
		room = limit - storageFiles
	}
	if uint64(want) <= room {
		return want
	}
	return int(room)
}
