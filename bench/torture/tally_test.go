package main

import (
	"errors"
	"testing"
)

// delivery is one of a message of queue q, partition p.
func (t *tally) delivery(index int) delivered {
	return delivered{Partition: "p", RawData: t.payload(t.lane("q", "p"), index)}
}

// TestDeliverNext: each broken promise has its rule, and what may happen has none.
func TestDeliverNext(t *testing.T) {
	for name, tt := range map[string]struct {
		items     []outcome
		done      int // acknowledged, with an answer
		maybe     int // acknowledged, perhaps
		delivered []int
		spoil     func(*delivered)
		want      string // rule of the last delivery, or "lost" after it
	}{
		"all":                          {[]outcome{stored, stored}, -1, -1, []int{0, 1}, nil, ""},
		"unknown ones come or do not":  {[]outcome{unknown, stored, unknown}, -1, -1, []int{1, 2}, nil, ""},
		"the refused does not":         {[]outcome{stored, refused, stored}, -1, -1, []int{0, 2}, nil, ""},
		"behind an ack":                {[]outcome{stored, stored, stored}, 0, 0, []int{1, 2}, nil, ""},
		"a lost ack counted":           {[]outcome{stored, stored, stored}, -1, 1, []int{2}, nil, ""},
		"a lost ack did not":           {[]outcome{stored, stored, stored}, -1, 1, []int{0, 1, 2}, nil, ""},
		"twice":                        {[]outcome{stored, stored}, -1, -1, []int{0, 0}, nil, "order"},
		"backwards":                    {[]outcome{unknown, stored}, -1, -1, []int{1, 0}, nil, "order"},
		"a gap":                        {[]outcome{stored, stored, stored}, -1, -1, []int{0, 2}, nil, "skipped"},
		"a refused one":                {[]outcome{refused}, -1, -1, []int{0}, nil, "refused and delivered"},
		"after its ack":                {[]outcome{stored, stored}, 0, 0, []int{0}, nil, "delivered after its ack"},
		"the end is missing":           {[]outcome{stored, stored}, -1, -1, []int{0}, nil, "lost"},
		"nothing comes":                {[]outcome{stored}, -1, -1, nil, nil, "lost"},
		"other bytes":                  {[]outcome{stored}, -1, -1, []int{0}, func(m *delivered) { m.RawData[len(m.RawData)-4] ^= 1 }, "wrong bytes"},
		"another place":                {[]outcome{stored}, -1, -1, []int{0}, func(m *delivered) { m.RawData = rawMessage(`{"i":7}`) }, "never sent"},
		"another partition":            {[]outcome{stored}, -1, -1, []int{0}, func(m *delivered) { m.Partition = "x" }, "never sent"},
		"empty, as zeros on the disk":  {[]outcome{stored}, -1, -1, []int{0}, func(m *delivered) { m.RawData = nil }, "never sent"},
		"an ack that counted in place": {[]outcome{stored, stored, stored}, -1, 0, []int{1, 2}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ta := newTally(1, 100, 200)
			l := ta.lane("q", "p")
			l.items = tt.items
			*l.place("g") = place{done: tt.done, maybe: tt.maybe, seen: -1}
			var err error
			for _, i := range tt.delivered {
				if err != nil {
					t.Fatal("an earlier delivery: ", err)
				}
				m := ta.delivery(i)
				if tt.spoil != nil {
					tt.spoil(&m)
				}
				err = ta.deliverNext("g", "q", &m)
			}
			got := ""
			if v := (*violation)(nil); errors.As(err, &v) {
				got = v.rule
			} else if n, _ := ta.missing("g", nil); n > 0 {
				got = "lost"
			}
			if got != tt.want {
				t.Errorf("got %q (%v), want %q", got, err, tt.want)
			}
		})
	}
}

// TestTakeResults: what was answered is what counts.
func TestTakeResults(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		want   outcome
		fails  bool
	}{
		"queued":      {`[{"status":"queued"}]`, stored, false},
		"failed":      {`[{"status":"failed"}]`, refused, false},
		"duplicate":   {`[{"status":"duplicate"}]`, unknown, true},
		"too many":    {`[{"status":"queued"},{"status":"queued"}]`, unknown, true},
		"not a list":  {`{}`, unknown, true},
		"no answer":   {``, unknown, true},
		"other words": {`[{"status":"fine"}]`, unknown, true},
	} {
		ta := newTally(1, 100, 200)
		l := ta.lane("q", "p")
		l.items = []outcome{unknown}
		if err := ta.takeResults(l, 0, 1, []byte(tt.answer)); (err != nil) != tt.fails || l.items[0] != tt.want {
			t.Errorf("%s: got %v, %v", name, l.items[0], err)
		}
	}
}
