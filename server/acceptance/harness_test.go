package acceptance

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/server"
	"github.com/skepmq/skep/server/testkit"
)

// world is a broker that is being served, and a client of it.
type world struct {
	t      testing.TB
	dir    string
	broker broker.Options
	server server.Options
	tcp    bool // serve on loopback instead of in memory
	// damaged says that the test does damage to the directory: it is not verified then,
	// as it otherwise is before each start and after each stop.
	damaged bool
	tenant  string // sent with every request; "": none
	clock   *clock

	running *instance
	client  *http.Client
}

// instance is what restart replaces.
type instance struct {
	broker *broker.Broker
	server *server.Server
	dial   func() (net.Conn, error)
	stop   func(context.Context) error
}

// clock is the real clock plus what the test has advanced it by, and a wall clock that the
// test may set apart from it.
type clock struct{ ahead, wallAhead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

func (c *clock) wall() time.Time        { return c.now().Add(time.Duration(c.wallAhead.Load())) }
func (c *clock) set(step time.Duration) { c.wallAhead.Add(int64(step)) }

// open starts a world, in parallel with other tests. Options change it before.
func open(t *testing.T, options ...func(*world)) *world {
	t.Helper()
	t.Parallel()
	w := &world{t: t, dir: t.TempDir(), clock: &clock{}}
	for _, o := range options {
		o(w)
	}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// onLoopback serves on a TCP socket.
func onLoopback(w *world) { w.tcp = true }

// eagerCheckpoints lets every push and ack be filed into segments soon.
func eagerCheckpoints(w *world) { w.broker.CheckpointBytes = 1 }

// on returns w with another test to report to.
func (w *world) on(t testing.TB) *world {
	v := *w
	v.t = t
	return &v
}

func (w *world) start() {
	w.t.Helper()
	w.broker.Dir, w.broker.Logger, w.broker.Now, w.broker.Wall = w.dir, zerolog.Nop(), w.clock.now, w.clock.wall
	b, err := w.open()
	if err != nil {
		w.t.Fatalf("open broker: %v", err)
	}
	o := w.server
	o.Broker, o.Logger, o.Now = b, zerolog.Nop(), w.clock.now
	o.ServerID = "mq1" // as the documents have it
	o.MetricsDir, o.TraceDir = filepath.Join(w.dir, fsck.MetricsName), filepath.Join(w.dir, fsck.TracesName)
	in := &instance{broker: b, server: server.New(o)}
	if w.tcp {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.t.Fatal(errors.Join(err, b.Close()))
		}
		in.stop, in.dial = testkit.Serve(in.server, ln), func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
	} else {
		ln := fasthttputil.NewInmemoryListener()
		in.stop, in.dial = testkit.Serve(in.server, ln), ln.Dial
	}
	w.running = in
	w.client = testkit.NewClient(in.dial)
	if a := w.call("GET", "/health", ""); a.status != http.StatusOK {
		w.t.Fatalf("health: %d %s", a.status, a.body)
	}
}

// open opens the broker. A process that another test has just forked holds, until it runs
// its program, the lock of a directory that was open then.
func (w *world) open() (b *broker.Broker, err error) {
	w.verify()
	await(w.t, "the lock of the directory", func() bool {
		b, err = broker.Open(w.broker)
		return !errors.Is(err, vfs.ErrLocked)
	})
	return b, err
}

func (w *world) stop() {
	w.t.Helper()
	in := w.running
	if in == nil {
		return
	}
	w.running = nil
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w.client.CloseIdleConnections()
	if err := errors.Join(in.stop(ctx), in.broker.Close()); err != nil {
		w.t.Errorf("stop: %v", err)
	}
	w.verify()
}

// verify checks the directory, which no broker serves. A process that another test has just
// forked may hold its lock, see open.
func (w *world) verify() {
	w.t.Helper()
	if w.damaged {
		return
	}
	r, err := fsck.Verify(fsck.Options{Dir: w.dir, Now: w.clock.now})
	if err != nil && !errors.Is(err, vfs.ErrLocked) {
		w.t.Errorf("verify: %v", err)
	} else if err == nil && !r.Clean {
		w.t.Errorf("the directory is not in order: %+v", r.Findings)
	}
}

// restart closes the broker and opens its directory again.
func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}

// crash leaves the broker as it is and goes on with a copy of its directory: what is in
// the files at this moment, which is what a killed process leaves. The broker it leaves
// behind is stopped with the test.
func (w *world) crash() {
	w.t.Helper()
	old := *w
	w.t.Cleanup(func() { old.stop() })
	w.dir = w.t.(interface{ TempDir() string }).TempDir()
	if err := testkit.Copy(old.dir, w.dir); err != nil {
		w.t.Fatal(err)
	}
	w.start()
}

// filed waits until checkpoints have brought what there is into segments: there are
// some, which hold the texts, uncompressed, and nothing changes any more.
func (w *world) filed(texts ...string) {
	w.t.Helper()
	await(w.t, "a checkpoint", func() bool {
		found, err := filepath.Glob(filepath.Join(w.dir, "segments", "*"))
		return err == nil && len(found) > 0
	})
	for _, text := range texts {
		await(w.t, "the filing of "+text, func() bool { return w.copiesOf(text) > 0 })
	}
	if _, err := testkit.ReadStill(w.dir); err != nil {
		w.t.Fatal(err)
	}
}

// spoil restarts the broker, and meanwhile flips a bit of a text that a segment holds
// uncompressed.
func (w *world) spoil(text string) {
	w.t.Helper()
	w.stop()
	w.rot(text)
	w.start()
}

// await polls until ok, for what the outside cannot wait for otherwise.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited 20 s for %s", what)
		}
		<-tick.C
	}
}

// parked waits until n long polls are parked.
func (w *world) parked(n int) {
	w.t.Helper()
	b := w.running.broker
	await(w.t, "parked polls", func() bool { return b.Parked() == n })
}

// together runs fn n times at once and returns when all are done.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call makes a request. The target is sent as it is, escapes and all.
func (w *world) call(method, target, body string) answer {
	w.t.Helper()
	return w.callWith(method, target, body, nil)
}

func (w *world) callWith(method, target, body string, header http.Header) answer {
	w.t.Helper()
	if w.tenant != "" {
		header = header.Clone()
		if header == nil {
			header = http.Header{}
		}
		header.Set("x-queen-tenant", w.tenant)
	}
	a, err := w.try(method, target, body, header)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, target, err)
	}
	w.checkAnswer(method+" "+target, a)
	return a
}

// try makes a request that may fail because the broker is gone. What is answered has to be
// as GET /openapi.json describes it.
func (w *world) try(method, target, body string, header http.Header) (a answer, err error) {
	w.t.Helper()
	got, err := testkit.Call(w.client, method, target, body, header)
	if err == nil {
		contract, broken := testkit.TheContract()
		if broken == nil {
			broken = contract.Sample(method, target, body, got)
		}
		if broken != nil {
			w.t.Errorf("%s %.200s: %v", method, target, broken)
		}
	}
	return answer{got.Status, got.Header, got.Body}, err
}

// metricsType is what scrapers of metrics look for.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// checkAnswer checks what holds for every answer.
func (w *world) checkAnswer(request string, a answer) {
	w.t.Helper()
	if a.status == http.StatusNoContent {
		if len(a.body) > 0 || a.header.Get("Content-Type") != "" || a.header.Get("Content-Length") != "" {
			w.t.Errorf("%s: 204 with body %q and header %v", request, a.body, a.header)
		}
		return
	}
	if got := a.header.Get("Content-Type"); got != "application/json" && got != "text/html; charset=utf-8" && got != metricsType {
		w.t.Errorf("%s: Content-Type %q", request, got)
	}
	if a.status < 400 {
		return
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		w.t.Errorf("%s: Content-Type %q of an error", request, got)
	}
}

// expect makes a request and compares status and body.
func (w *world) expect(method, target, body string, status int, want string) {
	w.t.Helper()
	if a := w.call(method, target, body); a.status != status || string(a.body) != want {
		w.t.Errorf("%s %s %.200s\n got %d %s\nwant %d %s", method, target, body, a.status, a.body, status, want)
	}
}

// crashAfterAll is crash once everything that no request waits for is on disk as well: a
// change that is answered takes along all that came before it.
func (w *world) crashAfterAll() {
	w.t.Helper()
	w.configure("unrelated", "{}")
	w.deleteQueue("unrelated")
	w.crash()
}
