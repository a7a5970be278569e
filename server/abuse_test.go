package server

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skepmq/skep/broker"
)

// abusers send requests of every kind that takes of a budget, and leave whenever they like.
const (
	abusers = 8
	abuses  = 100 // of each
)

// After any number of requests that were refused, cut off, answered late or not read, all
// that they have taken is back.
func TestAbuseLeavesNothing(t *testing.T) {
	f := newFake()
	for i := range byte(4) {
		f.messages[testID(i)] = []broker.Message{{ID: testID(i), Payload: bytes.Repeat([]byte("1"), 1<<(12+3*i))}}
	}
	f.popFn = abusedPop
	f.ackFn = func(_ string, acks []broker.Ack, _ []broker.AckResult) error {
		return sometimes(len(acks)%3 == 0, broker.ErrStorageFailed)
	}
	f.pushFn = func(items []broker.PushItem, _ []broker.PushResult) error {
		return sometimes(len(items)%3 == 0, broker.ErrStorageFull)
	}
	f.queues = make([]broker.QueueInfo, 400)
	go func() { // what was leased for answers that did not leave
		for {
			select {
			case <-f.released:
			case <-f.stopC:
				return
			}
		}
	}()
	const limit = 2 << 20
	addr, s := startTCP(t, f, Options{
		MaxBodyBytes: limit, InFlightBytes: 2 * limit, AnswerBytes: answerReserve + 1<<20,
		ReadTimeout: 50 * time.Millisecond, WriteTimeout: 50 * time.Millisecond,
	})
	s.bodyPatience = 5 * time.Millisecond
	var wg sync.WaitGroup
	for i := range uint64(abusers) {
		wg.Go(func() {
			a := abuser{rand.New(rand.NewPCG(i, 1))}
			for range abuses {
				a.connect(addr)
			}
		})
	}
	wg.Wait()
	shutDown(t, s)
	for deadline := time.Now().Add(10 * time.Second); s.conns.count() > 0; runtime.Gosched() {
		if time.Now().After(deadline) { // fasthttp closes them a little later
			t.Fatalf("%d connections are open", s.conns.count())
		}
	}
	for name, b := range map[string]*budget{"bodies": s.bodies, "small bodies": s.smallBodies, "answers": s.answers} {
		b.mu.Lock()
		if b.free != b.total || b.reserved || len(b.waiting) > 0 {
			t.Errorf("%s: %d free of %d, reserve taken: %t, %d wait", name, b.free, b.total, b.reserved, len(b.waiting))
		}
		b.mu.Unlock()
	}
	if lists := len(s.listC); lists > 0 {
		t.Errorf("%d turns of lists are taken", lists)
	}
}

func sometimes(when bool, err error) error {
	if when {
		return err
	}
	return nil
}

// abusedPop takes room, and then does anything that a broker may do. The name of the queue
// says what.
func abusedPop(req *broker.PopRequest) (*broker.PopResult, error) {
	kind, _ := strconv.Atoi(req.Queue)
	result := &broker.PopResult{LeaseID: testID(9), Parts: []broker.PopPart{{PartitionID: testID(byte(kind % 4))}}}
	switch took := req.Room.Take(int64(kind%5)<<17, kind%2 == 0); {
	case !took && kind%3 > 0:
		return nil, broker.ErrNoRoom
	case kind%7 == 0:
		return nil, errors.New("disk")
	case kind%7 == 1:
		return &broker.PopResult{}, nil
	}
	return result, nil
}

type abuser struct{ *rand.Rand }

// connect sends a few requests at once, cut short perhaps, reads a part of the answers,
// perhaps, and leaves in one of two ways.
func (a abuser) connect(addr string) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer nc.Close()
	var out strings.Builder
	for range 1 + a.IntN(4) {
		out.WriteString(a.request())
	}
	text := out.String()
	if a.IntN(3) == 0 {
		text = text[:a.IntN(len(text))]
	}
	_ = nc.SetDeadline(time.Now().Add(time.Duration(1+a.IntN(40)) * time.Millisecond))
	_, _ = io.WriteString(nc, text)
	if n := a.IntN(3); n > 0 {
		_, _ = io.CopyN(io.Discard, nc, int64(a.IntN(1<<(10*n))))
	}
	if a.IntN(2) == 0 {
		_ = nc.(*net.TCPConn).SetLinger(0)
	}
}

func (a abuser) request() string {
	n := a.IntN(1 << a.IntN(14))
	items := `{"items":[` + strings.Repeat(`{"queue":"q","payload":0},`, n) + `{"queue":"q","payload":0}]}`
	acks := `{"acknowledgments":[` + strings.Repeat(`{"transactionId":"t","partitionId":"p"},`, n) + `{}]}`
	large := strings.Repeat(" ", a.IntN(1<<a.IntN(22)))
	switch a.IntN(12) {
	case 0:
		return post("/api/v1/push", items)
	case 1:
		return post("/api/v1/push", large+items)
	case 2:
		return post("/api/v1/push", large)
	case 3:
		return post("/api/v1/ack/batch", acks)
	case 4:
		return post("/api/v1/transaction", `{"operations":[`+items+`]}`)
	case 5:
		return "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strconv.FormatInt(int64(len(large)+len(items)), 16) + "\r\n" + large + items + "\r\n0\r\n\r\n"
	case 6:
		return "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: " +
			strconv.Itoa(len(large)+1) + "\r\n\r\n" + large + "{"
	case 7:
		return "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot a length\r\n"
	case 8:
		return get("/api/v1/resources/queues")
	case 9:
		return post("/api/v1/nope", large)
	}
	return get("/api/v1/pop/queue/" + strconv.Itoa(a.IntN(1000)) + "?wait=" + strconv.FormatBool(a.IntN(2) == 0))
}
