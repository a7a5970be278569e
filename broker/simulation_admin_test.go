package broker

import (
	"fmt"
	"slices"
	"strings"
)

// ack acknowledges some of what a lease has handed out.
func (c *simClient) ack(*simState) *simOp {
	acks, h := c.acks()
	if acks == nil {
		return nil
	}
	var results []AckResult
	return &simOp{
		name: "ack", text: simAckText(h.group, acks), durable: true, several: true, lines: simUnit("partition "),
		run: func(b *Broker) (string, error) {
			results = make([]AckResult, len(acks))
			err := b.Acknowledge(DefaultTenant, h.group, acks, results)
			return fmt.Sprintf("%+v", results), err
		},
		check: func(before, after *simState) error { return simCheckAcks(h, acks, results, before, after) },
	}
}

// acks makes up acks for one of the latest leases.
func (c *simClient) acks() ([]Ack, simHeld) {
	if len(c.held) == 0 {
		return nil, simHeld{}
	}
	i := max(0, len(c.held)-1-c.rng.IntN(3))
	h := c.held[i]
	status := simPick(c.rng, []AckStatus{AckCompleted, AckCompleted, AckCompleted, AckRetry, AckFailed, AckDeadLetter})
	lease := h.lease
	if c.rng.IntN(8) == 0 {
		lease = ""
	}
	var acks []Ack
	for _, part := range h.parts {
		n := len(part.keys)
		if c.rng.IntN(3) == 0 {
			n = 1 + c.rng.IntN(n)
		}
		for k, key := range part.keys[:n] {
			a := Ack{TransactionID: key, PartitionID: part.id.String(), LeaseID: lease, Status: AckCompleted}
			if k == n-1 {
				a.Status, a.Error = status, "by test"
			}
			acks = append(acks, a)
		}
	}
	return acks, h
}

func simAckText(group string, acks []Ack) string {
	text := group + ":"
	for _, a := range acks {
		text += fmt.Sprintf(" %s(%d)", a.TransactionID, a.Status)
	}
	return text
}

// simCheckAcks asserts that the cursor is where the answer says, and the dead letters with it.
func simCheckAcks(h simHeld, acks []Ack, results []AckResult, before, after *simState) error {
	group := h.group
	if group == "" {
		group = QueueMode
	}
	for i, r := range results {
		at := slices.IndexFunc(h.parts, func(p simHeldPart) bool { return p.id.String() == acks[i].PartitionID })
		part := h.parts[at]
		is := after.parts[part.name]
		if !r.Success || is == nil {
			continue
		}
		offset := part.first + int64(slices.Index(part.keys, acks[i].TransactionID))
		c := is.cursors[group]
		held := acks[i].LeaseID != "" && before.parts[part.name] != nil && before.parts[part.name].holds(group, h.lease)
		allCompleted := !slices.ContainsFunc(acks, func(a Ack) bool { return a.PartitionID == acks[i].PartitionID && a.Status != AckCompleted })
		if held && allCompleted && (c == nil || c.committed < offset) {
			return fmt.Errorf("%s: %d was acknowledged, the cursor is at %+v", part.name, offset, c)
		}
		if r.DeadLetter {
			unit, found := "partition "+part.name, 0
			for k, v := range after.lines {
				if k.unit == unit && strings.HasPrefix(k.what, "letter ") && before.lines[k] == "" && strings.HasPrefix(v, acks[i].TransactionID) {
					found++
				}
			}
			if found != 1 {
				return fmt.Errorf("%s: %d new dead letters of %s", part.name, found, acks[i].TransactionID)
			}
		}
	}
	return nil
}

// holds reports whether a lease of that id, over or not, is the latest of a group.
func (p *simPart) holds(group, lease string) bool {
	c := p.cursors[group]
	return c != nil && strings.HasPrefix(c.lease, lease+" ")
}

// transact moves messages on: acks of a lease together with pushes.
func (c *simClient) transact(*simState) *simOp {
	acks, h := c.acks()
	p := c.items(c.rng.IntN(4))
	if len(acks)+len(p.items) == 0 {
		return nil
	}
	x := Transaction{Pushes: p.items, Acks: acks, Sub: []byte("sub")}
	for range acks {
		x.Groups = append(x.Groups, h.group)
	}
	if h.lease != "" {
		x.Leases = []string{h.lease}
	}
	var res TransactionResult
	return &simOp{
		name: "transaction", text: simAckText(h.group, acks) + " " + p.text(), waits: true, makes: true,
		lines: simUnit("queue ", "group ", "partition "),
		run: func(b *Broker) (string, error) {
			c.sim.transactions++
			var err error
			if res, err = b.Transact(DefaultTenant, &x); res.Rollback != nil {
				return fmt.Sprintf("%+v", *res.Rollback), err
			}
			p.results = res.Pushed
			return p.answer() + fmt.Sprintf("%+v", res.Acked), err
		},
		check: func(before, after *simState) error {
			if res.Rollback != nil {
				return simSame(before, after)
			}
			if err := p.check(before, after); err != nil {
				return err
			}
			return simCheckAcks(h, acks, res.Acked, before, after)
		},
	}
}

func simSame(before, after *simState) error {
	was, err := before.render(before)
	if err != nil {
		return err
	}
	is, err := after.render(after)
	if err == nil && len(simDiff(is, was)) > 0 {
		err = fmt.Errorf("has changed something: %s", simExplain(is, was))
	}
	return err
}

func (c *simClient) extend(*simState) *simOp {
	if len(c.held) == 0 {
		return nil
	}
	lease, seconds := simPick(c.rng, c.held).lease, int64(1+c.rng.IntN(100))
	return &simOp{
		name: "extend", text: fmt.Sprint(lease, " ", seconds), several: true, lines: simUnit("partition "),
		run: func(b *Broker) (string, error) {
			n, at, err := b.Extend(DefaultTenant, lease, seconds)
			return fmt.Sprint(n, at), err
		},
	}
}

func (c *simClient) seek(s *simState) *simOp {
	to := SeekTarget{ToEnd: c.rng.IntN(2) == 0, TimestampMs: s.nowMs - c.rng.Int64N(100_000)}
	group, queue := simPick(c.rng, simGroups[1:]), simPick(c.rng, simQueues)
	if c.rng.IntN(2) == 0 {
		partition := simPick(c.rng, simPartitions)
		return &simOp{
			name: "seek partition", text: fmt.Sprintf("%s in %s/%s to %+v", group, queue, partition, to), durable: true,
			lines: simUnit("group "+queue+"/"+group, "partition "+queue+"/"+partition),
			run: func(b *Broker) (string, error) {
				return "", b.SeekPartition(DefaultTenant, group, queue, partition, to)
			},
		}
	}
	return &simOp{
		name: "seek", text: fmt.Sprintf("%s in %s to %+v", group, queue, to), durable: true,
		lines: simUnit("group "+queue+"/"+group, "partition "+queue+"/"),
		run: func(b *Broker) (string, error) {
			n, err := b.Seek(DefaultTenant, group, queue, to)
			return fmt.Sprint(n), err
		},
	}
}

func (c *simClient) deleteGroup(*simState) *simOp {
	group, queue, keep := simPick(c.rng, simGroups[1:]), simPick(c.rng, simQueues), c.rng.IntN(2) == 0
	if c.rng.IntN(3) == 0 {
		return &simOp{
			name: "delete group everywhere", text: fmt.Sprint(group, " keep ", keep), durable: true, several: true,
			lines: simUnit("group ", "partition "),
			run: func(b *Broker) (string, error) {
				n, err := b.DeleteGroups(DefaultTenant, group, keep)
				return fmt.Sprint(n), err
			},
		}
	}
	return &simOp{
		name: "delete group", text: fmt.Sprint(group, " of ", queue, " keep ", keep), durable: true,
		lines: simUnit("group "+queue+"/"+group, "partition "+queue+"/"),
		run: func(b *Broker) (string, error) {
			n, err := b.DeleteGroup(DefaultTenant, group, queue, keep)
			return fmt.Sprint(n), err
		},
	}
}

func (c *simClient) subscribe(s *simState) *simOp {
	group, at := simPick(c.rng, simGroups[1:]), s.nowMs-c.rng.Int64N(100_000)
	return &simOp{
		name: "move subscription", text: fmt.Sprint(group, " to ", at), durable: true, several: true, lines: simUnit("group "),
		run: func(b *Broker) (string, error) {
			n, err := b.MoveSubscription(DefaultTenant, group, at)
			return fmt.Sprint(n), err
		},
	}
}

func (c *simClient) configure(*simState) *simOp {
	queue := simPick(c.rng, simQueues)
	pick := func(values ...int64) int64 { return simPick(c.rng, values) }
	o := ConfigureDefaults()
	o.LeaseTime, o.RetryLimit = pick(1, 10, 300), pick(0, 1, 3)
	o.DeadLetterQueue, o.DLQAfterMaxRetries = pick(0, 1, 1) > 0, pick(0, 1, 1) > 0
	o.DelayedProcessing, o.WindowBuffer = pick(0, 0, 0, 5), pick(0, 0, 0, 5)
	o.RetentionEnabled, o.RetentionSeconds, o.CompletedRetentionSeconds = pick(0, 1) > 0, pick(0, 100), pick(0, 50)
	o.MaxWaitTimeSeconds, o.DedupWindowSeconds = pick(0, 0, 100), pick(0, 60, 3600)
	return &simOp{
		name: "configure", text: fmt.Sprintf("%s %+v", queue, o), waits: true, lines: simUnit("queue " + queue),
		run: func(b *Broker) (string, error) {
			_, err := b.Configure(DefaultTenant, queue, func(QueueOptions, bool) (QueueOptions, error) { return o, nil })
			return "", err
		},
	}
}

func (c *simClient) deleteQueue(*simState) *simOp {
	queue := simPick(c.rng, simQueues)
	return &simOp{
		name: "delete queue", text: queue, durable: true, lines: simUnit("queue "+queue, "group "+queue+"/", "partition "+queue+"/"),
		run: func(b *Broker) (string, error) {
			existed, err := b.DeleteQueue(DefaultTenant, queue)
			return fmt.Sprint(existed), err
		},
	}
}

func (c *simClient) pushMaintenance(s *simState) *simOp {
	on := !strings.HasPrefix(s.lines[simKey{"switches", ""}], "push true")
	op := &simOp{
		name: "push maintenance", text: fmt.Sprint(on), waits: on, several: true, drains: !on,
		lines: simUnit("switches", "queue ", "partition ", "spool "),
		run:   func(b *Broker) (string, error) { return "", b.SetPushMaintenance(on) },
	}
	if on {
		op.lines = simUnit("switches")
	}
	return op
}

// drain moves a batch of the spool, while push maintenance holds the drain itself back.
func (c *simClient) drain(s *simState) *simOp {
	if !s.diverting() {
		return nil
	}
	return &simOp{
		name: "drain", durable: true, drains: true, lines: simUnit("queue ", "partition ", "spool "),
		run: func(b *Broker) (string, error) { return "", (&spooler{b: b}).drainOne() },
	}
}

func (c *simClient) popMaintenance(s *simState) *simOp {
	on := !strings.HasSuffix(s.lines[simKey{"switches", ""}], "pop true")
	return &simOp{
		name: "pop maintenance", text: fmt.Sprint(on), waits: true, lines: simUnit("switches"),
		run: func(b *Broker) (string, error) { return "", b.SetPopMaintenance(on) },
	}
}

// letter returns the queue, the partition and the transaction id of a dead letter.
func (c *simClient) letter(s *simState) (part *simPart, key string) {
	var all []simKey
	for k := range s.lines {
		if strings.HasPrefix(k.what, "letter ") && s.parts[strings.TrimPrefix(k.unit, "partition ")] != nil {
			all = append(all, k)
		}
	}
	if len(all) == 0 {
		return nil, ""
	}
	slices.SortFunc(all, func(a, b simKey) int { return strings.Compare(a.what, b.what) })
	k := simPick(c.rng, all)
	key, _, _ = strings.Cut(s.lines[k], " ")
	return s.parts[strings.TrimPrefix(k.unit, "partition ")], key
}

func (c *simClient) replay(s *simState) *simOp {
	part, key := c.letter(s)
	if part == nil {
		return nil
	}
	return &simOp{
		name: "replay", text: key, durable: true, lines: simUnit("partition " + part.queue + "/" + part.name),
		run: func(b *Broker) (string, error) {
			r, err := b.ReplayDeadLetterAt(DefaultTenant, part.id, key)
			return fmt.Sprint(r.Removed, r.Push), err
		},
	}
}

func (c *simClient) removeLetters(s *simState) *simOp {
	part, key := c.letter(s)
	if part == nil {
		return nil
	}
	if c.rng.IntN(2) == 0 {
		return &simOp{
			name: "purge", text: part.queue, durable: true, lines: simUnit("partition " + part.queue + "/"),
			run: func(b *Broker) (string, error) {
				n, err := b.PurgeDeadLetters(DefaultTenant, part.queue, "")
				return fmt.Sprint(n), err
			},
		}
	}
	return &simOp{
		name: "delete letter", text: key, durable: true, lines: simUnit("partition " + part.queue + "/" + part.name),
		run: func(b *Broker) (string, error) {
			n, err := b.DeleteDeadLetter(DefaultTenant, part.id, key)
			return fmt.Sprint(n), err
		},
	}
}
