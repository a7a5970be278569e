package model

import (
	"cmp"
	"fmt"
	"slices"
)

// spooled is an item that push maintenance holds back.
type spooled struct {
	Item
	id    string // that was announced
	apart bool   // the drain stores it apart from the one before
}

// buffer spools items and compares the answer. An item that repeats the key of an earlier
// one has its fate, and its id.
func (m *Model) buffer(items []Item, got []PushResult) error {
	first := map[[2]string]int{} // of each partition, whose items are spooled together
	from := len(m.spool)
	leaders := map[[3]string]string{}
	for i, it := range items {
		want := PushResult{MessageID: got[i].MessageID, Key: it.Key, Queue: it.Queue, Status: "buffered", Offset: NoOffset}
		if it.Key == "" {
			want.Key = want.MessageID
		}
		address := [3]string{it.Queue, it.Partition, it.Key}
		leader, repeats := leaders[address]
		if repeats = repeats && it.Key != ""; repeats {
			want.MessageID = leader
		}
		if got[i] != want {
			return fmt.Errorf("item %d: got %+v, want %+v", i, got[i], want)
		}
		leaders[address] = want.MessageID
		if repeats {
			continue
		}
		if m.known(want.MessageID) {
			return fmt.Errorf("item %d: id %s is that of another message", i, want.MessageID)
		}
		if _, ok := first[[2]string{it.Queue, it.Partition}]; !ok {
			first[[2]string{it.Queue, it.Partition}] = i
		}
		m.spool = append(m.spool, spooled{Item: it, id: want.MessageID})
	}
	slices.SortStableFunc(m.spool[from:], func(a, b spooled) int {
		return cmp.Compare(first[[2]string{a.Queue, a.Partition}], first[[2]string{b.Queue, b.Partition}])
	})
	if from < len(m.spool) {
		m.spool[from].apart, m.interrupted = m.interrupted, false
	}
	return nil
}

// Interrupt says that somebody else has spooled something, which goes between what is
// spooled here before and after.
func (m *Model) Interrupt() { m.interrupted = true }

func (m *Model) known(id string) bool {
	for _, s := range m.spool {
		if s.id == id {
			return true
		}
	}
	_, msg := m.messageByID(id)
	return msg != nil
}

// Buffered is how many messages are spooled.
func (m *Model) Buffered() int { return len(m.spool) }

// EndPushMaintenance stores what was spooled, in the order in which it was pushed, unless
// its key is stored inside the window. It returns false, and does nothing, where the broker
// may or may not have forgotten a key: no answer will tell.
func (m *Model) EndPushMaintenance() (sure bool) {
	for _, s := range m.spool {
		if q := m.queue(s.Queue); q != nil && q.partitions[s.Partition] != nil && s.Key != "" {
			must := m.original(q.partitions[s.Partition], s.Key, &PushResult{})
			may := m.original(q.partitions[s.Partition], s.Key, &PushResult{Status: "duplicate", MessageID: nilUUID})
			if must != may {
				return false
			}
		}
	}
	var last *partition
	for i := range m.spool {
		s := &m.spool[i]
		p := m.ensurePartition(m.ensureQueue(s.Queue, implied), s.Partition)
		if p != last || s.apart {
			m.batches++ // a run of one partition is one
		}
		last = p
		switch {
		case s.Key == "":
			m.store(p, &s.Item, s.id, s.id)
		case m.original(p, s.Key, &PushResult{}) == "":
			m.store(p, &s.Item, s.id, s.Key)
		}
	}
	m.PushMaintenance, m.spool = false, nil
	return true
}
