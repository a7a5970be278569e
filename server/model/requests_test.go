package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

func (c *client) lane() string  { return lanes[c.rng.IntN(len(lanes))] }
func (c *client) group() string { return consumers[c.rng.IntN(len(consumers))] }

// item is a message with a key: one of its own, or one that others push as well.
func (c *client) item(lane string) Item {
	n := c.x.keys.Add(1)
	key := fmt.Sprint("k", n)
	if c.rng.IntN(4) == 0 {
		key = fmt.Sprint("shared", n/12)
	}
	return Item{Queue: contended, Partition: lane, Key: key, Payload: fmt.Sprintf("%q", fmt.Sprint(c.name, n))}
}

func (c *client) push() error {
	lane := c.lane()
	var items []Item
	for range 1 + c.rng.IntN(2) {
		items = append(items, c.item(lane))
	}
	var answer []pushResult
	at, err := c.request("POST", "/api/v1/push", map[string]any{"items": sent(items)}, &answer)
	if err != nil {
		return err
	}
	var got []PushResult
	var ids []string
	text, idle := "push "+lane, true
	for i, r := range answer {
		got = append(got, r.result())
		ids = append(ids, r.MessageID)
		idle = idle && r.Status != "queued"
		text += fmt.Sprintf(" %s=%s", items[i].Key, r.Status)
	}
	c.note(at, "", idle, text, func(m *Model) ([]*Model, error) {
		return same(cmp.Or(m.Push(items, got), c.x.pool.stamp(m, ids, at.clockMs)), m)
	})
	return nil
}

func (c *client) pop() error {
	r := &Pop{
		Queue: contended, Group: c.group(), Batch: 1 + c.rng.IntN(3), Partitions: 1,
		AutoAck: c.rng.IntN(8) == 0, LeaseSeconds: 1 + c.rng.IntN(3),
	}
	switch c.rng.IntN(5) {
	case 0, 1:
		r.Pinned, r.Partition = true, c.lane()
	case 2:
		r.Partitions = 0
	}
	return c.sendPop(r, c.rng.IntN(8) == 0)
}

func (c *client) sendPop(r *Pop, wait bool) error {
	var a popAnswer
	to := target(r, wait)
	at, err := c.request("GET", to, nil, &a)
	if err != nil {
		return err
	}
	all := a.deliveries()
	for len(all) > 0 {
		n := ofOnePartition(all)
		c.claimed(r, at, a.LeaseID, all[:n], n == len(a.Messages))
		all = all[n:]
	}
	if len(a.Messages) == 0 {
		c.claimed(r, at, "", nil, true)
	}
	return nil
}

// claimed records what a pop got of one partition.
func (c *client) claimed(r *Pop, at times, leaseID string, got []Delivery, alone bool) {
	group := cmp.Or(r.Group, QueueMode)
	text := fmt.Sprintf("pop by %s %s%s auto %t:", group, r.Partition, short(leaseID), r.AutoAck)
	for _, d := range got {
		text += " " + d.Partition + ":" + d.Key
		c.x.pool.add(&d, handedOut{d.Key, d.PartitionID, leaseID, group, alone})
	}
	step := *r
	if !alone {
		step.Contended = true // its other claims are steps of their own
	}
	c.pops = append(c.pops, popped{len(c.steps), &step, len(got) == 0})
	c.note(at, group, false, text, func(m *Model) ([]*Model, error) {
		return same(m.Pop(&step, &PopAnswer{LeaseID: leaseID, Messages: got}), m)
	})
}

func (p *pool) add(d *Delivery, h handedOut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given = append(p.given, h)
	p.stamps[d.ID] = d.CreatedMs
}

// drawAck acknowledges something that was handed out to somebody.
func (c *client) drawAck() (a Ack, group string, ok bool) {
	h, ok := c.x.pool.draw(c.rng)
	if !ok {
		return a, "", false
	}
	a = Ack{Key: h.key, PartitionID: h.partitionID, LeaseID: h.leaseID, Status: "completed"}
	if c.rng.IntN(3) == 0 {
		a.Status = []string{"failed", "retry", "dlq", "failed"}[c.rng.IntN(4)]
	}
	switch c.rng.IntN(8) {
	case 0:
		a.LeaseID = ""
	case 1:
		if other, ok := c.x.pool.draw(c.rng); ok {
			a.LeaseID = other.leaseID
		}
	}
	return a, h.group, true
}

func (c *client) ack() error {
	a, group, ok := c.drawAck()
	if !ok {
		return nil
	}
	acks := []Ack{a}
	for range c.rng.IntN(3) {
		if b, of, _ := c.drawAck(); of == group && b.PartitionID == a.PartitionID {
			b.LeaseID = a.LeaseID // of one lease and partition they are one step
			acks = append(acks, b)
		}
	}
	var wire []ack
	text := "ack by " + group
	for _, a := range acks {
		wire = append(wire, ack{Key: a.Key, PartitionID: a.PartitionID, LeaseID: a.LeaseID, Status: a.Status})
		text += fmt.Sprintf(" %s:%s %s under %s", short(a.PartitionID), a.Key, a.Status, short(a.LeaseID))
	}
	var answer []ackResult
	at, err := c.request("POST", "/api/v1/ack/batch", map[string]any{"consumerGroup": group, "acknowledgments": wire}, &answer)
	if err != nil {
		return err
	}
	var got []AckResult
	idle := true
	for _, r := range answer {
		got = append(got, r.result())
		idle = idle && (!r.Success || r.Noop)
		text += " " + showResult(&got[len(got)-1])
	}
	c.note(at, group, idle, text, func(m *Model) ([]*Model, error) { return same(m.Acknowledge(group, acks, got), m) })
	return nil
}

func (c *client) extend() error {
	h, ok := c.x.pool.draw(c.rng)
	if !ok || !h.alone || h.leaseID == "" {
		return nil
	}
	seconds := int64(1 + c.rng.IntN(4))
	var answer struct {
		Renewed int     `json:"renewed"`
		At      *string `json:"newExpiresAt"`
	}
	at, err := c.request("POST", "/api/v1/lease/"+h.leaseID+"/extend", map[string]any{"seconds": seconds}, &answer)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("extend %s by %ds: %d", short(h.leaseID), seconds, answer.Renewed)
	c.note(at, "", answer.Renewed == 0, text, func(m *Model) ([]*Model, error) {
		n, untilMs := m.Extend(h.leaseID, seconds)
		if n != answer.Renewed || n > 0 && millis(*answer.At) != untilMs {
			return nil, fmt.Errorf("got %+v, want %d until %s", answer, n, instant(untilMs))
		}
		return []*Model{m}, nil
	})
	return nil
}

func (c *client) seek() error {
	group, lane, toEnd := cmp.Or(c.group(), QueueMode), "*", c.rng.IntN(2) == 0
	path := "/api/v1/consumer-groups/" + group + "/queues/" + contended
	if c.rng.IntN(2) == 0 {
		lane = c.lane()
		path += "/partitions/" + lane
	}
	body := map[string]any{"timestamp": instant(0)}
	if toEnd {
		body = map[string]any{"toEnd": true}
	}
	var ignored any
	at, err := c.request("POST", path+"/seek", body, &ignored)
	if err != nil {
		return err
	}
	c.note(at, group, false, fmt.Sprintf("seek %s in %s %v", group, lane, body), func(m *Model) ([]*Model, error) {
		m.Seek(group, contended, lane, toEnd, 0)
		return []*Model{m}, nil
	})
	return nil
}

func (c *client) deleteGroup() error {
	group := cmp.Or(c.group(), QueueMode)
	var ignored any
	at, err := c.request("DELETE", "/api/v1/consumer-groups/"+group+"/queues/"+contended, nil, &ignored)
	if err != nil {
		return err
	}
	c.x.deleted.Store(group, true)
	c.note(at, group, false, "delete group "+group, func(m *Model) ([]*Model, error) {
		m.DeleteGroup(group, contended, false)
		return []*Model{m}, nil
	})
	return nil
}

// transact moves what was handed out to another partition.
func (c *client) transact() error {
	var steps []Step
	var leases []string
	var ids []string
	var wire []step
	text := "transaction"
	for range 1 + c.rng.IntN(2) {
		if a, group, ok := c.drawAck(); ok {
			leases = append(leases, a.LeaseID)
			a.LeaseID = ""
			steps = append(steps, Step{Ack: &a, Group: group})
			wire = append(wire, step{Type: "ack", Key: a.Key, PartitionID: a.PartitionID, Group: group, Status: a.Status})
			text += fmt.Sprintf(" ack by %s %s:%s %s", group, short(a.PartitionID), a.Key, a.Status)
		}
	}
	for range 1 + c.rng.IntN(2) {
		it := c.item(c.lane())
		it.TraceID = uuid.NewMD5(uuid.Nil, []byte(it.Payload)).String()
		steps = append(steps, Step{Push: &it})
		wire = append(wire, step{Type: "push", Queue: it.Queue, Partition: it.Partition, Key: it.Key, TraceID: it.TraceID, Payload: raw(it.Payload)})
		text += fmt.Sprintf(" push %s:%s", it.Partition, it.Key)
	}
	var answer struct {
		Success bool         `json:"success"`
		Error   string       `json:"error"`
		Results []stepResult `json:"results"`
	}
	at, err := c.request("POST", "/api/v1/transaction", map[string]any{"operations": wire, "requiredLeases": leases}, &answer)
	if err != nil {
		return err
	}
	got := TransactionAnswer{Success: answer.Success, Error: answer.Error}
	for _, r := range answer.Results {
		got.Results = append(got.Results, StepResult{r.Type, r.Key, r.MessageID, r.Queue, r.Duplicate, r.DeadLetter})
		ids = append(ids, r.MessageID)
	}
	text = fmt.Sprintf("%s under %v: %t %s", text, shortAll(leases), got.Success, got.Error)
	c.note(at, "*", !got.Success, text, func(m *Model) ([]*Model, error) {
		return same(cmp.Or(m.Transact(steps, leases, &got), c.x.pool.stamp(m, ids, at.clockMs)), m)
	})
	return nil
}

func shortAll(ids []string) (all []string) {
	for _, id := range ids {
		all = append(all, short(id))
	}
	return all
}

// letters lists the dead letters, which also tells their ids to all.
func (c *client) letters() error {
	var list letterList
	at, err := c.request("GET", "/api/v1/dlq?limit=1000&queue="+contended, nil, &list)
	if err != nil {
		return err
	}
	got := list.letters()
	c.x.pool.mu.Lock()
	for _, l := range got {
		if !slices.Contains(c.x.pool.letters, l.ID) {
			c.x.pool.letters = append(c.x.pool.letters, l.ID)
		}
	}
	c.x.pool.mu.Unlock()
	c.lists = append(c.lists, listed{len(c.steps), got})
	c.note(at, "", false, fmt.Sprintf("letters: %d", len(got)), func(m *Model) ([]*Model, error) {
		return same(m.MeetLetters(got, true), m)
	})
	return nil
}

func (c *client) replay() error {
	id, ok := c.x.pool.letter(c.rng)
	if !ok {
		return c.letters()
	}
	var a replayAnswer
	at, err := c.request("POST", "/api/v1/dlq/"+id+"/replay", map[string]any{}, &a)
	if err != nil {
		return err
	}
	var got *Replay
	var ids []string
	if a.Success {
		got, ids = a.replay(), []string{a.As.MessageID}
	}
	c.note(at, "", got == nil, fmt.Sprintf("replay %s: %t", short(id), a.Success), func(m *Model) ([]*Model, error) {
		return same(cmp.Or(m.Replay(id, "", "", got), c.x.pool.stamp(m, ids, at.clockMs)), m)
	})
	return nil
}

// look reads where a group stands, when nobody else does anything: what has become of a
// message may be told before it is on disk.
func (c *client) look(group string) error {
	var d depth
	at, err := c.request("GET", "/api/v1/resources/queues/"+contended+"/depth?group="+group, nil, &d)
	if err != nil {
		return err
	}
	for _, got := range d.Partitions {
		text := fmt.Sprintf("depth of %s for %s: %d, %d leased", got.Name, group, got.Pending, got.Processing)
		c.note(at, "", true, text, func(m *Model) ([]*Model, error) {
			if want, _ := m.Place(group, contended, got.Name); got.Pending != want.Lag || got.Processing != want.Leased {
				return nil, fmt.Errorf("want %+v", want)
			}
			return []*Model{m}, nil
		})
	}
	return nil
}
