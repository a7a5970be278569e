package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Step is one operation of a transaction: a push or an ack.
type Step struct {
	Push  *Item
	Ack   *Ack
	Group string // of the ack
}

// StepResult is the broker's answer on one Step.
type StepResult struct {
	Type       string // push or ack
	Key        string
	MessageID  string
	Queue      string
	Duplicate  bool
	DeadLetter bool
}

// TransactionAnswer is the broker's answer on a whole transaction.
type TransactionAnswer struct {
	Success bool
	Error   string
	Results []StepResult
}

// Transact does all steps or none, and compares the answer. leases are those that the
// request requires. Where several things speak against a transaction, the answer may name
// any of them.
func (m *Model) Transact(steps []Step, leases []string, got *TransactionAnswer) error {
	decisions, must := m.decideSteps(steps, leases)
	duplicates, may := m.duplicates(steps)
	must = append(must, duplicates...)
	may = append(may, m.unsure(steps)...)
	if !got.Success {
		named := func(reason string) bool { return strings.HasPrefix(got.Error, reason) }
		if !slices.ContainsFunc(must, named) && !slices.ContainsFunc(may, named) || len(got.Results) > 0 {
			return fmt.Errorf("rolled back with %q, want %q, perhaps %q", got.Error, must, may)
		}
		return nil
	}
	if len(must) > 0 {
		return fmt.Errorf("committed, but %q", must)
	}
	return m.commit(steps, decisions, got.Results)
}

// unsure says what may speak against acks for a group that has only looked at their
// partition.
func (m *Model) unsure(steps []Step) (may []string) {
	for _, of := range byCursor(steps) {
		if p := m.partitionByID(of.acks[0].PartitionID); p != nil {
			if c := p.at(of.group); c != nil && c.unsure {
				may = append(may, "QTXN ack refused: "+consumerNotFound)
			}
		}
	}
	return may
}

// duplicates says which pushes repeat what is stored, and which may: the broker may have
// forgotten.
func (m *Model) duplicates(steps []Step) (must, may []string) {
	for _, s := range steps {
		if s.Push == nil || s.Push.Key == "" || m.queue(s.Push.Queue) == nil {
			continue
		}
		p := m.queue(s.Push.Queue).partitions[s.Push.Partition]
		if p == nil {
			continue
		}
		where := fmt.Sprintf("QDUP duplicate messages in queue %q partition %q", s.Push.Queue, s.Push.Partition)
		switch {
		case m.original(p, s.Push.Key, &PushResult{}) != "":
			must = append(must, where)
		case m.original(p, s.Push.Key, &PushResult{Status: "duplicate", MessageID: nilUUID}) != "":
			may = append(may, where)
		}
	}
	return must, may
}

// acksOf are the acks of a transaction for one group in one partition.
type acksOf struct {
	group string
	steps []int
	acks  []Ack
}

// decideSteps decides the acks, and says what speaks against the transaction.
func (m *Model) decideSteps(steps []Step, leases []string) (decisions map[int]*decision, refusals []string) {
	const rolledBack = "; transaction rolled back"
	decisions = map[int]*decision{}
	supplied := slices.DeleteFunc(slices.Clone(leases), func(id string) bool { return id == "" })
	for _, s := range steps {
		if s.Ack != nil && s.Ack.LeaseID != "" {
			supplied = append(supplied, s.Ack.LeaseID)
		}
	}
	for _, of := range byCursor(steps) {
		if why := m.fence(&of, supplied); why != "" {
			refusals = append(refusals, "QTXN ack refused: "+why)
			continue
		}
		d := m.decide(of.group, of.acks)
		if d.refused {
			refusals = append(refusals, "QTXN ack refused: "+strings.TrimSuffix(d.results[0].Error, anyText))
			continue
		}
		for _, r := range d.results {
			switch r.Error {
			case "", alreadyCommitted:
			case unresolvable:
				refusals = append(refusals, "QTXN ack references unknown transactionId"+rolledBack)
			default:
				refusals = append(refusals, "QTXN ack refused: "+r.Error)
			}
		}
		for _, i := range of.steps {
			decisions[i] = d
		}
	}
	return decisions, refusals
}

// byCursor groups the acks by partition and group.
func byCursor(steps []Step) (all []acksOf) {
	at := map[[2]string]int{}
	for i, s := range steps {
		if s.Ack == nil {
			continue
		}
		k := [2]string{s.Ack.PartitionID, cmp.Or(s.Group, QueueMode)}
		if _, ok := at[k]; !ok {
			at[k] = len(all)
			all = append(all, acksOf{group: k[1]})
		}
		of := &all[at[k]]
		of.steps, of.acks = append(of.steps, i), append(of.acks, *s.Ack)
	}
	return all
}

// fence puts acks under the lease they are meant for, where any came along: the live one,
// which has to be that of the ack or, where the ack names none, among those supplied.
func (m *Model) fence(of *acksOf, supplied []string) (why string) {
	if len(supplied) == 0 {
		return ""
	}
	p := m.partitionByID(of.acks[0].PartitionID)
	if p == nil || p.at(of.group) == nil {
		return "" // refused for that
	}
	c := p.at(of.group)
	for i := range of.acks {
		a := &of.acks[i]
		if !c.live(m.nowMs) || a.LeaseID != "" && a.LeaseID != c.lease.id || a.LeaseID == "" && !slices.Contains(supplied, c.lease.id) {
			return leaseInvalid
		}
		a.LeaseID = c.lease.id
	}
	return ""
}

// commit compares the results of a transaction that was committed, and takes it over.
func (m *Model) commit(steps []Step, decisions map[int]*decision, got []StepResult) error {
	if len(got) != len(steps) {
		return fmt.Errorf("%d results for %d steps", len(got), len(steps))
	}
	m.batches++
	filed := map[*decision]map[string]bool{}
	for i := range steps {
		if d := decisions[i]; d != nil && filed[d] == nil {
			filed[d] = map[string]bool{}
			for _, r := range d.results {
				filed[d][r.Key] = filed[d][r.Key] || r.DeadLetter
			}
			m.apply(d)
		}
	}
	stored := map[[3]string]string{}
	for i, s := range steps {
		want := StepResult{Type: "ack", MessageID: got[i].MessageID}
		if s.Ack != nil {
			want = StepResult{Type: "ack", Key: s.Ack.Key, DeadLetter: filed[decisions[i]][s.Ack.Key]}
		} else {
			address := [3]string{s.Push.Queue, s.Push.Partition, s.Push.Key}
			want = StepResult{Type: "push", Key: s.Push.Key, MessageID: got[i].MessageID, Queue: s.Push.Queue}
			if id, ok := stored[address]; ok && s.Push.Key != "" {
				want.MessageID, want.Duplicate = id, true
			} else {
				want.Key = cmp.Or(s.Push.Key, want.MessageID)
				p := m.ensurePartition(m.ensureQueue(s.Push.Queue, implied), s.Push.Partition)
				if err := m.append(p, s.Push, want.MessageID, want.Key); err != nil {
					return err
				}
				stored[address] = want.MessageID
			}
		}
		if got[i] != want {
			return fmt.Errorf("step %d: got %+v, want %+v", i, got[i], want)
		}
	}
	return nil
}
