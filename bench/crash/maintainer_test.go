package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// turn switches maintenance as the maintainer does, for certain.
func (s *script) turn(on bool) {
	if on {
		s.maintenance.windows++
	}
	s.maintenance.mayBeOn, s.maintenance.isOn = on, on
}

// spooled answers that items are in the spool.
func spooled(rs []pushResult) {
	for i := range rs {
		rs[i].Status, rs[i].Offset = "buffered", nil
	}
}

func TestMaintenance(t *testing.T) {
	runRows(t, []row{
		{"buffered, and comes", func(s *script) {
			s.turn(true)
			s.push(s.add(2), 0, spooled)
			s.turn(false)
			s.drainGroups(2)
			if !s.checkDrained() || s.totals.buffered != 2 {
				s.t.Errorf("not drained, or %d buffered", s.totals.buffered)
			}
		}, ""},
		{"buffered, and never comes", func(s *script) {
			s.turn(true)
			s.push(s.add(1), 0, spooled)
			s.turn(false)
			s.checkDrained()
		}, "lost"},
		{"buffered without maintenance", func(s *script) { s.push(s.add(1), 0, spooled) }, "push answer"},
		{"queued under maintenance", func(s *script) { s.turn(true); s.push(s.add(1), 0, nil) }, "maintenance"},
		{"queued when it has just begun", func(s *script) {
			p := &push{request: s.request(), items: s.add(1)}
			s.startPush(p)
			s.turn(true)
			s.answer(&p.request)
			s.endPush(p, results(p.items, 0))
		}, ""},
		{"queued when it has ended and begun again", func(s *script) {
			s.turn(true)
			p := &push{request: s.request(), items: s.add(1)}
			s.startPush(p)
			s.turn(false)
			s.turn(true)
			s.answer(&p.request)
			s.endPush(p, results(p.items, 0))
		}, ""},
		{"buffered, come, and stored again", func(s *script) {
			s.turn(true)
			s.push(s.add(1), 0, spooled)
			s.turn(false)
			s.pop("g", 0, 0, nil)
			s.push(s.messages, 1, nil)
		}, "stored twice"},
		{"buffered under one id, and comes under another", func(s *script) {
			s.turn(true)
			s.push(s.add(1), 0, spooled)
			s.turn(false)
			s.pop("g", 0, 0, func(ds []delivered) { ds[0].ID = "other" })
		}, "ids changed"},
		{"buffered twice, and comes under the first id", func(s *script) {
			s.turn(true)
			s.push(s.add(1), 0, spooled)
			s.push(s.messages, 0, func(rs []pushResult) { spooled(rs); rs[0].MessageID = "other" })
			s.turn(false)
			s.pop("g", 0, 0, nil)
		}, ""},
		{"buffered twice, once without an answer, and comes under either id", func(s *script) {
			s.turn(true)
			s.pushLost(s.add(1))
			s.push(s.messages, 0, func(rs []pushResult) { spooled(rs); rs[0].MessageID = "other" })
			s.turn(false)
			s.pop("g", 0, 0, nil)
		}, ""},
		{"buffered in order, comes in another", func(s *script) {
			s.turn(true)
			s.push(s.add(1), 0, spooled)
			s.push(s.add(1), 0, spooled)
			s.turn(false)
			s.pop("g", 0, 1, func(ds []delivered) { ds[0], ds[1] = ds[1], ds[0] })
		}, "push order"},
		{"stored before what was buffered earlier", func(s *script) {
			s.turn(true)
			s.push(s.add(1), 0, spooled)
			s.turn(false)
			s.push(s.add(1), 0, nil)
			s.pop("g", 0, 1, func(ds []delivered) { ds[0], ds[1] = ds[1], ds[0] })
		}, "push order"},
		{"stored, and comes behind what was buffered later", func(s *script) {
			s.push(s.add(1), 0, func(rs []pushResult) { rs[0].Offset = nil })
			s.turn(true)
			s.push(s.add(1), 0, spooled)
			s.turn(false)
			s.pop("g", 0, 1, func(ds []delivered) { ds[0], ds[1] = ds[1], ds[0] })
		}, "push order"},
		{"pushed without an answer, and others come between", func(s *script) {
			s.turn(true)
			s.pushLost(s.add(2))
			s.turn(false)
			s.pushLost(s.add(1))
			s.pop("g", 0, 2, func(ds []delivered) { ds[1], ds[2] = ds[2], ds[1] })
			s.checkWhole()
		}, ""},
		{"a lease before a buffered push need not be kept", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, nil)
			s.turn(true)
			s.push(s.add(1), 0, spooled) // is in the spool, not in the journal
			s.kill()
			s.pop("g", 0, 0, nil)
		}, ""},
	})
}

// TestMaintainer expects a maintainer that leaves maintenance off, and one that does
// without a broker that has none.
func TestMaintainer(t *testing.T) {
	w, st, s := newStubWorker(t)
	var alone sync.RWMutex
	st.will(http.StatusNotFound, `{"error":"Not Found"}`)
	m := &maintainer{worker: w, alone: &alone, done: func() bool { return false }}
	m.run(t.Context())
	if len(s.missing) != 1 || !strings.Contains(s.missing[0], maintenancePath) || w.emptied(t.Context()) != nil {
		t.Errorf("missing: %q", s.missing)
	}
	st.will(http.StatusOK, `{"maintenanceMode":true,"bufferedMessages":3}`)
	if err := m.turn(t.Context(), true); err != nil || s.failed() {
		t.Errorf("got %v, %v", err, s.violations)
	}
	if path, body := st.saw(); path != "POST "+maintenancePath || body != `{"enabled":true}` {
		t.Errorf("got %s with %s", path, body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := w.emptied(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a full spool: got %v", err)
	}
	if err := m.turn(t.Context(), false); err != nil || !s.failed() {
		t.Errorf("a switch that does not move: got %v and no violation", err)
	}
}
