package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// segmentFiles returns the segment files and their bytes together.
func (w *world) segmentFiles() (files []string, bytes int64) {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "segments", "*.seg"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range files {
		if s, err := os.Stat(f); err == nil { // it may go meanwhile
			bytes += s.Size()
		}
	}
	return files, bytes
}

// emptied waits until no segment is left.
func (w *world) emptied() {
	w.t.Helper()
	await(w.t, "all segments to go", func() bool { files, _ := w.segmentFiles(); return len(files) == 0 })
}

// What was dropped leaves the disk, in shared and own segments, sealed and active ones, and
// what was not stays readable.
func TestR11SegmentsGo(t *testing.T) {
	for name, again := range map[string]func(w *world){
		"running": func(*world) {},
		"restart": (*world).restart,
		"crash":   (*world).crash,
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, retaining, eagerCheckpoints, func(w *world) { w.broker.SegmentBytes = 64 << 10 })
			w.configure("q", `{"retentionEnabled":true,"retentionSeconds":100}`)
			w.queued(msg("kept", "p", "kept"))
			big := item{Queue: "q", Partition: "own", Payload: []byte(quote(fmt.Sprintf("%0200000d", 1)))}
			w.queued(big)
			for i := range 30 {
				w.queued(numbered("q", fmt.Sprint("p", i), "m", 3)...)
			}
			w.filed()
			w.clock.advance(50 * time.Second)
			w.queued(msg("q", "p3", "young"))
			w.filed()
			before, _ := w.segmentFiles()
			w.clock.advance(51 * time.Second)
			again(w)
			w.total("q", 1)
			await(t, "segments to go", func() bool {
				// The kept queue's, and the shared one with the young message.
				files, bytes := w.segmentFiles()
				return len(files) <= len(before) && len(files) <= 2 && bytes < 16<<10
			})
			w.want(w.popFrom("q", "p3"), "young")
			w.want(w.popFrom("kept", "p"), "kept")
			again(w)
			w.clock.advance(100 * time.Second)
			w.total("q", 0)
			await(t, "all segments of the queue to go", func() bool { files, _ := w.segmentFiles(); return len(files) == 1 })
			if q := w.queue("q"); q.RetainedBytes != 0 || q.Segments.Segments != 0 {
				t.Errorf("the queue has %+v and %d bytes", q.Segments, q.RetainedBytes)
			}
			w.queued(numbered("q", "p3", "next", 3)...)
			w.filed()
			again(w)
			w.want(w.popFrom("q", "p3", "consumerGroup=last"), "next0", "next1", "next2")
			w.want(w.popFrom("kept", "p", "consumerGroup=last"), "kept")
		})
	}
}

// The bytes of a queue are those of what it retains, wherever they lie.
func TestR10RetainedBytesFollow(t *testing.T) {
	for name, option := range map[string]func(*world){"journal": func(*world) {}, "segments": eagerCheckpoints} {
		t.Run(name, func(t *testing.T) {
			w := open(t, retaining, option)
			w.configure("q", `{"retentionEnabled":true,"retentionSeconds":1000}`)
			w.queued(numbered("q", "p", "a", 10)...)
			one := w.queue("q").RetainedBytes
			for _, push := range []string{"b", "c", "d"} {
				w.clock.advance(100 * time.Second)
				w.queued(numbered("q", "p", push, 10)...)
			}
			w.filedIf(name == "segments")
			w.clock.advance(850 * time.Second) // a and b are older than 1,000 s
			w.total("q", 20)
			bytes := w.queue("q").RetainedBytes
			if bytes != 2*one {
				t.Errorf("%d bytes are retained of two pushes, one takes %d", bytes, one)
			}
			w.restart()
			if got := w.queue("q").RetainedBytes; got != bytes {
				t.Errorf("%d bytes after a restart, %d before", got, bytes)
			}
			w.clock.advance(1000 * time.Second)
			w.total("q", 0)
			if got := w.queue("q").RetainedBytes; got != 0 {
				t.Errorf("%d bytes of nothing", got)
			}
		})
	}
}

func (w *world) filedIf(segments bool) {
	if segments {
		w.filed()
	}
}

// A slow group holds the segments of what it has not done; then they go.
func TestM553HeldSegmentsGoLater(t *testing.T) {
	w := open(t, retaining, eagerCheckpoints)
	w.configure("q", `{"retentionEnabled":true,"completedRetentionSeconds":10}`)
	for i := range 5 {
		w.queued(numbered("q", fmt.Sprint(i), "m", 3)...)
	}
	w.ackAll("g", w.pop("q", "partitions=4", "consumerGroup=g"))
	w.filed()
	w.after(11 * time.Second)
	w.total("q", 3)
	if w.cycle(); len(w.queues()) == 0 {
		t.Fatal("no queues")
	}
	if q := w.queue("q"); q.Segments.Segments == 0 {
		t.Fatal("the segment has gone with a message in it")
	}
	p := w.pop("q", "consumerGroup=g")
	w.want(p, "m0", "m1", "m2")
	w.ackAll("g", p)
	w.after(10 * time.Minute)
	w.total("q", 0)
	w.clock.advance(10 * time.Minute)
	await(t, "the segment to go", func() bool { return w.queue("q").Segments.Segments == 0 })
}

// Dead letters do not hold the segments of their queue, and theirs go with them.
func TestM372SegmentsOfDeadLetters(t *testing.T) {
	for name, again := range map[string]func(w *world){"running": func(*world) {}, "restart": (*world).restart, "crash": (*world).crash} {
		t.Run(name, func(t *testing.T) {
			w := open(t, retaining, eagerCheckpoints)
			w.configure("q", `{"maxWaitTimeSeconds":100}`)
			w.queued(numbered("q", "p", "m", 3)...)
			for range 2 {
				w.buried(w.ack("", w.popFrom("q", "p").Messages[0].as("dlq")))
			}
			w.filed()
			w.clock.advance(101 * time.Second)
			w.total("q", 0)
			await(t, "all but one segment to go", func() bool { return w.queue("q").Segments.Segments == 1 })
			again(w)
			letters := w.deadLetters("queue=q")
			if len(letters) != 2 || string(letters[0].Data) != `"m1"` || string(letters[1].Data) != `"m0"` {
				t.Fatalf("dead letters %+v", letters)
			}
			w.retry(letters[1])
			if a := w.call("DELETE", address(letters[0].PartitionID, "m1"), ""); a.status != 200 {
				t.Fatalf("delete: %d %s", a.status, a.body)
			}
			again(w)
			w.clock.advance(101 * time.Second)
			w.emptied()
		})
	}
}

// One message of one partition of very many, which nobody takes, does not keep on disk what
// the others had beside it. It stays, and so does one that is pushed behind it later.
func TestR11HeldSegmentsAreRewritten(t *testing.T) {
	for name, again := range map[string]func(w *world){
		"running": func(*world) {},
		"restart": (*world).restart,
		"crash":   (*world).crash,
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, retaining, eagerCheckpoints, func(w *world) { w.broker.SegmentBytes = 64 << 10 })
			w.configure("q", `{"retentionEnabled":true,"completedRetentionSeconds":5}`)
			payload := []byte(quote(fmt.Sprintf("%02000d", 1)))
			fill := func(round int) {
				for i := range 40 {
					w.queued(item{Queue: "q", Partition: fmt.Sprint("p", i), Payload: payload})
					if round == 0 && i == 20 {
						w.queued(msg("q", "slow", "unread"))
					}
					w.popFrom("q", fmt.Sprint("p", i), "autoAck=true")
				}
			}
			fill(0)
			fill(1)
			w.filed()
			w.clock.advance(6 * time.Second)
			again(w)
			w.onDiskAtMost(4 << 10)
			w.queued(msg("q", "slow", "unread too"))
			fill(2)
			w.filed()
			w.clock.advance(6 * time.Second)
			again(w)
			w.onDiskAtMost(4 << 10)
			again(w)
			w.want(w.popFrom("q", "slow"), "unread", "unread too")
			w.want(w.popFrom("q", "slow", "consumerGroup=other", "batch=1"), "unread")
			before := w.running.broker.Stats()
			w.cycle()
			w.cycle()
			if after := w.running.broker.Stats(); after.RewrittenSegments != before.RewrittenSegments {
				t.Errorf("rewritten again and again: %+v, then %+v", before, after)
			}
		})
	}
}

// onDiskAtMost waits until all segment files together have no more than that.
func (w *world) onDiskAtMost(limit int64) {
	w.t.Helper()
	await(w.t, "the segments to shrink", func() bool {
		_, bytes := w.segmentFiles()
		return bytes <= limit
	})
}
