package model

import (
	"maps"
	"slices"
	"strconv"
)

// Clone returns a model that goes its own way from here. What never changes is shared;
// that a message outlives the ack window is not told to clones.
func (m *Model) Clone() *Model {
	to := *m
	to.queues = make(map[string]*queue, len(m.queues))
	to.spool = slices.Clip(m.spool)
	for name, q := range m.queues {
		to.queues[name] = q.clone()
	}
	return &to
}

func (q *queue) clone() *queue {
	to := *q
	to.registered = maps.Clone(q.registered)
	to.partitions = make(map[string]*partition, len(q.partitions))
	moved := map[*partition]*partition{}
	for name, p := range q.partitions {
		at := *p
		at.queue, at.messages = &to, slices.Clip(p.messages)
		at.cursors = make(map[string]*cursor, len(p.cursors))
		for group, c := range p.cursors {
			own := *c
			at.cursors[group] = &own
		}
		to.partitions[name], moved[p] = &at, &at
	}
	to.letters = nil
	for _, l := range q.letters {
		own := *l
		own.partition = moved[l.partition]
		to.letters = append(to.letters, &own)
	}
	return &to
}

// Fingerprint is the same for models that will say the same from here on.
func (m *Model) Fingerprint() string {
	b := make(fingerprint, 0, 1024)
	b.numbers(m.nowMs, int64(len(m.spool)))
	b.flags(m.PushMaintenance, m.PopMaintenance)
	for _, q := range sorted(m.queues) {
		b.texts(q.name, q.id)
		b.numbers(q.createdMs, q.floorMs)
		q.options.print(&b)
		b.flags(q.polled)
		groups := q.groups()
		for _, g := range groups {
			s, ok := q.registered[g]
			b.texts(g)
			b.numbers(int64(s.mode), s.instantMs, s.createdMs)
			b.flags(ok, s.conflation, s.dormant)
		}
		for _, p := range sorted(q.partitions) {
			p.print(&b, groups)
		}
		for _, l := range q.letters {
			b.texts(l.id, l.partition.name, l.group, l.key, l.messageID, l.reason)
			b.numbers(l.retries, l.failedMs)
		}
	}
	return string(b)
}

func (o *Options) print(b *fingerprint) {
	b.texts(o.Namespace, o.Task)
	b.numbers(o.LeaseTime, o.RetryLimit, o.DedupWindowSeconds, o.DelayedProcessing, o.WindowBuffer,
		o.RetentionSeconds, o.CompletedRetentionSeconds, o.MaxWaitTimeSeconds, o.MinPopWaitTime)
	b.flags(o.DeadLetterQueue, o.DLQAfterMaxRetries, o.RetentionEnabled)
}

func (p *partition) print(b *fingerprint, groups []string) {
	b.texts(p.name, p.id)
	b.numbers(p.createdMs, p.start, p.end(), int64(p.sum))
	for _, msg := range p.messages {
		b.numbers(msg.createdMs)
	}
	for _, g := range groups {
		c := p.cursors[g]
		if c == nil {
			continue
		}
		b.texts(g)
		b.numbers(c.committed, c.retries, c.attempt, c.attemptStart, c.seal)
		b.flags(c.implied, c.unsure)
		for l := c.lease; l != nil; l = l.prior {
			b.texts(l.id)
			b.numbers(l.expiryMs, l.from, l.end)
		}
	}
}

// fingerprint is one in the making.
type fingerprint []byte

func (b *fingerprint) texts(all ...string) {
	for _, s := range all {
		*b = append(append(*b, s...), 0)
	}
}

func (b *fingerprint) numbers(all ...int64) {
	for _, n := range all {
		*b = append(strconv.AppendInt(*b, n, 36), ' ')
	}
}

func (b *fingerprint) flags(all ...bool) {
	for _, v := range all {
		*b = strconv.AppendBool(*b, v)
	}
}
