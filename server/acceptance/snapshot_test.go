package acceptance

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skepmq/skep/log/backup"
	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/segment/vfs"
)

const snapshotPath = "/api/v1/system/snapshot"

// snapshot copies the broker and returns the archive.
func (w *world) snapshot() []byte {
	w.t.Helper()
	a, err := w.try("POST", snapshotPath, "", nil)
	if err != nil || a.status != http.StatusOK {
		w.t.Fatalf("snapshot: %d %.200s, %v", a.status, a.body, err)
	}
	if got := a.header.Get("Content-Type"); got != "application/x-tar" {
		w.t.Errorf("snapshot: Content-Type %q", got)
	}
	return a.body
}

// restored is another world, over what a snapshot has.
func (w *world) restored(archive []byte) *world {
	w.t.Helper()
	v := &world{t: w.t, dir: w.t.(interface{ TempDir() string }).TempDir(), clock: &clock{}}
	v.clock.ahead.Store(w.clock.ahead.Load())
	if _, err := backup.Restore(vfs.OS, v.dir, bytes.NewReader(archive)); err != nil {
		w.t.Fatal(err)
	}
	v.start()
	w.t.Cleanup(v.stop)
	return v
}

// G-904: a snapshot has what was answered before it, and nothing of what comes after it.
func TestG904Snapshot(t *testing.T) {
	w := open(t, eagerCheckpoints)
	w.server.Version, w.server.Commit = "v9", "abc"
	w.restart()
	ids := w.queued(msg("q", "p", "a"), msg("q", "p", "b"), msg("other", "", "c"))
	w.ackAll("g", w.pop("q", "consumerGroup=g", "batch=1"))
	leased := w.pop("q", "consumerGroup=g", "batch=1")
	w.buried(w.ack("", w.pop("other").Messages[0].as("dlq")))
	archive := w.snapshot()
	w.queued(msg("q", "p", "later"))
	w.deleteQueue("other")

	m, err := backup.Read(bytes.NewReader(archive), nil)
	if err != nil || m.Version != "v9" || m.Commit != "abc" || time.Since(m.CreatedAt).Abs() > time.Hour {
		t.Errorf("the manifest: %+v, %v", m, err)
	}
	v := w.restored(archive)
	v.nothing(v.pop("q", "consumerGroup=g")) // under the lease
	if got := v.buriedIDs("other"); !slices.Equal(got, []string{"c"}) {
		t.Errorf("dead letters %v", got)
	}
	v.wantDuplicate(msg("q", "p", "a"), ids[0])
	v.ackAll("g", leased) // the lease is the same
	v.queued(msg("q", "p", "later"))
	v.want(v.pop("q", "consumerGroup=g"), "later")
	v.restart()
	v.want(v.pop("q", "consumerGroup=h", "subscriptionMode=all"), "a", "b", "later")
}

// taken is a snapshot under load, and what was answered and sent around it.
type taken struct {
	archive                []byte
	pushed, sent           []int64 // by lane; pushed before it began, sent before it ended
	ferried, ferriedAtMost []int64
}

// shipping is the load: lanes of pushes, and of transactions that move messages.
type shipping struct {
	w            *world
	pushed, sent [3]atomic.Int64
	moved, moves [3]atomic.Int64
	done         atomic.Bool
}

func loaded(counts *[3]atomic.Int64) (all []int64) {
	for i := range counts {
		all = append(all, counts[i].Load())
	}
	return all
}

// pushLane pushes 0, 1, 2 … to a partition. Under maintenance they are spooled.
func (s *shipping) pushLane(i int) {
	for n := int64(0); !s.done.Load(); n++ {
		s.sent[i].Store(n + 1)
		s.w.pushMixed(msg("load", strconv.Itoa(i), fmt.Sprint(n)))
		s.pushed[i].Store(n + 1)
	}
}

// moveLane moves messages of a partition to two queues, every fifth as a dead letter as well.
func (s *shipping) moveLane(i int) {
	lane := strconv.Itoa(i)
	for n := int64(0); !s.done.Load(); n++ {
		m := s.w.popFrom("in", lane, "batch=1").Messages[0]
		status := "completed"
		if n%5 == 4 {
			status = "dlq"
		}
		s.moves[i].Store(n + 1)
		s.w.committed(bundled(acking("", m.as(status)), pushing(msg("x", lane, m.TransactionID)), pushing(msg("y", lane, m.TransactionID))))
		s.moved[i].Store(n + 1)
	}
}

// disturb does what changes files and places: seeks, deletions, maintenance.
func (s *shipping) disturb() {
	w := s.w
	for n := 0; !s.done.Load(); n++ {
		w.maintain(n%3 == 0)
		w.pop("in", "consumerGroup=seeker", "autoAck=true", "batch=50", "partitions=3")
		w.seek("seeker", "in", `{"toEnd":true}`)
		w.pushMixed(msg("gone", fmt.Sprint(n), "x"))
		w.deleteQueue("gone")
		w.deleteGroup("seeker", "")
	}
}

// check compares what a snapshot has with what was answered around it.
func (s *shipping) check(k *taken) {
	v := s.w.restored(k.archive)
	v.drained()
	v.clock.advance(time.Hour) // leases of the moment are over
	for i := range s.pushed {
		lane := strconv.Itoa(i)
		s.wantLane(v, "load", lane, k.pushed[i], k.sent[i])
		moved := s.wantLane(v, "x", lane, k.ferried[i], k.ferriedAtMost[i])
		s.wantLane(v, "y", lane, moved, moved)
		v.want(v.popFrom("in", lane, "batch=1"), fmt.Sprint(moved))
		if n := len(v.deadLetters("queue=in", "limit=1000", "partition="+lane)); int64(n) != moved/5 {
			v.t.Errorf("lane %s: %d dead letters of %d moved", lane, n, moved)
		}
	}
	v.stop()
}

// wantLane asserts that a partition has 0, 1, 2 … to a number within bounds, and returns it.
func (s *shipping) wantLane(v *world, queue, lane string, least, most int64) int64 {
	v.t.Helper()
	ids := v.popFrom(queue, lane, "batch=100000", "autoAck=true", "consumerGroup=look", "subscriptionMode=all").ids()
	for i, id := range ids {
		if id != fmt.Sprint(i) {
			v.t.Fatalf("%s/%s: message %d is %s", queue, lane, i, id)
		}
	}
	if n := int64(len(ids)); n < least || n > most {
		v.t.Fatalf("%s/%s: %d messages, want %d to %d", queue, lane, n, least, most)
	}
	return int64(len(ids))
}

// G-904: every snapshot under load is a state that existed. What was answered before it began
// is in it, and a transaction is whole.
func TestG904SnapshotUnderLoad(t *testing.T) {
	w := open(t, eagerCheckpoints, func(w *world) { w.broker.SegmentBytes = 16 << 10 })
	s := &shipping{w: w}
	for i := range s.pushed {
		w.queued(numbered("in", strconv.Itoa(i), "", 4000)...)
	}
	var beside sync.WaitGroup
	beside.Go(s.disturb)
	for i := range s.pushed {
		beside.Go(func() { s.pushLane(i) })
		beside.Go(func() { s.moveLane(i) })
	}
	var all []*taken
	for n := range int64(4) {
		await(t, "some load", func() bool { return slices.Min(loaded(&s.moved)) >= 10*n && slices.Min(loaded(&s.pushed)) >= 10*n })
		k := &taken{pushed: loaded(&s.pushed), ferried: loaded(&s.moved)}
		k.archive = w.snapshot()
		k.sent, k.ferriedAtMost = loaded(&s.sent), loaded(&s.moves)
		all = append(all, k)
	}
	s.done.Store(true)
	beside.Wait()
	for _, k := range all {
		s.check(k)
	}
}

// stalled begins a snapshot of a broker on TCP, of more than sockets hold, and reads none of it.
func (w *world) stalled() io.ReadCloser {
	w.t.Helper()
	res, err := w.client.Post("http://skep"+snapshotPath, "", http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		w.t.Fatalf("snapshot: %d", res.StatusCode)
	}
	return res.Body
}

// fill stores some 16 MB that do not compress, in a queue.
func (w *world) fill(queue string) {
	random := make([]byte, 3<<20)
	for i := range 4 {
		rand.Read(random)
		w.queued(item{queue, fmt.Sprint(i), "", []byte(`"` + base64.StdEncoding.EncodeToString(random) + `"`)})
	}
}

// G-904: a second snapshot is refused as long as there is one. Queues are deleted meanwhile,
// and when the client goes away, so do their files.
func TestG904ClientGone(t *testing.T) {
	w := open(t, onLoopback, eagerCheckpoints)
	w.fill("q")
	w.filed()
	body := w.stalled()
	w.expect("POST", snapshotPath, "", http.StatusConflict, `{"error":"another snapshot is being copied","code":"snapshot_running"}`)
	w.deleteQueue("q")
	w.queued(msg("other", "", "m"))
	if err := body.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the files to go", func() bool {
		files, _ := w.segmentFiles()
		return len(files) <= 1 // the other queue's
	})
	var archive []byte
	await(t, "a snapshot to begin", func() bool {
		a, err := w.try("POST", snapshotPath, "", nil)
		archive = a.body
		return err == nil && a.status == http.StatusOK
	})
	v := w.restored(archive)
	if got := v.queueNames(); !slices.Equal(got, []string{"other"}) {
		t.Errorf("queues %v", got)
	}
}

// G-904, G-017: a broker that stops ends the snapshot, and the client sees that it is no whole
// one.
func TestG904Stop(t *testing.T) {
	w := open(t, onLoopback, eagerCheckpoints)
	w.fill("q")
	w.filed()
	body := w.stalled()
	w.running.broker.StopWaiting() // the first thing of a stop
	_, err := backup.Read(body, nil)
	if !errors.Is(err, backup.ErrIncomplete) {
		t.Errorf("got %v, want that the end is missing", err)
	}
	if err := body.Close(); err != nil {
		t.Fatal(err)
	}
	w.stop()
}

// G-904: metrics and traces go with the data, with the minute that is running; one that cannot be
// read fails no backup.
func TestG904Notes(t *testing.T) {
	w := open(t)
	p := w.partitionIDs("q", "p")[0]
	id := w.trace(p, "t", `"data":1,"traceNames":["x"]`)
	for n, traces := range [][]string{{id}, nil} {
		archive := w.snapshot()
		pushed := float64(n + 1)
		w.queued(msg("q", "p", fmt.Sprint("later", n)))
		v := w.restored(archive)
		v.wantMetrics(map[string]float64{`queen_cluster_push_messages_total{scope="cluster"}`: pushed})
		if got := traceIDs(v.tracesNamed("x", "").Traces); !slices.Equal(got, traces) {
			t.Errorf("traces %v, want %v", got, traces)
		}
		v.trace(p, "t", `"data":2,"traceNames":["x"]`)
		v.stop()
		files, err := filepath.Glob(filepath.Join(w.dir, fsck.TracesName, "*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("files of traces: %v, %v", files, err)
		}
		if err := errors.Join(os.Remove(files[0]), os.Mkdir(files[0], 0o750)); err != nil {
			t.Fatal(err)
		}
	}
}
