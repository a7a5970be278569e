package server

import (
	"bytes"
	"time"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

const (
	// freeAnswer is how long an answer may be that is not counted: the kernel takes most
	// of one at once, and a consumer of small messages should not notice others.
	freeAnswer = broker.FreeRoom
	// answerReserve is set aside for one answer that does not fit into what is left.
	answerReserve = 64 << 20

	// freeItems is how many bytes the items of a request may be decoded to uncounted.
	freeItems = 16 << 10
	// decodedItem and handledItem are about what an item takes: while the body is
	// decoded, and with all that the broker makes of it and the answer.
	decodedItem = 384
	handledItem = 900

	// maxLists is how many lists are made at a time. Some are as long as there are queues.
	maxLists = 4
)

// share is what a request has taken of a budget. It is a broker.Room.
type share struct {
	budget *budget
	grant  grant
}

// Take is asked by pops, under way and holding up others: it does not wait.
func (o *share) Take(n int64, first bool) bool { return o.budget.try(&o.grant, n, first) }

func (o *share) GiveBack() { o.budget.giveBack(&o.grant) }

func (o *share) wait(n int64, patience time.Duration) bool {
	return o.budget.take(&o.grant, n, patience)
}

// reserveItems makes sure of the memory for what body is decoded to, before it is, or
// answers for it and returns false. An item begins with a brace, so there are at most as
// many.
func (r *request) reserveItems(body []byte) bool {
	return r.reserve(min(bytes.Count(body, brace), codec.MaxItems), decodedItem)
}

var brace = []byte("{")

// reserve takes n times size bytes from the budget of bodies, or answers and returns
// false.
func (r *request) reserve(n int, size int64) bool {
	if int64(n)*size <= freeItems || r.work.wait(int64(n)*size, r.server.bodyPatience) {
		return true
	}
	r.fail(errBodyBudget)
	return false
}

// listed lets handle make a list when it is its turn.
func listed(handle func(*request)) func(*request) {
	return func(r *request) {
		if !r.beginList() {
			r.abandonBody()
			r.fail(errAnswerBudget)
			return
		}
		handle(r)
	}
}

func (r *request) beginList() bool {
	select {
	case r.server.listC <- struct{}{}:
	default:
		timer := time.NewTimer(r.server.bodyPatience)
		defer timer.Stop()
		select {
		case r.server.listC <- struct{}{}:
		case <-timer.C:
			return false
		}
	}
	r.listing = true
	return true
}

// makeRoom makes sure of the memory for an answer of about n bytes before it is made, or
// answers and returns false. Growing into it would take more than twice of that.
func (r *request) makeRoom(n int) bool {
	n += firstBuffer
	if n > freeAnswer && !r.room.wait(int64(n), r.server.bodyPatience) {
		r.fail(errAnswerBudget)
		return false
	}
	r.out = getBuffer(n)
	return true
}

// hasRoom counts the answer b, from here on until it is written. Those that have not taken
// room before wait, with what they have counted as parts of their requests.
func (r *request) hasRoom(b []byte) bool {
	switch {
	case len(b) <= freeAnswer:
		r.room.GiveBack()
		return true
	case r.room.grant != grant{}:
		return true
	}
	return r.room.wait(int64(cap(b)), r.server.bodyPatience)
}

// settle counts an answer that has taken room as what it has become. Those of pops have
// taken theirs before anything was leased; now it is too late to refuse them.
func (r *request) settle(b []byte) {
	if len(b) > freeAnswer {
		r.room.budget.settle(&r.room.grant, int64(cap(b)))
	}
}
