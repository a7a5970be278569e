package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/skepmq/skep/broker"
)

// fake is a Broker made of functions. Those that are nil do nothing.
type fake struct {
	pushFn   func(items []broker.PushItem, results []broker.PushResult) error
	popFn    func(req *broker.PopRequest) (*broker.PopResult, error)
	ackFn    func(group string, acks []broker.Ack, results []broker.AckResult) error
	extendFn func(leaseID string, seconds int64) (int, time.Time, error)

	transactFn func(x *broker.Transaction) (broker.TransactionResult, error)

	current    *broker.QueueOptions // of the configured queue, nil: none
	configured []broker.QueueOptions
	queues     []broker.QueueInfo
	partitions []broker.PartitionInfo
	existed    bool
	noKey      bool // it is missing, and pushes are refused

	groups      []broker.GroupInfo
	lagging     []broker.LaggingPartition
	groupQueues []broker.GroupQueue
	conflation  bool
	asked       string // of the groups, by the last call

	letters []broker.DeadLetter
	filter  broker.DeadLetterFilter
	removed int
	replay  broker.ReplayResult
	state   broker.Maintenance
	queue   *string // of the last replay
	part    *string
	err     error

	page    broker.MessagePage
	browsed broker.MessageFilter
	detail  broker.MessageDetail

	stats    broker.Stats
	traffic  []broker.QueueTraffic
	ready    error
	damaged  int
	stopOnce sync.Once
	stopC    chan struct{}
	released chan uuid.UUID
	messages map[uuid.UUID][]broker.Message // by partition id
}

func newFake() *fake {
	return &fake{
		stopC:    make(chan struct{}),
		released: make(chan uuid.UUID, 16),
		messages: make(map[uuid.UUID][]broker.Message),
	}
}

func (f *fake) Push(_ broker.Tenant, items []broker.PushItem, _ []byte, results []broker.PushResult) error {
	if f.pushFn != nil {
		return f.pushFn(items, results)
	}
	return f.err
}

func (f *fake) Pop(req *broker.PopRequest) (*broker.PopResult, error) {
	if f.popFn != nil {
		return f.popFn(req)
	}
	return &broker.PopResult{}, f.err
}

func (f *fake) Release(lease uuid.UUID) { f.released <- lease }

func (f *fake) Acknowledge(_ broker.Tenant, group string, acks []broker.Ack, results []broker.AckResult) error {
	if f.ackFn != nil {
		return f.ackFn(group, acks, results)
	}
	return f.err
}

func (f *fake) Transact(_ broker.Tenant, x *broker.Transaction) (broker.TransactionResult, error) {
	if f.transactFn != nil {
		return f.transactFn(x)
	}
	return broker.TransactionResult{}, f.err
}

func (f *fake) Extend(_ broker.Tenant, leaseID string, seconds int64) (int, time.Time, error) {
	if f.extendFn != nil {
		return f.extendFn(leaseID, seconds)
	}
	return 0, time.Time{}, f.err
}

func (f *fake) Configure(_ broker.Tenant, queue string,
	change func(broker.QueueOptions, bool) (broker.QueueOptions, error)) (broker.QueueInfo, error) {
	if f.err != nil {
		return broker.QueueInfo{}, f.err
	}
	var current broker.QueueOptions
	if f.current != nil {
		current = *f.current
	}
	options, err := change(current, f.current != nil)
	if err != nil {
		return broker.QueueInfo{}, fmt.Errorf("configure: %w", err)
	}
	f.configured = append(f.configured, options)
	return broker.QueueInfo{
		ID: testID(1), Name: queue, Options: options, KeyMissing: options.EncryptionEnabled, PushesRefused: f.noKey,
	}, nil
}

func (f *fake) Queues(broker.Tenant) ([]broker.QueueInfo, error) {
	return append([]broker.QueueInfo(nil), f.queues...), f.err
}

func (f *fake) Queue(_ broker.Tenant, name string) (broker.QueueInfo, []broker.PartitionInfo, error) {
	for _, q := range f.queues {
		if q.Name == name {
			return q, append([]broker.PartitionInfo(nil), f.partitions...), f.err
		}
	}
	return broker.QueueInfo{}, nil, broker.ErrQueueNotFound
}

func (f *fake) DeleteQueue(broker.Tenant, string) (bool, error) { return f.existed, f.err }

func (f *fake) Depth(broker.Tenant, string, string) ([]broker.PartitionInfo, bool, error) {
	return append([]broker.PartitionInfo(nil), f.partitions...), f.conflation, f.err
}

func (f *fake) Groups(broker.Tenant) ([]broker.GroupInfo, error) { return f.groups, f.err }

func (f *fake) AllGroups() ([]broker.GroupInfo, error) { return slices.Clone(f.groups), f.err }

func (f *fake) Lagging(_ broker.Tenant, minSeconds int64, limit int) ([]broker.LaggingPartition, error) {
	f.asked = fmt.Sprint(minSeconds, limit)
	return f.lagging, f.err
}

func (f *fake) Group(_ broker.Tenant, name string, offset, limit int) ([]broker.GroupQueue, error) {
	f.asked = fmt.Sprint(name, offset, limit)
	return f.groupQueues, f.err
}

func (f *fake) DeleteGroup(_ broker.Tenant, name, queue string, keep bool) (int, error) {
	f.asked = fmt.Sprint(name, " ", queue, keep)
	return f.removed, f.err
}

func (f *fake) DeleteGroups(_ broker.Tenant, name string, keep bool) (int, error) {
	f.asked = fmt.Sprint(name, keep)
	return f.removed, f.err
}

func (f *fake) MoveSubscription(_ broker.Tenant, name string, instantMs int64) (int, error) {
	f.asked = fmt.Sprint(name, instantMs)
	return f.removed, f.err
}

func (f *fake) Seek(_ broker.Tenant, name, queue string, to broker.SeekTarget) (int, error) {
	f.asked = fmt.Sprint(name, " ", queue, to)
	return f.removed, f.err
}

func (f *fake) SeekPartition(_ broker.Tenant, name, queue, partition string, to broker.SeekTarget) error {
	f.asked = fmt.Sprint(name, " ", queue, " ", partition, to)
	return f.err
}

func (f *fake) DeadLetters(_ broker.Tenant, filter broker.DeadLetterFilter) ([]broker.DeadLetter, error) {
	f.filter = filter
	return f.letters, f.err
}

func (f *fake) SampleDeadLetters(_ broker.Tenant, queue string, limit int) (broker.DeadLetterSample, error) {
	f.asked = fmt.Sprint(queue, limit)
	n := int64(len(f.letters))
	return broker.DeadLetterSample{Letters: f.letters, All: 3 * n, Payloads: n, PayloadBytes: 10*n + 1}, f.err
}

func (f *fake) Liveness(broker.Tenant, func(string, *broker.QueueOptions) bool, int) []broker.Liveness {
	return nil
}

func (f *fake) DeleteDeadLetter(broker.Tenant, uuid.UUID, string) (int, error) {
	return f.removed, f.err
}

func (f *fake) ReplayDeadLetterAt(broker.Tenant, uuid.UUID, string) (broker.ReplayResult, error) {
	return f.replay, f.err
}

func (f *fake) ReplayDeadLetter(_ broker.Tenant, _ uuid.UUID, queue, partition *string) (broker.ReplayResult, error) {
	f.queue, f.part = queue, partition
	return f.replay, f.err
}

func (f *fake) PurgeDeadLetters(_ broker.Tenant, queue, group string) (int, error) {
	f.filter = broker.DeadLetterFilter{Queue: queue, Group: group}
	return f.removed, f.err
}

func (f *fake) Messages(_ broker.Tenant, filter broker.MessageFilter) (broker.MessagePage, error) {
	f.browsed = filter
	return f.page, f.err
}

func (f *fake) Message(broker.Tenant, uuid.UUID, string) (broker.MessageDetail, error) {
	return f.detail, f.err
}

func (f *fake) PartitionName(broker.Tenant, uuid.UUID) (queue, partition string, ok bool) {
	return "", "", f.existed
}

func (f *fake) TakeSpace(int64) error                { return f.err }
func (f *fake) StampMs() int64                       { return time.Now().UnixMilli() }
func (f *fake) Notify(_ broker.Tenant, queue string) { f.asked = queue }

// AppendPayload decrypts by putting a text before the payload.
func (f *fake) AppendPayload(dst, stored []byte, encrypted bool) ([]byte, bool) {
	if encrypted {
		dst = append(dst, "of "...)
	}
	return append(dst, stored...), encrypted
}

func (f *fake) Stats() broker.Stats                { return f.stats }
func (f *fake) Traffic(bool) []broker.QueueTraffic { return slices.Clone(f.traffic) }
func (f *fake) DamagedPartitions() int             { return f.damaged }

func (f *fake) EachTraffic(_ bool, look func(*broker.QueueTraffic)) {
	for _, q := range f.traffic {
		look(&q)
	}
}

func (f *fake) Ready() error { return f.ready }
func (f *fake) StopWaiting() { f.stopOnce.Do(func() { close(f.stopC) }) }

func (f *fake) walk(p *broker.PopPart) iter.Seq[broker.Message] {
	return func(yield func(broker.Message) bool) {
		for _, m := range f.messages[p.PartitionID] {
			if !yield(m) {
				return
			}
		}
	}
}

// park is a popFn that waits until the pop is woken.
func (f *fake) park(parked chan<- *broker.PopRequest) func(*broker.PopRequest) (*broker.PopResult, error) {
	return func(req *broker.PopRequest) (*broker.PopResult, error) {
		parked <- req
		<-f.stopC
		return &broker.PopResult{}, nil
	}
}

// testID is a UUID that is easy to tell from others.
func testID(n byte) uuid.UUID {
	return uuid.UUID{0x01, 0x98, 0xf2, 0xc1, 0x4d, 0x3a, 0x7c, 0x10, 0x9f, 0x2b, 0, 0, 0, 0, 0, n}
}

// start serves a fake on ln and stops at the end of the test.
func start(t testing.TB, ln net.Listener, f *fake, opts Options) *Server {
	t.Helper()
	if f != nil {
		opts.Broker = f
	}
	s := New(opts)
	if f != nil {
		s.messages = f.walk
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		_ = s.Shutdown(ctx) // a test that checks it does so itself
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

func newMemoryListener() *fasthttputil.InmemoryListener { return fasthttputil.NewInmemoryListener() }

// memoryClient returns a client of the server behind ln.
func memoryClient(t testing.TB, ln *fasthttputil.InmemoryListener) *http.Client {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return ln.Dial() },
	}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// startMemory serves a fake in memory and returns a client of it.
func startMemory(t testing.TB, f *fake, opts Options) *http.Client {
	t.Helper()
	ln := newMemoryListener()
	start(t, ln, f, opts)
	return memoryClient(t, ln)
}

// startTCP serves a fake on the loopback and returns its address.
func startTCP(t testing.TB, f *fake, opts Options) (string, *Server) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln.Addr().String(), start(t, ln, f, opts)
}

// wire is a connection on which a test speaks HTTP by hand.
type wire struct {
	*net.TCPConn
	t testing.TB
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *wire {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &wire{c.(*net.TCPConn), t, bufio.NewReader(c)}
}

func (w *wire) send(text string) {
	w.t.Helper()
	if _, err := w.Write([]byte(text)); err != nil {
		w.t.Fatalf("send: %v", err)
	}
}

// head reads one response up to the end of its header.
func (w *wire) head() string {
	w.t.Helper()
	var b strings.Builder
	for {
		line, err := w.r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			w.t.Fatalf("read after %q: %v", b.String(), err)
		}
		if line == "\r\n" {
			return b.String()
		}
	}
}

// response reads one response of known length.
func (w *wire) response() (head, body string) {
	w.t.Helper()
	head = w.head()
	n := 0
	for line := range strings.SplitSeq(head, "\r\n") {
		if value, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			fmt.Sscan(value, &n)
		}
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(w.r, b); err != nil {
		w.t.Fatalf("read body: %v", err)
	}
	return head, string(b)
}

// closed fails the test unless the server has closed the connection.
func (w *wire) closed() {
	w.t.Helper()
	var timeout net.Error
	if n, err := w.r.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		w.t.Fatalf("read %d more bytes, %v, want the connection closed", n, err)
	}
}

func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }
