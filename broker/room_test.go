package broker

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// testRoom has so many bytes left.
type testRoom struct {
	left, taken int64
	asked       int
}

func (r *testRoom) Take(n int64, _ bool) bool {
	r.asked++
	if n > r.left {
		return false
	}
	r.left, r.taken = r.left-n, r.taken+n
	return true
}

func (r *testRoom) GiveBack() { r.left, r.taken = r.left+r.taken, 0 }

// fillRoom stores n messages of size bytes, each in a partition of its own.
func fillRoom(t *testing.T, b *Broker, n, size int) {
	t.Helper()
	for i := range n {
		item := PushItem{
			Queue: []byte("q"), Partition: fmt.Append(nil, i), TransactionID: fmt.Append(nil, "m", i),
			Payload: []byte(`"` + strings.Repeat("x", size) + `"`),
		}
		if err := b.Push(DefaultTenant, []PushItem{item}, nil, make([]PushResult, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

// Without room a pop leases and takes nothing, and what it leaves is as it was.
func TestPopWithoutRoom(t *testing.T) {
	for _, auto := range []bool{false, true} {
		b := mustOpen(t, faultfs.New(), nil)
		fillRoom(t, b, 1, 100_000)
		room := &testRoom{left: 1000}
		_, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Batch: 1, AutoAck: auto, Room: room})
		if !errors.Is(err, ErrNoRoom) {
			t.Fatalf("autoAck %t: got %v", auto, err)
		}
		room.left = 1 << 20
		ids, res := popAll(t, b, PopRequest{Batch: 1, Room: room})
		if len(ids) != 1 || res.Parts[0].Attempt != 1 || room.taken < 100_000 {
			t.Errorf("autoAck %t: popped %v, %d bytes of room taken", auto, ids, room.taken)
		}
	}
}

// With room for some, the answer has some, and the rest is there for the next.
func TestPopIsShortened(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	const n, size = 20, 50_000
	fillRoom(t, b, n, size)
	seen := map[string]bool{}
	for pops := 0; len(seen) < n; pops++ {
		room := &testRoom{left: 300_000}
		ids, res := popAll(t, b, PopRequest{Batch: 1000, Room: room})
		var bytes int64
		for i := range res.Parts {
			bytes += res.Parts[i].Bytes()
		}
		if len(ids) == 0 || len(ids) > 7 || bytes < int64(len(ids)*size) || pops > n {
			t.Fatalf("pop %d: %d messages of %d bytes with room for 6 or 7", pops, len(ids), bytes)
		}
		for _, id := range ids {
			if seen[id] {
				t.Errorf("%s was handed out twice", id)
			}
			seen[id] = true
		}
	}
}

// Small answers ask nobody.
func TestSmallPopNeedsNoRoom(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	fillRoom(t, b, 20, 1000)
	room := &testRoom{}
	if ids, _ := popAll(t, b, PopRequest{Batch: 20, Partitions: 20, Room: room}); len(ids) != 20 || room.asked > 0 {
		t.Errorf("popped %d, asked %d times", len(ids), room.asked)
	}
}

// A batch counts with all that it is unpacked to, however little of it is delivered.
func TestPackedBatchNeedsRoom(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	items := make([]PushItem, 1000)
	for i := range items {
		items[i] = PushItem{Queue: []byte("q"), Partition: []byte("p"), Payload: []byte(`"` + strings.Repeat("x", 1000) + `"`)}
	}
	if err := b.Push(DefaultTenant, items, nil, make([]PushResult, len(items))); err != nil {
		t.Fatal(err)
	}
	room := &testRoom{left: 500_000}
	if _, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Batch: 1, Room: room}); !errors.Is(err, ErrNoRoom) {
		t.Errorf("got %v", err)
	}
	room.left = 2 << 20
	if ids, _ := popAll(t, b, PopRequest{Batch: 1, Room: room}); len(ids) != 1 {
		t.Errorf("popped %d", len(ids))
	}
}

// seekingRoom moves the group to the end while the pop that takes is reading.
type seekingRoom struct {
	testRoom
	seek  func()
	tookC chan struct{}
}

func (r *seekingRoom) Take(n int64, first bool) bool {
	if r.asked == 0 {
		r.seek()
		defer close(r.tookC)
	}
	return r.testRoom.Take(n, first)
}

// What a try has taken that then finds nothing goes back before the pop waits on.
func TestParkedPopHoldsNoRoom(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	fillRoom(t, b, 1, 1)
	if ids, _ := popAll(t, b, PopRequest{Group: "g", AutoAck: true, Batch: 1}); len(ids) != 1 {
		t.Fatalf("popped %v", ids)
	}
	room := &seekingRoom{testRoom: testRoom{left: 1 << 20}, tookC: make(chan struct{})}
	room.seek = func() {
		if err := b.SeekPartition(DefaultTenant, "g", "q", "0", SeekTarget{ToEnd: true}); err != nil {
			t.Error(err)
		}
	}
	req := &PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "g", Wait: time.Minute, Room: room}
	popped := make(chan *PopResult)
	go func() {
		res, err := b.Pop(req)
		if err != nil {
			t.Error(err)
		}
		popped <- res
	}()
	for b.Parked() == 0 {
		runtime.Gosched()
	}
	item := PushItem{Queue: []byte("q"), Partition: []byte("0"), Payload: []byte(`"` + strings.Repeat("x", 100_000) + `"`)}
	if err := b.Push(DefaultTenant, []PushItem{item}, nil, make([]PushResult, 1)); err != nil {
		t.Fatal(err)
	}
	<-room.tookC
	b.StopWaiting()
	if res := <-popped; res == nil || len(res.Parts) > 0 || room.left != 1<<20 {
		t.Errorf("got %+v, %d bytes of room are taken", res, room.taken)
	}
}
