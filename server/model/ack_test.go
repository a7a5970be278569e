package model

import (
	"cmp"
	"errors"
	"fmt"

	"pgregory.net/rapid"
)

type ack struct {
	Key         string `json:"transactionId"`
	PartitionID string `json:"partitionId"`
	Group       string `json:"consumerGroup,omitempty"`
	LeaseID     string `json:"leaseId,omitempty"`
	Status      string `json:"status"`
	Error       string `json:"error,omitempty"`
}

type ackResult struct {
	Index      int     `json:"index"`
	Key        string  `json:"transactionId"`
	Success    bool    `json:"success"`
	Error      *string `json:"error"`
	Released   bool    `json:"leaseReleased"`
	DeadLetter bool    `json:"dlq"`
	Noop       bool    `json:"noop"`
	Conflated  *int64  `json:"conflated"`
}

func (r *ackResult) result() AckResult {
	res := AckResult{
		Key: r.Key, Success: r.Success, Error: *cmp.Or(r.Error, new(string)),
		Released: r.Released, DeadLetter: r.DeadLetter, Noop: r.Noop, Conflated: -1,
	}
	if r.Conflated != nil {
		res.Conflated = *r.Conflated
	}
	return res
}

// finish acknowledges one whole batch, mostly as completed.
func (x *machine) finish(t *rapid.T) error {
	all := x.held("", true)
	if len(all) == 0 {
		return x.ackSome(t)
	}
	h := rapid.SampledFrom(all).Draw(t, "batch")
	status := rapid.SampledFrom([]string{"completed", "ok", "acked", "failed", "retry"}).Draw(t, "status")
	var acks []Ack
	for _, msg := range h.p.messages[h.c.lease.first() : h.c.lease.end+1] {
		acks = append(acks, Ack{Key: msg.key, PartitionID: h.p.id, LeaseID: h.c.lease.id, Status: status})
	}
	return x.sendAcks(h.group, acks, false)
}

// ackSome acknowledges anything anyhow, most of it sensible.
func (x *machine) ackSome(t *rapid.T) error {
	group := cmp.Or(pickName(t, groupNames, "group"), QueueMode)
	if all := x.held("", true); len(all) > 0 && !chance(t, 6, "any group") {
		group = rapid.SampledFrom(all).Draw(t, "batch").group
	}
	var acks []Ack
	for range rapid.IntRange(1, 5).Draw(t, "acks") {
		acks = append(acks, x.drawAck(t, group))
	}
	return x.sendAcks(group, acks, len(acks) == 1)
}

func (x *machine) drawAck(t *rapid.T, group string) Ack {
	a := Ack{
		Status: rapid.SampledFrom([]string{"completed", "completed", "failed", "retry", "dlq", "Completed"}).Draw(t, "status"),
		Error:  rapid.SampledFrom([]string{"", "", "reason 1", "reason 2"}).Draw(t, "error"),
	}
	batches := x.held(group, false)
	if len(batches) == 0 || chance(t, 7, "stray") {
		return x.stray(t, a)
	}
	h := rapid.SampledFrom(batches).Draw(t, "batch")
	a.PartitionID, a.LeaseID = h.p.id, h.c.lease.id
	a.Key = h.p.messages[rapid.Int64Range(h.c.lease.from, h.c.lease.end).Draw(t, "offset")].key
	switch rapid.IntRange(0, 11).Draw(t, "variant") {
	case 8:
		a.Key = h.p.messages[rapid.Int64Range(0, h.p.end()-1).Draw(t, "offset")].key
	case 9:
		a.Key = "never pushed"
	case 10:
		a.LeaseID = rapid.SampledFrom(append(x.leases, "no lease")).Draw(t, "lease")
	case 11:
		a.LeaseID = ""
	}
	return a
}

// stray makes an ack of some partition, that of a deleted queue or none included.
func (x *machine) stray(t *rapid.T, a Ack) Ack {
	a.PartitionID = rapid.SampledFrom(append([]string{nilUUID, "no id"}, x.partitions...)).Draw(t, "partition id")
	a.Key = "never pushed"
	if p := x.m.partitionByID(a.PartitionID); p != nil {
		a.Key = rapid.SampledFrom(p.messages).Draw(t, "message").key
	}
	if len(x.leases) > 0 && chance(t, 2, "old lease") {
		a.LeaseID = rapid.SampledFrom(x.leases).Draw(t, "lease")
	}
	return a
}

func (x *machine) sendAcks(group string, acks []Ack, single bool) error {
	x.note("by %s:", group)
	var sent []ack
	for i := range acks {
		x.avoidAmbiguous(group, &acks[i])
	}
	for _, a := range acks {
		s := ack{Key: a.Key, PartitionID: a.PartitionID, LeaseID: a.LeaseID, Status: a.Status, Error: a.Error}
		sent = append(sent, s)
	}
	if group == QueueMode {
		group = ""
	}
	path, body := "/api/v1/ack/batch", any(map[string]any{"consumerGroup": group, "acknowledgments": sent})
	if single {
		sent[0].Group = group
		path, body = "/api/v1/ack", sent[0]
	}
	var answer []ackResult
	if _, err := x.w.fetch("POST", path, body, &answer, 200); err != nil {
		return err
	}
	var got []AckResult
	for i, r := range answer {
		if r.Index != i {
			return fmt.Errorf("index %d at %d", r.Index, i)
		}
		got = append(got, r.result())
		if i < 6 && i < len(acks) {
			x.note("%s", x.showAck(&acks[i], &got[i]))
		}
	}
	return x.m.Acknowledge(group, acks, got)
}

// avoidAmbiguous keeps to ids of which the answer tells what they mean. One that stands in
// a partition more than once, and may be forgotten in one place, does not, unless it was
// handed out.
func (x *machine) avoidAmbiguous(group string, a *Ack) {
	p := x.m.partitionByID(a.PartitionID)
	if p == nil {
		return
	}
	places, forgotten := 0, false
	for _, msg := range p.messages {
		if msg.key != a.Key {
			continue
		}
		if c := p.cursors[group]; c != nil && c.lease != nil && msg.offset >= c.lease.first() && msg.offset <= c.lease.end {
			return
		}
		places++
		forgotten = forgotten || msg.outlived || msg.offset < p.start
	}
	if places > 1 && forgotten {
		a.Key = "never pushed"
	}
}

func (x *machine) nameAck(a *Ack) string {
	where := short(a.PartitionID)
	if p := x.m.partitionByID(a.PartitionID); p != nil {
		where = p.String()
	}
	return fmt.Sprintf("%s:%s %s under %s", where, short(a.Key), a.Status, short(a.LeaseID))
}

func (x *machine) showAck(a *Ack, r *AckResult) string {
	return x.nameAck(a) + " " + showResult(r)
}

func showResult(r *AckResult) string {
	s := "="
	switch {
	case r.Error != "":
		s += r.Error[:min(len(r.Error), 15)]
	case r.Noop:
		s += "noop"
	case r.DeadLetter:
		s += "dead letter"
	default:
		s += "ok"
	}
	if r.Released {
		s += ",released"
	}
	return s + ";"
}

func (x *machine) extend(t *rapid.T) error {
	id := rapid.SampledFrom(append([]string{nilUUID, "no lease"}, x.leases...)).Draw(t, "lease")
	if all := x.held("", true); len(all) > 0 && !chance(t, 4, "any") {
		id = rapid.SampledFrom(all).Draw(t, "batch").c.lease.id
	}
	seconds := rapid.SampledFrom([]int64{1, 2, 60, 0, -5}).Draw(t, "seconds")
	x.note("%s by %ds", short(id), seconds)
	var answer struct {
		LeaseID string  `json:"leaseId"`
		Success bool    `json:"success"`
		Renewed int     `json:"renewed"`
		At      *string `json:"newExpiresAt"`
	}
	if _, err := x.w.fetch("POST", "/api/v1/lease/"+escape(id)+"/extend", map[string]any{"seconds": seconds}, &answer, 200); err != nil {
		return err
	}
	renewed, earliestMs := x.m.Extend(id, seconds)
	if answer.LeaseID != id || answer.Renewed != renewed || answer.Success != (renewed > 0) || (answer.At != nil) != (renewed > 0) {
		return fmt.Errorf("got %+v, want %d renewed", answer, renewed)
	}
	if renewed > 0 && millis(*answer.At) != earliestMs {
		return fmt.Errorf("until %s, want %s", *answer.At, instant(earliestMs))
	}
	return nil
}

// The dead letters.

type letterAnswer struct {
	ID          string `json:"id"`
	Key         string `json:"transactionId"`
	PartitionID string `json:"partitionId"`
	Queue       string `json:"queue"`
	Partition   string `json:"partition"`
	Group       string `json:"consumerGroup"`
	Error       string `json:"errorMessage"`
	RetryCount  int64  `json:"retryCount"`
	Data        any    `json:"data"`
	CreatedAt   string `json:"createdAt"`
	FailedAt    string `json:"failedAt"`
}

func (x *machine) listLetters(t *rapid.T) error {
	queue := pickName(t, append([]string{""}, queueNames...), "queue")
	group := pickName(t, []string{"", QueueMode, "g", "h"}, "group")
	return x.compareLetters(queue, group)
}

func (x *machine) compareLetters(queue, group string) error {
	x.note("of %q by %q", queue, group)
	var list letterList
	if _, err := x.w.fetch("GET", "/api/v1/dlq?limit=1000&queue="+queue+"&consumerGroup="+group, nil, &list, 200); err != nil {
		return err
	}
	if list.Total != len(list.Messages) {
		return fmt.Errorf("total %d of %d", list.Total, len(list.Messages))
	}
	x.note("(%d)", list.Total)
	return x.m.CompareLetters(queue, group, list.letters())
}

type letterList struct {
	Messages []letterAnswer `json:"messages"`
	Total    int            `json:"total"`
}

func (list *letterList) letters() (all []Letter) {
	for _, l := range list.Messages {
		all = append(all, Letter{
			ID: l.ID, Key: l.Key, PartitionID: l.PartitionID, Queue: l.Queue, Partition: l.Partition,
			Group: l.Group, Error: l.Error, RetryCount: l.RetryCount, Payload: fmt.Sprintf("%q", l.Data),
			CreatedMs: millis(l.CreatedAt), FailedMs: millis(l.FailedAt),
		})
	}
	return all
}

// drawLetter returns a dead letter, and most times one that exists.
func (x *machine) drawLetter(t *rapid.T) (partitionID, key, id string) {
	letters := x.m.lettersOf("", "")
	if len(letters) == 0 || chance(t, 6, "no letter") {
		return rapid.SampledFrom(append([]string{nilUUID}, x.partitions...)).Draw(t, "partition id"), "k1", nilUUID
	}
	l := rapid.SampledFrom(letters).Draw(t, "letter")
	return l.partition.id, l.key, l.id
}

func (x *machine) removeLetters(t *rapid.T) error {
	if chance(t, 2, "purge") {
		queue, group := pickName(t, queueNames, "queue"), pickName(t, groupNames, "group")
		x.note("purge %s of %q", queue, group)
		var answer struct {
			Deleted int `json:"deleted"`
		}
		if _, err := x.w.fetch("DELETE", "/api/v1/dlq?queue="+queue+"&consumerGroup="+group, nil, &answer, 200); err != nil {
			return err
		}
		if n := x.m.Purge(queue, group); n != answer.Deleted {
			return fmt.Errorf("%d deleted, want %d", answer.Deleted, n)
		}
		return nil
	}
	partitionID, key, _ := x.drawLetter(t)
	x.note("%s:%s", short(partitionID), short(key))
	n, want := x.m.DeleteLetters(partitionID, key), 404
	if n > 0 {
		want = 200
	}
	var ignored any
	_, err := x.w.fetch("DELETE", "/api/v1/messages/"+partitionID+"/"+escape(key), nil, &ignored, want)
	return err
}

func (x *machine) replay(t *rapid.T) error {
	partitionID, key, id := x.drawLetter(t)
	var queue, partition string
	path, byID := "/api/v1/messages/"+partitionID+"/"+escape(key)+"/retry", false
	body := map[string]any{}
	if id != "" && chance(t, 2, "by id") {
		path, byID = "/api/v1/dlq/"+id+"/replay", true
		if chance(t, 3, "elsewhere") {
			queue, partition = pickName(t, queueNames, "queue"), pickName(t, partitionNames, "partition")
			body["queue"], body["partition"] = queue, partition
		}
	}
	x.note("%s:%s to %s/%s", short(partitionID), short(key), queue, partition)
	got, err := x.sendReplay(path, body)
	if err != nil || x.m.PushMaintenance {
		return err
	}
	if byID {
		return x.m.Replay(id, queue, partition, got)
	}
	return x.m.ReplayAt(partitionID, key, got)
}

// sendReplay returns nil for a dead letter that does not exist, and for any while pushes are
// spooled.
func (x *machine) sendReplay(path string, body any) (*Replay, error) {
	var a replayAnswer
	if x.m.PushMaintenance {
		_, err := x.w.fetch("POST", path, body, &a, 503, 404)
		return nil, err
	}
	status, err := x.w.fetch("POST", path, body, &a, 200, 404)
	if err != nil || status == 404 {
		return nil, err
	}
	if !a.Success || (a.Result == "moved") != a.Removed || (a.Result == "duplicate") == a.Removed {
		return nil, errors.New("result " + a.Result)
	}
	return a.replay(), nil
}

type replayAnswer struct {
	Success   bool       `json:"success"`
	Result    string     `json:"result"`
	Queue     string     `json:"queue"`
	Partition string     `json:"partition"`
	Group     string     `json:"consumerGroup"`
	LetterID  string     `json:"dlqId"`
	Key       string     `json:"originalTransactionId"`
	As        pushResult `json:"replayedAs"`
	Removed   bool       `json:"dlqRowRemoved"`
}

func (a *replayAnswer) replay() *Replay {
	return &Replay{
		LetterID: a.LetterID, Key: a.Key, Group: a.Group, Queue: a.Queue, Partition: a.Partition,
		Removed: a.Removed, As: a.As.result(),
	}
}
