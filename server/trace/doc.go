// Package trace keeps what consumers note about messages: an event with data and names, of a
// message that need not exist.
//
// # The life of a trace
//
// Append encodes it into one frame and writes that to the newest file, "<number>.traces",
// which the kernel brings to the disk when it likes: a kill loses nothing, a power cut the
// last half minute or so, and Close syncs. What finds traces in that file is in memory, see
// type memory. When a file is full, of bytes or of entries, another begins, and the memory
// of the old one is written beside it as an index, sorted. From then on a file takes a hundred
// bytes of memory, whatever is in it. The index is "<number>.index.new" until it is synced, a
// minute or two later, and then "<number>.index"; see Log.settle.
//
// A question goes to each file, oldest first: by binary search in its index, without keeping
// it open. So an answer costs a few reads for each 32 MiB of traces there are, and what it
// finds; the list of names reads the names of all files, in slices of their hashes, see
// Names.
//
// The first call reads the directory: the end of each index, and those files whole that have
// none, as a rule the newest and what a killed process has filled in its last minutes. A frame
// that fails its checksum is passed over. A file with an end that is no frame is left as it is,
// and another begins.
//
// With a retention, Sweep removes files whose newest trace is older. For that a file gets
// no more than a day of traces.
//
// # Design
//
// Nothing here may stop a broker or take its time. Traces are not in the journal, which
// every push waits for, and what fails is one trace. What the index says is checked against
// the frame it points to, so a damaged one hides traces, or counts wrongly, and makes none
// up. It may be removed, and is built again.
//
// An index in memory would take some 70 bytes a trace, and a start would read all of them.
//
// # Locks
//
// sealMu and removeMu before mu. removeMu is held as long as files are, see Log.Hold, and no
// call but Hold waits for it. No other lock is held across a sync or a callback. Log is safe for concurrent
// use; a question sees what was there when it was asked.
package trace
