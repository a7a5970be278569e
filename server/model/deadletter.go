package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Letter is a dead letter as the list shows it.
type Letter struct {
	ID          string
	Key         string
	PartitionID string
	Queue       string
	Partition   string
	Group       string
	Error       string
	RetryCount  int64
	Payload     string
	CreatedMs   int64
	FailedMs    int64
}

func (l *letter) shown() Letter {
	return Letter{
		ID: l.id, Key: l.key, PartitionID: l.partition.id, Queue: l.partition.queue.name,
		Partition: l.partition.name, Group: l.group, Error: l.reason, RetryCount: l.retries,
		Payload: l.payload, CreatedMs: l.createdMs, FailedMs: l.failedMs,
	}
}

// letters returns the dead letters of a queue, "" for all, and a group, "" for all,
// newest first.
func (m *Model) lettersOf(queue, group string) (found []*letter) {
	for _, q := range sorted(m.queues) {
		for _, l := range slices.Backward(q.letters) {
			if (queue == "" || q.name == queue) && (group == "" || l.group == group) {
				found = append(found, l)
			}
		}
	}
	slices.SortStableFunc(found, compareLetters)
	return found
}

// CompareLetters compares the list of a queue's and group's dead letters, and learns
// their ids. Letters of the same millisecond may come in any order.
func (m *Model) CompareLetters(queue, group string, got []Letter) error {
	known := m.lettersOf(queue, group)
	if len(got) != len(known) {
		return fmt.Errorf("%d dead letters, want %d", len(got), len(known))
	}
	order := func(a, b Letter) int {
		if a.FailedMs != b.FailedMs {
			return int(b.FailedMs - a.FailedMs)
		}
		return strings.Compare(a.PartitionID+a.Group+a.Key, b.PartitionID+b.Group+b.Key)
	}
	if !slices.IsSortedFunc(got, func(a, b Letter) int { return int(b.FailedMs - a.FailedMs) }) {
		return fmt.Errorf("dead letters are not newest first")
	}
	slices.SortFunc(known, func(a, b *letter) int { return order(a.shown(), b.shown()) })
	slices.SortFunc(got, order)
	for i := range got {
		if err := learn(&known[i].id, got[i].ID); err != nil {
			return fmt.Errorf("id of the dead letter of %q: %w", known[i].key, err)
		}
		if want := known[i].shown(); got[i] != want {
			return fmt.Errorf("dead letter %d: got %+v, want %+v", i, got[i], want)
		}
	}
	return nil
}

// MeetLetters compares a list of all dead letters that was made while others were at work.
// It may lack those on their way to disk, unless it is said to have all.
func (m *Model) MeetLetters(got []Letter, all bool) error {
	known := m.lettersOf("", "")
	if all && len(got) != len(known) {
		return fmt.Errorf("%d dead letters, want %d", len(got), len(known))
	}
	for _, g := range got {
		i := slices.IndexFunc(known, func(l *letter) bool {
			want := l.shown()
			want.ID = cmp.Or(want.ID, g.ID)
			if late := g.FailedMs - want.FailedMs; late > 0 && late <= stampMs {
				want.FailedMs = g.FailedMs
			}
			return want == g
		})
		if i < 0 {
			return fmt.Errorf("a dead letter from nowhere: %+v", g)
		}
		known[i].id, known[i].failedMs = g.ID, g.FailedMs
		known = slices.Delete(known, i, i+1)
	}
	return nil
}

// remove takes out the letters that match, and returns how many there were.
func (m *Model) remove(match func(*letter) bool) (n int) {
	for _, q := range m.queues {
		before := len(q.letters)
		q.letters = slices.DeleteFunc(q.letters, match)
		n += before - len(q.letters)
	}
	return n
}

// DeleteLetters removes the dead letters of a message, of all groups.
func (m *Model) DeleteLetters(partitionID, key string) (n int) {
	return m.remove(func(l *letter) bool { return l.partition.id == partitionID && l.key == key })
}

// Purge removes the dead letters of a queue and group; "" means all groups.
func (m *Model) Purge(queue, group string) (n int) {
	return m.remove(func(l *letter) bool {
		return l.partition.queue.name == queue && (group == "" || l.group == group)
	})
}

// Replay is the answer of moving a dead letter back.
type Replay struct {
	LetterID  string
	Key       string // of the dead letter
	Group     string
	Queue     string
	Partition string
	Removed   bool
	As        PushResult
}

// ReplayAt moves the newest dead letter of a message back to its partition. got is nil
// if the broker knows of none.
func (m *Model) ReplayAt(partitionID, key string, got *Replay) error {
	for _, l := range m.lettersOf("", "") {
		if l.partition.id == partitionID && l.key == key {
			return m.replay(l, l.partition.queue.name, l.partition.name, got)
		}
	}
	return m.noReplay(got)
}

// Replay moves a dead letter to a queue and partition; "" is its own.
func (m *Model) Replay(id, queue, partition string, got *Replay) error {
	for _, l := range m.lettersOf("", "") {
		if l.id != id {
			continue
		}
		if queue == "" {
			queue = l.partition.queue.name
		}
		if partition == "" {
			partition = l.partition.name
		}
		return m.replay(l, queue, partition, got)
	}
	return m.noReplay(got)
}

func (m *Model) noReplay(got *Replay) error {
	if got != nil {
		return fmt.Errorf("moved %+v, but there is no such dead letter", *got)
	}
	return nil
}

// replay stores the message under a key made of the letter's id, so that a repeat finds
// it, and removes the letter if it was stored.
func (m *Model) replay(l *letter, queue, partition string, got *Replay) error {
	if got == nil {
		return fmt.Errorf("dead letter of %q not found", l.key)
	}
	if err := learn(&l.id, got.LetterID); err != nil {
		return fmt.Errorf("id of the dead letter of %q: %w", l.key, err)
	}
	m.batches++
	it := Item{Queue: queue, Partition: partition, Key: "dlq:" + l.id, Payload: l.payload, TraceID: l.traceID}
	p := m.ensurePartition(m.ensureQueue(queue, implied), partition)
	found := m.original(p, it.Key, &got.As) != ""
	want := Replay{
		LetterID: l.id, Key: l.key, Group: l.group, Queue: queue, Partition: partition, Removed: !found,
		As: PushResult{MessageID: got.As.MessageID, Key: it.Key, Queue: queue, Status: "queued", Offset: got.As.Offset},
	}
	if found {
		want.As.Status, want.As.MessageID = "duplicate", nilUUID
	}
	if *got != want {
		return fmt.Errorf("got %+v, want %+v", *got, want)
	}
	if found {
		return nil
	}
	m.remove(func(x *letter) bool { return x == l })
	return m.append(p, &it, want.As.MessageID, it.Key)
}
