package model

import (
	"cmp"
	"fmt"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// step is one operation of a transaction on the wire.
type step struct {
	Type string `json:"type"`
	// Of a push.
	Queue     string `json:"queue,omitempty"`
	Partition string `json:"partition,omitempty"`
	Payload   any    `json:"payload,omitempty"`
	TraceID   string `json:"traceId,omitempty"`
	// Of both.
	Key string `json:"transactionId,omitempty"`
	// Of an ack.
	PartitionID string `json:"partitionId,omitempty"`
	Group       string `json:"consumerGroup,omitempty"`
	LeaseID     string `json:"leaseId,omitempty"`
	Status      string `json:"status,omitempty"`
	Error       string `json:"error,omitempty"`
}

type stepResult struct {
	Index      int    `json:"index"`
	Type       string `json:"type"`
	Success    bool   `json:"success"`
	Key        string `json:"transactionId"`
	MessageID  string `json:"messageId"`
	Queue      string `json:"queueName"`
	Duplicate  bool   `json:"duplicate"`
	DeadLetter bool   `json:"dlq"`
}

func (x *machine) transact(t *rapid.T) error {
	var steps []Step
	var leases []string
	where := rapid.IntRange(0, 3).Draw(t, "leases") // on the acks, beside them, both, none
	for range rapid.IntRange(1, 5).Draw(t, "steps") {
		if chance(t, 2, "push") {
			it := x.item(pickName(t, queueNames, "queue"), pickName(t, partitionNames, "partition"), x.key(t))
			if chance(t, 3, "trace") {
				it.TraceID = uuid.NewMD5(uuid.Nil, []byte(it.Payload)).String()
			}
			steps = append(steps, Step{Push: &it})
			continue
		}
		group := pickName(t, groupNames, "group")
		if all := x.held("", true); len(all) > 0 && !chance(t, 6, "any group") {
			group = rapid.SampledFrom(all).Draw(t, "batch").group
		}
		a := x.drawAck(t, cmp.Or(group, QueueMode))
		x.avoidForgotten(&a, cmp.Or(group, QueueMode))
		if where == 1 || where == 2 {
			leases = append(leases, a.LeaseID)
		}
		if where == 1 || where == 3 {
			a.LeaseID = ""
		}
		steps = append(steps, Step{Ack: &a, Group: group})
	}
	return x.sendTransaction(steps, leases)
}

// avoidForgotten keeps to ids that the broker surely knows or surely does not.
func (x *machine) avoidForgotten(a *Ack, group string) {
	p := x.m.partitionByID(a.PartitionID)
	if p == nil {
		return
	}
	c := p.cursors[group]
	unsure := c != nil && c.lease != nil && c.maybeSealed()
	for _, msg := range p.messages {
		if msg.key == a.Key && (unsure || msg.outlived || msg.offset < p.start) {
			a.Key = "never pushed"
			return
		}
	}
}

func (x *machine) sendTransaction(steps []Step, leases []string) error {
	var sent []step
	for _, s := range steps {
		if s.Push != nil {
			it := s.Push
			x.note("push %s/%s:%s;", it.Queue, it.Partition, short(it.Key))
			sent = append(sent, step{Type: "push", Queue: it.Queue, Partition: it.Partition, Key: it.Key, TraceID: it.TraceID, Payload: raw(it.Payload)})
			continue
		}
		a := s.Ack
		x.note("ack by %s: %s;", s.Group, x.nameAck(a))
		sent = append(sent, step{
			Type: "ack", Key: a.Key, PartitionID: a.PartitionID, Group: s.Group, LeaseID: a.LeaseID, Status: a.Status, Error: a.Error,
		})
	}
	body := map[string]any{"operations": sent}
	if len(leases) > 0 {
		body["requiredLeases"] = leases
	}
	var answer struct {
		Success bool         `json:"success"`
		Error   string       `json:"error"`
		Results []stepResult `json:"results"`
	}
	if _, err := x.w.fetch("POST", "/api/v1/transaction", body, &answer, 200); err != nil {
		return err
	}
	x.note("-> %t %s", answer.Success, answer.Error)
	got := TransactionAnswer{Success: answer.Success, Error: answer.Error}
	for i, r := range answer.Results {
		if r.Index != i || !r.Success {
			return fmt.Errorf("result %d: %+v", i, r)
		}
		got.Results = append(got.Results, StepResult{r.Type, r.Key, r.MessageID, r.Queue, r.Duplicate, r.DeadLetter})
	}
	return x.m.Transact(steps, leases, &got)
}
