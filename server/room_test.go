package server

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/broker"
)

func TestBudgetSettle(t *testing.T) {
	b := newBudget(100, 40)
	var g, h grant
	if !b.try(&g, 30, false) {
		t.Fatal("30 of 60 refused")
	}
	if b.try(&h, 20, false) {
		t.Error("the last quarter went to one that can do without")
	}
	if !b.try(&h, 30, true) || h.unlimited {
		t.Error("30 of 30 refused")
	}
	var r, late grant
	if !b.try(&r, 1000, true) || !r.unlimited || b.try(&late, 1, true) {
		t.Error("the reserve is for one")
	}
	b.settle(&r, 10) // there is no room yet
	if !r.unlimited {
		t.Error("the reserve was given up without room")
	}
	b.settle(&g, 5)
	b.settle(&r, 10)
	if r.unlimited || r.bytes != 10 || b.free != 15 || b.reserved {
		t.Errorf("got %+v, %d free", r, b.free)
	}
	for _, x := range []*grant{&g, &h, &r} {
		b.giveBack(x)
	}
	if b.free != 60 {
		t.Errorf("%d free of 60", b.free)
	}
}

// roomyPop answers with a message of n bytes, if there is room for it.
func roomyPop(f *fake, n int) {
	f.messages[testID(2)] = []broker.Message{{ID: testID(3), Payload: bytes.Repeat([]byte("1"), n)}}
	f.popFn = func(req *broker.PopRequest) (*broker.PopResult, error) {
		if !req.Room.Take(int64(n), true) {
			return nil, broker.ErrNoRoom
		}
		return &broker.PopResult{Parts: []broker.PopPart{{PartitionID: testID(2)}}}, nil
	}
}

// An answer counts until it has been written, and no longer.
func TestAnswersAreBounded(t *testing.T) {
	const size = 24 << 20 // more than two sockets hold
	f := newFake()
	roomyPop(f, size)
	addr, s := startTCP(t, f, Options{AnswerBytes: answerReserve + size})
	var slow [2]*wire // the first fills the budget, the second has the reserve
	for i := range slow {
		slow[i] = dial(t, addr)
		slow[i].send(get("/api/v1/pop/queue/q"))
		slow[i].head()
	}
	third := dial(t, addr)
	third.send(get("/api/v1/pop/queue/q"))
	head, body := third.response()
	if !strings.HasPrefix(head, "HTTP/1.1 503") || body != answerOverloaded || !strings.Contains(head, "Retry-After: 1\r\n") {
		t.Fatalf("got %q %.100s", head, body)
	}
	third.send(post("/api/v1/push", `{"items":[]}`)) // small answers go on
	if head, _ := third.response(); !strings.HasPrefix(head, "HTTP/1.1 201") {
		t.Errorf("got %q", head)
	}
	if err := slow[0].SetLinger(0); err != nil {
		t.Fatal(err)
	}
	slow[0].Close()
	s.answers.await(t, 1)
	third.send(get("/api/v1/pop/queue/q")) // one that was read counts no more
	if head, body := third.response(); !strings.HasPrefix(head, "HTTP/1.1 200") || len(body) < size {
		t.Fatalf("got %q, %d bytes", head, len(body))
	}
	slow[1].Close()
	third.send(get("/health"))
	third.response()
	s.answers.await(t, size)
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	if s.answers.free != size || s.answers.reserved {
		t.Errorf("%d free of %d, reserve taken: %t", s.answers.free, size, s.answers.reserved)
	}
}

// The answer of a pop that becomes longer than was counted is not refused: it is leased.
func TestLeasedAnswerIsSent(t *testing.T) {
	f := newFake()
	f.messages[testID(2)] = []broker.Message{{ID: testID(3), Payload: bytes.Repeat([]byte("1"), 2*freeAnswer)}}
	f.popFn = func(*broker.PopRequest) (*broker.PopResult, error) {
		return &broker.PopResult{LeaseID: testID(9), Parts: []broker.PopPart{{PartitionID: testID(2)}}}, nil
	}
	addr, s := startTCP(t, f, Options{AnswerBytes: answerReserve})
	s.bodyPatience = time.Millisecond
	var holder grant
	s.answers.take(&holder, 1, 0)
	c := dial(t, addr)
	for range 2 {
		c.send(get("/api/v1/pop/queue/q"))
		if head, body := c.response(); !strings.HasPrefix(head, "HTTP/1.1 200") || len(body) < 2*freeAnswer {
			t.Fatalf("got %q, %d bytes", head, len(body))
		}
	}
	c.send(get("/health"))
	c.response()
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	if s.answers.free != 0 {
		t.Errorf("%d free of 0", s.answers.free)
	}
}

// Short answers do not get the buffers of long ones.
func TestBuffersAreApart(t *testing.T) {
	for range 100 {
		long := getBuffer(keptBuffer)
		long.release()
		if short := getBuffer(firstBuffer); cap(short.b) > shortBuffer {
			t.Fatalf("a buffer of %d bytes for a short answer", cap(short.b))
		}
	}
}

// await waits until free bytes are there.
func (b *budget) await(t *testing.T, free int64) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-tick.C {
		b.mu.Lock()
		ok := b.free >= free
		b.mu.Unlock()
		if ok {
			return
		}
	}
	t.Fatalf("no %d bytes within 10 s", free)
}

// Long answers of other kinds wait for room, and so do lists for their turn.
func TestListsAreBounded(t *testing.T) {
	f := newFake()
	for range 1000 {
		f.page.Messages = append(f.page.Messages, broker.StoredMessage{Message: broker.Message{Payload: bytes.Repeat([]byte("1"), 100)}})
	}
	addr, s := startTCP(t, f, Options{AnswerBytes: answerReserve})
	s.bodyPatience = time.Millisecond
	c := dial(t, addr)
	list := func(want string) {
		t.Helper()
		c.send(get("/api/v1/messages"))
		if head, body := c.response(); !strings.HasPrefix(head, "HTTP/1.1 "+want) || want == "503" && body != answerOverloaded {
			t.Errorf("got %q %.100s, want %s", head, body, want)
		}
	}
	list("200")
	list("200")
	c.send(get("/health")) // the list has been read
	c.response()
	var g grant
	s.answers.take(&g, 1, 0)
	list("503")
	s.answers.giveBack(&g)
	for range maxLists {
		s.listC <- struct{}{}
	}
	list("503")
	<-s.listC
	list("200")
	if len(s.listC) != maxLists-1 {
		t.Errorf("%d turns taken", len(s.listC))
	}
}

// Large bodies that hold all of their budget do not stop small ones; while others wait
// they have to hurry.
func TestLargeBodiesHurry(t *testing.T) {
	const large = 3 << 20
	addr, s := startTCP(t, newFake(), Options{InFlightBytes: 8 << 20, MaxBodyBytes: 4 << 20})
	slow := make([]*wire, 3) // the third waits: there is room for one and the reserve
	for i := range slow {
		slow[i] = dial(t, addr)
		slow[i].send(post("/api/v1/push", pushOf(large))[:large-bodyStep])
	}
	s.bodies.awaitWaiting(t)
	c := dial(t, addr)
	c.send(post("/api/v1/push", pushOf(100_000)))
	if head, _ := c.response(); !strings.HasPrefix(head, "HTTP/1.1 201") {
		t.Errorf("a small body got %q", head)
	}
	r := request{server: s, work: share{budget: s.bodies}}
	if got := r.stepTimeout(); got != pressedTimeout {
		t.Errorf("a step has %s", got)
	}
	r.work.budget = s.smallBodies
	if got := r.stepTimeout(); got != DefaultReadTimeout {
		t.Errorf("without pressure a step has %s", got)
	}
}

// Long lists have room before they are made, and take no more than that.
func TestListsHaveRoomBeforeTheyAreMade(t *testing.T) {
	const n, each = 50_000, 100
	f := newFake()
	f.queues = []broker.QueueInfo{{Name: "q"}}
	f.partitions = make([]broker.PartitionInfo, n)
	f.groupQueues = []broker.GroupQueue{{Partitions: make([]broker.GroupPartition, n)}}
	addr, s := startTCP(t, f, Options{AnswerBytes: answerReserve + 1<<20})
	s.bodyPatience = time.Millisecond
	for _, path := range []string{
		"/api/v1/resources/queues/q?partitionLimit=1000000", "/api/v1/status/queues/q?partitionLimit=1000000",
		"/api/v1/resources/partitions?queue=q&limit=1000000", "/api/v1/resources/queues/q/depth", "/api/v1/consumer-groups/g",
	} {
		c := dial(t, addr)
		made := allocated(func() {
			c.send(get(path))
			if head, body := c.response(); !strings.HasPrefix(head, "HTTP/1.1 200") || len(body) < n*each/2 {
				t.Errorf("%s: got %q, %d bytes", path, head, len(body))
			}
		})
		c.send(get("/health"))
		c.response()
		var holder grant
		s.answers.take(&holder, 2<<20, 0)
		refused := allocated(func() {
			c.send(get(path))
			if head, body := c.response(); !strings.HasPrefix(head, "HTTP/1.1 503") || body != answerOverloaded {
				t.Errorf("%s: got %q %.100s", path, head, body)
			}
		})
		s.answers.giveBack(&holder)
		if made < refused+n*each/2 || refused > n*2*each {
			t.Errorf("%s: allocated %d bytes when it was made, %d when it was refused", path, made, refused)
		}
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A body of unknown length that turns out to be short waits for nobody, whatever buffer it
// gets.
func TestShortChunkedBodyWaitsForNobody(t *testing.T) {
	addr, s := startTCP(t, newFake(), Options{InFlightBytes: 1 << 20})
	s.bodyPatience = time.Millisecond
	var holder grant
	s.bodies.take(&holder, 1, 0)
	for range 100 {
		(&buffer{b: make([]byte, 0, shortBuffer)}).release()
	}
	c := dial(t, addr)
	for range 20 {
		c.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n{\"items\":[]}\r\n0\r\n\r\n")
		if head, body := c.response(); !strings.HasPrefix(head, "HTTP/1.1 201") {
			t.Fatalf("got %q %q", head, body)
		}
	}
}

func (b *budget) awaitWaiting(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !b.pressed(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
}

// Items count before they are decoded, whatever their bytes.
func TestItemsAreBounded(t *testing.T) {
	const n = 2000
	items := strings.Repeat(`{"queue":"q","payload":0},`, n)
	acks := strings.Repeat(`{"transactionId":"t","partitionId":"p"},`, n)
	operations := strings.Repeat(`{"type":"push","items":[{"queue":"q","payload":0}]},`, n)
	for path, body := range map[string]string{
		"/api/v1/push":        `{"items":[` + items[:len(items)-1] + `]}`,
		"/api/v1/ack/batch":   `{"acknowledgments":[` + acks[:len(acks)-1] + `]}`,
		"/api/v1/transaction": `{"operations":[` + operations[:len(operations)-1] + `]}`,
	} {
		t.Run(path, func(t *testing.T) {
			f := newFake()
			f.transactFn = func(x *broker.Transaction) (broker.TransactionResult, error) {
				return broker.TransactionResult{Pushed: make([]broker.PushResult, len(x.Pushes))}, nil
			}
			addr, s := startTCP(t, f, Options{})
			s.bodyPatience = time.Millisecond
			c := dial(t, addr)
			c.send(post(path, body))
			if head, text := c.response(); !strings.HasPrefix(head, "HTTP/1.1 20") {
				t.Fatalf("got %q %s", head, text)
			}
			var holder, rest grant
			s.smallBodies.take(&holder, s.smallBodies.total-int64(len(body)), 0) // room for the body
			s.smallBodies.take(&rest, 1<<30, 0)                                  // the reserve
			c = dial(t, addr)
			c.send(post(path, body))
			if head, text := c.response(); !strings.HasPrefix(head, "HTTP/1.1 503") || !strings.Contains(text, "too many large requests") {
				t.Errorf("got %q %s", head, text)
			}
		})
	}
}
