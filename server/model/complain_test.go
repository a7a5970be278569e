package model

import "testing"

// A model that agrees with everything would find nothing: wrong answers have to be
// noticed.
func TestModelComplains(t *testing.T) {
	const a, b, c = "00000000-0000-7000-8000-00000000000a", "00000000-0000-7000-8000-00000000000b", "00000000-0000-7000-8000-00000000000c"
	id := "00000000-0000-8000-8000-000000000001"
	delivered := func(message, key string) Delivery {
		return Delivery{ID: message, Key: key, Payload: key, PartitionID: id, Partition: "p", CreatedMs: 1000}
	}
	both := []Delivery{delivered(a, "x"), delivered(b, "y")}
	tests := map[string]struct {
		right func(m *Model) error
		wrong func(m *Model) error
	}{
		"a repeat is queued": {
			func(m *Model) error {
				return m.Push([]Item{{"q", "p", "x", "x", ""}}, []PushResult{{a, "x", "q", "duplicate", NoOffset}})
			},
			func(m *Model) error {
				return m.Push([]Item{{"q", "p", "x", "x", ""}}, []PushResult{{c, "x", "q", "queued", NoOffset}})
			},
		},
		"a message is left out": {
			func(m *Model) error { return m.Pop(pop(2), &PopAnswer{LeaseID: "l", Messages: both}) },
			func(m *Model) error { return m.Pop(pop(2), &PopAnswer{LeaseID: "l", Messages: both[1:]}) },
		},
		"too few are delivered": {
			func(m *Model) error { return m.Pop(pop(1), &PopAnswer{LeaseID: "l", Messages: both[:1]}) },
			func(m *Model) error { return m.Pop(pop(2), &PopAnswer{LeaseID: "l", Messages: both[:1]}) },
		},
		"nothing is delivered": {
			func(m *Model) error { return m.Pop(&Pop{Queue: "other", Batch: 1}, &PopAnswer{}) },
			func(m *Model) error { return m.Pop(pop(1), &PopAnswer{}) },
		},
		"an unknown ack succeeds": {
			func(m *Model) error {
				return m.Acknowledge("", []Ack{{Key: "x", PartitionID: id}}, []AckResult{{Key: "x", Error: consumerNotFound, Conflated: -1}})
			},
			func(m *Model) error {
				return m.Acknowledge("", []Ack{{Key: "x", PartitionID: id}}, []AckResult{{Key: "x", Success: true, Conflated: -1}})
			},
		},
		"counts are off": {
			func(m *Model) error { return m.ComparePartition("q", "p", Counts{Total: 2, Pending: 2}) },
			func(m *Model) error { return m.ComparePartition("q", "p", Counts{Total: 2, Pending: 1}) },
		},
		"a message is older than its request": {
			func(m *Model) error { return m.Stamp(a, 998, 998) },
			func(m *Model) error { return m.Stamp(a, 998, 999) },
		},
		"a message is of the future": {
			func(m *Model) error { return m.Stamp(a, 1000+stampMs, 1000) },
			func(m *Model) error { return m.Stamp(a, 1001+stampMs, 1000) },
		},
		"a dead letter from nowhere": {
			func(m *Model) error { return m.CompareLetters("q", "", nil) },
			func(m *Model) error { return m.CompareLetters("q", "", []Letter{{ID: c}}) },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := tt.right(stocked(t, a, b)); err != nil {
				t.Errorf("complains of a right answer: %v", err)
			}
			if err := tt.wrong(stocked(t, a, b)); err == nil {
				t.Error("does not complain")
			}
		})
	}
}

func pop(batch int) *Pop { return &Pop{Queue: "q", Partition: "p", Pinned: true, Batch: batch} }

// stocked is a model of two messages, pushed together.
func stocked(t *testing.T, a, b string) *Model {
	t.Helper()
	m := &Model{}
	m.Tick(1000)
	items := []Item{{Queue: "q", Partition: "p", Key: "x", Payload: "x"}, {Queue: "q", Partition: "p", Key: "y", Payload: "y"}}
	if err := m.Push(items, []PushResult{{a, "x", "q", "queued", NoOffset}, {b, "y", "q", "queued", NoOffset}}); err != nil {
		t.Fatal(err)
	}
	m.Tick(1001)
	return m
}
