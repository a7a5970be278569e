package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestLoadEvents(t *testing.T) {
	events, err := loadEvents(2)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 2*273 {
		t.Fatalf("got %d events want %d", len(events), 2*273)
	}
	ids := map[string]bool{}
	next := map[string]int{}
	for _, e := range events {
		if ids[e.id] || e.partition == "" || e.position != next[e.partition] {
			t.Fatalf("got %s in %q at %d, due %d", e.id, e.partition, e.position, next[e.partition])
		}
		ids[e.id] = true
		next[e.partition]++
	}
	if len(next) != 14 {
		t.Errorf("got %d partitions want 14", len(next))
	}
}

// TestLedger plays deliveries against three events of partition a and one of b.
func TestLedger(t *testing.T) {
	events := []event{
		{"a0", "a", []byte("0"), 0}, {"a1", "a", []byte("1"), 1}, {"b0", "b", []byte("2"), 0}, {"a2", "a", []byte("3"), 2},
	}
	all := "a0 b0 a1 a2"
	for _, tt := range []struct {
		name   string
		script string // deliveries; "!x" acknowledges x
		want   string // violations
		again  int
	}{
		{"in order", all, "", 0},
		{"again before the ack", "a0 a1 a0 !a0 a1 a2 b0", "", 2},
		{"missing", "a0 a1 b0", "g: 1 of 4 events never came", 0},
		{"out of order", "a0 a2 a1 b0", `g: a2 is number 2 of partition "a" and came first when number 1 was due; g: a1 is number 1 of partition "a" and came first when number 3 was due`, 0},
		{"after the ack", all + " !a2 a2", "g: a2 came again after its acknowledgement", 1},
		{"never pushed", all + " a7", "g: a7 was delivered and never pushed", 0},
		{"other bytes", "a0=9 b0 a1 a2", "g: a0 came with other bytes than it was pushed with", 0},
		{"other partition", "a0@b b0 a1 a2", `g: a0 came from partition "b" instead of "a"`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger("g", events)
			whole := l.after(len(events))
			for step := range strings.FieldsSeq(tt.script) {
				if id, ok := strings.CutPrefix(step, "!"); ok {
					l.ack(id)
					continue
				}
				id, payload, changed := strings.Cut(step, "=")
				id, partition, moved := strings.Cut(id, "@")
				if e := l.events[id]; e != nil {
					if !changed {
						payload = string(e.payload)
					}
					if !moved {
						partition = e.partition
					}
				}
				l.deliver(id, partition, []byte(payload))
			}
			if got := strings.Join(l.verdict(), "; "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			seen, again := l.counts()
			if again != tt.again {
				t.Errorf("got %d repetitions want %d", again, tt.again)
			}
			select {
			case <-whole:
				if seen < len(events) {
					t.Error("told that all events were seen")
				}
			default:
				if seen == len(events) {
					t.Error("not told that all events were seen")
				}
			}
			<-l.after(seen) // what is past is told at once
		})
	}
}

// TestReadDeliveries expects a line that a kill cut off not to count.
func TestReadDeliveries(t *testing.T) {
	events := []event{{"a0", "a", []byte(`{"x" : 1}`), 0}, {"a1", "a", []byte("2"), 1}}
	const line = `{"transactionId":"a%d","partition":"a","data":%s}`
	for _, tt := range []struct {
		name, input string
		seen        int
		fails       bool
	}{
		{"whole", fmt.Sprintf(line+"\n"+line+"\n", 0, events[0].payload, 1, events[1].payload), 2, false},
		{"torn", fmt.Sprintf(line+"\n"+line, 0, events[0].payload, 1, events[1].payload), 1, false},
		{"no JSON", "oops\n", 0, true},
	} {
		l := newLedger("g", events)
		err := readDeliveries(strings.NewReader(tt.input), l)
		if seen, _ := l.counts(); seen != tt.seen || (err != nil) != tt.fails || len(l.violations) > 0 {
			t.Errorf("%s: got %d deliveries, %v, %v", tt.name, seen, err, l.violations)
		}
	}
}

func TestLogTail(t *testing.T) {
	var l logTail
	for _, p := range []string{strings.Repeat("a", 10<<10), "end"} {
		if n, err := l.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	if got := l.String(); len(got) != 8<<10 || !strings.HasSuffix(got, "aend") {
		t.Errorf("got %d bytes ending in %q", len(got), got[len(got)-4:])
	}
}
