package broker

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// G-416: a notification wakes who may want messages of the queue, and nobody else.
func TestG416Notify(t *testing.T) {
	var p parking
	other := uuid.UUID{7}
	rows := map[string]struct {
		req  PopRequest
		want bool
	}{
		"of the queue":               {PopRequest{Tenant: DefaultTenant, Queue: "q"}, true},
		"of a partition":             {PopRequest{Tenant: DefaultTenant, Queue: "q", Partition: "p", Pinned: true}, true},
		"of another queue":           {PopRequest{Tenant: DefaultTenant, Queue: "r"}, false},
		"of another tenant":          {PopRequest{Tenant: other, Queue: "q"}, false},
		"of any queue":               {PopRequest{Tenant: DefaultTenant, Discovery: true, Task: "t"}, true},
		"of any of another tenant's": {PopRequest{Tenant: other, Discovery: true}, false},
	}
	waiters := map[string]*waiter{}
	for name, row := range rows {
		waiters[name] = newWaiter()
		if !p.enter(waiters[name], &row.req, 10) {
			t.Fatal("no room")
		}
	}
	for range 2 { // the second finds them awake
		p.wakeFor(DefaultTenant, "q")
	}
	for name, row := range rows {
		if got := len(waiters[name].C) == 1; got != row.want {
			t.Errorf("%s: woken %t", name, got)
		}
	}
}

// What others write to the disk counts as if it had been pushed: it is looked at again before
// there could be too much of it.
func TestR4TakeSpace(t *testing.T) {
	fsys := faultfs.New()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	const free = 1 << 30
	fsys.SetFree(free, 2*free)
	b.checkSpace()
	fsys.SetFree(free/100, 2*free) // nobody has looked since
	var taken int64
	for err == nil && taken <= free {
		err = b.TakeSpace(1 << 20)
		taken += 1 << 20
	}
	if !errors.Is(err, ErrStorageFull) {
		t.Errorf("%v, after %d bytes of %d that were free at the latest look", err, taken, int64(free))
	}
}
