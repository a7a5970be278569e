package client

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"
)

// maxReason bounds the text of a failure: it is for people, and dead letters keep it.
const maxReason = 4096

// Outcome is what became of a message.
type Outcome struct {
	status string
	reason string
}

var (
	// Completed means done. It also completes every earlier message of the partition.
	Completed = Outcome{status: "completed"}
	// Retry gives the message back, to be handed out again at once and uncharged.
	Retry = Outcome{status: "retry"}
)

// Failed gives the message back and charges the retry budget of its group. The
// message becomes a dead letter, with reason, when that is used up.
func Failed(reason string) Outcome { return Outcome{"failed", clip(reason, maxReason)} }

// DeadLetter sets the message aside at once.
func DeadLetter(reason string) Outcome { return Outcome{"dlq", clip(reason, maxReason)} }

// Ack pairs a message with its outcome.
type Ack struct {
	Message Message
	Outcome Outcome
}

// AckResult is the verdict on one acknowledgement.
type AckResult struct {
	TransactionID string `json:"transactionId"`
	Success       bool   `json:"success"`
	Error         string `json:"error"`
	LeaseReleased bool   `json:"leaseReleased"`
	DeadLettered  bool   `json:"dlq"`
	Noop          bool   `json:"noop"`      // the cursor had already passed it
	Conflated     int    `json:"conflated"` // messages before it that nobody got, of a group with Conflation
}

// Ack acknowledges one message. A refusal is a *RefusedError, beside the result.
func (c *Client) Ack(ctx context.Context, m Message, o Outcome) (AckResult, error) {
	results, err := c.AckAll(ctx, Ack{m, o})
	if len(results) == 0 {
		return AckResult{}, err
	}
	return results[0], err
}

// AckBatch acknowledges messages of one group with the same outcome, in one request.
func (c *Client) AckBatch(ctx context.Context, msgs []Message, o Outcome) ([]AckResult, error) {
	acks := make([]Ack, len(msgs))
	for i := range msgs {
		acks[i] = Ack{msgs[i], o}
	}
	return c.AckAll(ctx, acks...)
}

// AckAll acknowledges messages of one group, each with its own outcome, in one
// request. Within a partition the first outcome that is not Completed holds: the
// messages from there on come again. Refusals are a *RefusedError beside the results.
func (c *Client) AckAll(ctx context.Context, acks ...Ack) ([]AckResult, error) {
	if len(acks) == 0 {
		return nil, nil
	}
	body, err := appendAcks(nil, acks)
	if err != nil {
		return nil, err
	}
	answer, err := c.do(ctx, request{method: "POST", path: "/api/v1/ack/batch", body: body, timeout: c.timeout})
	if err != nil {
		return nil, err
	}
	results := make([]AckResult, 0, len(acks))
	if err := decode(answer, &results); err != nil {
		return nil, err
	}
	if len(results) != len(acks) {
		return nil, fmt.Errorf("%w: %d verdicts on %d acks", ErrProtocol, len(results), len(acks))
	}
	return results, ackVerdict(results)
}

func ackVerdict(results []AckResult) error {
	refused := RefusedError{Op: "ack", Total: len(results)}
	for i := range results {
		if results[i].Success {
			continue
		}
		if refused.Refused++; refused.Refused == 1 {
			refused.First = results[i].Error
		}
	}
	if refused.Refused == 0 {
		return nil
	}
	return &refused
}

// appendAcks encodes the request. The group stands once, at the top.
func appendAcks(dst []byte, acks []Ack) ([]byte, error) {
	group := acks[0].Message.Group
	if !utf8.ValidString(group) {
		return nil, fmt.Errorf("%w: group %q", ErrName, group)
	}
	if dst == nil {
		dst = make([]byte, 0, 64+192*len(acks))
	}
	dst = append(dst, '{')
	if group != "" {
		dst = append(appendString(append(dst, `"consumerGroup":`...), group), ',')
	}
	dst = append(dst, `"acknowledgments":[`...)
	for i := range acks {
		m, o := &acks[i].Message, &acks[i].Outcome
		if m.Group != group {
			return nil, fmt.Errorf("%w: %q and %q", ErrMixedGroups, group, m.Group)
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(append(dst, `{"transactionId":`...), m.TransactionID)
		dst = appendString(append(dst, `,"partitionId":`...), m.PartitionID)
		if m.LeaseID != "" {
			dst = appendString(append(dst, `,"leaseId":`...), m.LeaseID)
		}
		dst = appendString(append(dst, `,"status":`...), o.status)
		if o.reason != "" {
			dst = appendString(append(dst, `,"error":`...), o.reason)
		}
		dst = append(dst, '}')
	}
	return append(dst, `]}`...), nil
}

// Lease is the state of a lease after its extension.
type Lease struct {
	Renewed   int       // (partition, group) pairs it still holds
	ExpiresAt time.Time // the earliest of their expiries, by the broker's clock
}

// ExtendLease moves the expiry of everything leased under leaseID to at least d from
// now, in whole seconds, and never to an earlier time. Nothing left to extend is
// ErrLeaseLost.
func (c *Client) ExtendLease(ctx context.Context, leaseID string, d time.Duration) (Lease, error) {
	var answer struct {
		Success      bool       `json:"success"`
		Renewed      int        `json:"renewed"`
		NewExpiresAt *time.Time `json:"newExpiresAt"`
	}
	in := struct {
		Seconds int64 `json:"seconds"`
	}{int64((d + time.Second - 1) / time.Second)}
	err := c.call(ctx, "POST", "/api/v1/lease/"+segment(leaseID)+"/extend", in, &answer)
	if err != nil {
		return Lease{}, err
	}
	if !answer.Success || answer.NewExpiresAt == nil {
		return Lease{}, ErrLeaseLost
	}
	return Lease{Renewed: answer.Renewed, ExpiresAt: *answer.NewExpiresAt}, nil
}
