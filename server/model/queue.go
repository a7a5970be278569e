package model

import "fmt"

// Configure changes the options of a queue, which is made if it does not exist, and
// returns them. change gets the options it starts from: those in force with merge, else
// the defaults.
func (m *Model) Configure(name string, merge bool, change func(*Options)) Options {
	_, exists := m.queues[name]
	q := m.ensureQueue(name, func(string) Options { return configured() })
	if !merge || !exists {
		q.options = configured()
	}
	change(&q.options)
	q.options.DedupWindowSeconds = max(q.options.DedupWindowSeconds, 0)
	q.options.MinPopWaitTime = min(max(q.options.MinPopWaitTime, 0), 60_000)
	return q.options
}

// Delete deletes a queue with everything in it, and reports whether it existed.
func (m *Model) Delete(name string) (existed bool) {
	_, existed = m.queues[name]
	delete(m.queues, name)
	return existed
}

// Counts are the numbers of a partition, or sums of them.
type Counts struct {
	Total       int64
	Pending     int64 // not leased
	Processing  int64
	DeadLetters int64
}

// bounds are the smallest and largest backlog that a partition may report: of the slowest
// group that surely has a place there, and of the slowest that may have one.
func (m *Model) bounds(p *partition) (least, most int64) {
	total := p.end() - p.start
	least, most = -1, -1
	groups := map[string]bool{QueueMode: true}
	for g := range p.queue.registered {
		groups[g] = true
	}
	for g := range p.cursors {
		groups[g] = true
	}
	for g := range groups {
		c := p.at(g)
		if c == nil {
			continue
		}
		lag := c.lag(p)
		most = max(most, lag)
		if c.implied && m.RoughBacklog {
			most = total
		}
		if !c.unsure {
			least = max(least, lag)
		}
	}
	if least < 0 {
		return total, total // nobody is known to be further
	}
	return least, most
}

// leased is how many messages live leases cover, of all groups.
func (p *partition) leased(nowMs int64) (n int64) {
	for _, c := range p.cursors {
		if c.live(nowMs) {
			n += max(0, c.lease.end-max(c.committed, p.start-1, c.lease.from-1))
		}
	}
	return n
}

// ComparePartition compares the numbers of one partition. Together with what is leased,
// pending is the backlog of the slowest group.
func (m *Model) ComparePartition(queue, name string, got Counts) error {
	p := m.queue(queue).partitions[name]
	if p == nil {
		return fmt.Errorf("partition %q of %s was never made", name, queue)
	}
	least, most := m.bounds(p)
	backlog := got.Pending + got.Processing
	processing := min(p.leased(m.nowMs), backlog)
	if got.Total != p.end()-p.start || got.Processing != processing || backlog < least || backlog > most {
		return fmt.Errorf("%s: got %+v, want %d in total, %d leased, backlog %d to %d",
			p, got, p.end()-p.start, processing, least, most)
	}
	if letters := p.letters(); got.DeadLetters != letters {
		return fmt.Errorf("%s: %d dead letters, want %d", p, got.DeadLetters, letters)
	}
	return nil
}

func (p *partition) letters() (n int64) {
	for _, l := range p.queue.letters {
		if l.partition == p {
			n++
		}
	}
	return n
}

// CompareSum compares the numbers of a whole queue.
func (m *Model) CompareSum(queue string, got Counts) error {
	var total, least, most, leased int64
	for _, p := range sorted(m.queue(queue).partitions) {
		low, high := m.bounds(p)
		total, least, most = total+p.end()-p.start, least+low, most+high
		leased += min(p.leased(m.nowMs), high)
	}
	if backlog := got.Pending + got.Processing; got.Total != total || got.Processing > leased || backlog < least || backlog > most {
		return fmt.Errorf("%s: got %+v, want %d in total, at most %d leased, backlog %d to %d",
			queue, got, total, leased, least, most)
	}
	return nil
}
