// Command bench measures a skep broker and holds it against the floors that it must not
// fall below.
//
//	go run ./bench                         # everything, about five minutes
//	go run ./bench --quick                 # the rows with floors, about half a minute
//	go run ./bench --run 'push.*batch=100' # some rows
//	go run ./bench --json report.json      # to keep or to compare
//	go run ./bench --profile /tmp/profiles # a CPU profile of the broker, a row of load
//
// Each row starts a broker of its own over an empty directory, with the defaults: every
// answered write is synced. Each stops it with SIGTERM, and removes the directory. The
// status is 1 if an answer was wrong: an unexpected status, a message lost, counted
// twice or not acknowledged. A floor that is not met is a measurement, not an error.
//
// # The rows
//
//	push/…           a closed loop: every connection sends its next push when the last is
//	                 answered. All items of a push go to one partition, the next push to
//	                 the next one; with /spread every item goes to another. With /ids
//	                 every item carries a transaction id of its own, so that the broker
//	                 has to look for duplicates.
//	pop+ack/…        a queue that was filled before, emptied by a consumer group: pop,
//	                 then one ack/batch that names every message. A latency is that of
//	                 both requests together.
//	e2e/closed/…     producers and consumers at once, the producers at most 40,000
//	                 messages ahead. A latency is from sending a push to having the message.
//	e2e/rate=…       the same at a fixed rate. A latency counts from when the push should
//	                 have been sent: a broker that stalls does not slow down the clock.
//	idle push/…      one push at a time, taking turns with appending 4 KiB to a file beside
//	                 the data and syncing it, which is the least that a push can cost.
//	parked/…         ten thousand long polls that wait: memory, processor time, and how
//	                 long a push takes to wake one.
//	partitions/new   every item is the first of its partition.
//	transactions/…   messages moved from one queue to another, each in a transaction of one ack
//	                 and one push. It takes turns with plain pushes by as many connections;
//	                 the share is what of their rate is left. A latency is that of one
//	                 transaction; the pops, a hundred messages each, are not in it, but
//	                 they are in the rate.
//	admin/…          what an operator does to a queue of a hundred thousand partitions, and
//	                 the longest that a push or pop took meanwhile: three connections push
//	                 and pop at a steady pace, one of them pushing to that queue. What can
//	                 be done again is tried three times, and the quietest try counts.
//	partitions/1M    a million partitions of one message each, then kill -9 and a restart.
//	hostile/…        clients that mean no good, and what a producer and a consumer beside them
//	                 notice. Only with --run hostile.
//	reclaim/…        300 MB in a thousand partitions, of which a group consumes all but some:
//	                 what is on disk half a minute later, what a steady stream of pushes
//	                 and pops suffers meanwhile, and what the broker does afterwards. What
//	                 was not consumed is read after a kill -9.
//	startup/1M       only with --run: a million partitions with cursors of two groups, ten million remembered
//	                 transaction ids, a thousand segments and more: starts after a stop, after
//	                 kill -9 with 480 MB in the journal, and after kills during recovery, from
//	                 the disk and from the page cache. Until it is ready the broker is asked for
//	                 everything, and has to answer 503. The directory takes minutes to make;
//	                 --startup-dir keeps it for the next time.
//	startup/backlog  only with --run: kill -9 with 200,000 messages of 2.5 kB in 50,000 partitions, and starts.
//	amplification/…  bytes written and kept for a byte of payload.
//
// # How to read the numbers
//
// Load generator and broker share the machine. The generator is made cheap (package wire),
// but what the rows show is what both reach together; with a machine for each, the broker
// does more. Compare rows of one run, and runs on one quiet machine; no number here means
// anything on another.
//
// ceiling/s is what the same requests reach when a bare fasthttp server, in a process of
// its own, reads them and answers as many bytes as the broker. It decides nothing and syncs
// nothing, so ratio is what is left of the HTTP server once there is a broker in it. The
// two take turns, the broker halted meanwhile, so that noise hits both alike.
//
// us/msg is processor time of the broker, user and system, for a message: the steadiest
// number in the table, since it hardly depends on what else runs. gen and other are
// processors kept busy by the generator, and by neither generator nor broker. Where other
// is not small, msg/s and latencies are too low and too high, and the row says little;
// part of it is the kernel, which works for us under its own name.
//
// Percentiles are exact to 1.6 %; max is exact. Payloads are orders in JSON whose values
// are random, so that they compress as such things do.
package main
