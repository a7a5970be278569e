// Package history keeps what went through the broker, minute by minute, for charts and totals
// that outlive the process.
//
// # The life of a minute
//
// The server hands over a Minute: the totals since the data directory was made, the state of
// the process, and each queue that had traffic. Append encodes it into one frame and writes
// that to a file of this process. A file is written by one process from its start on and
// never again, so a torn end needs no repair: whoever reads a file stops at the first frame
// that is not whole. A day of minutes goes into a file. Fold replaces one that is over for a
// day by a file of quarters of an hour, after a week by one of hours, after a month by one of
// six, which charts of such times are made of. Files older than the retention are removed,
// and the oldest when there are too many bytes.
//
// # Design
//
// Nothing here may stop a broker. The minutes are not in the journal, a failed write is
// logged and the minute lost, and what cannot be read is left out. At a start the last
// minutes of the newest files tell the totals. Frames are not synced: a minute is not worth a
// sync, and a power cut costs the last few. A folded file is synced: what it replaces was on
// disk for long.
//
// Hold keeps the files for a backup, which takes its time: meanwhile none is folded or removed.
//
// Log is safe for concurrent use; reading does not hold up Append.
package history
