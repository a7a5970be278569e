package client

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrProtocol means that an answer was not what the API promises: broken JSON,
	// or fewer verdicts than items. Whatever the request did is done.
	ErrProtocol = errors.New("client: unexpected answer")
	// ErrAnswerTooLarge means that an answer passed the limit of WithMaxAnswer.
	// The messages of such a pop stay leased until the lease expires.
	ErrAnswerTooLarge = errors.New("client: answer too large")
	// ErrLeaseLost means that the lease expired, was released or never existed:
	// somebody else may be working on its messages.
	ErrLeaseLost = errors.New("client: lease lost")
	// ErrPayload means that an item's payload is not one JSON value. Nothing was sent.
	ErrPayload = errors.New("client: payload is not JSON")
	// ErrName means that a name cannot travel as it is: it is not valid UTF-8.
	// Nothing was sent.
	ErrName = errors.New("client: name is not valid UTF-8")
	// ErrConflation means that Conflation was asked for and is not what the group gets:
	// it is registered without, it is not registered and a pop of one partition does
	// not do that, or the broker does not know conflation. What the pop has leased
	// comes again when the lease ends.
	ErrConflation = errors.New("client: the group has no conflation")
	// ErrMixedGroups means that one ack call held messages of several consumer
	// groups, which the API cannot express. Nothing was sent.
	ErrMixedGroups = errors.New("client: messages of several groups in one ack")
)

// Error is an answer with a status that means failure.
type Error struct {
	Status     int           // HTTP status
	Code       string        // machine-readable, often empty
	Message    string        // the broker's text, or the start of a body that was no JSON
	RetryAfter time.Duration // the pause the broker asked for, 0 for none
}

func (e *Error) Error() string {
	if e.Code != "" {
		return fmt.Sprintf("client: status %d: %s (%s)", e.Status, e.Message, e.Code)
	}
	return fmt.Sprintf("client: status %d: %s", e.Status, e.Message)
}

// temporary reports whether the same request may succeed later.
func (e *Error) temporary() bool {
	return e.Status >= 500 || e.Status == 429 || e.Status == 408
}

// RefusedError reports that the broker processed a call and refused some of its
// items. The results returned beside it tell which.
type RefusedError struct {
	Op      string // "push" or "ack"
	Refused int
	Total   int
	First   string // why, for the first refused item
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("client: %s refused for %d of %d items: %s", e.Op, e.Refused, e.Total, e.First)
}

// PanicError is what a handler's panic becomes: the nack carries its text, OnError
// the stack as well.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// permanent reports whether err is an answer that repeating cannot change.
func permanent(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.temporary() || errors.Is(err, ErrConflation)
}
