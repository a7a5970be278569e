package broker

import (
	"fmt"
	"strings"
)

// match asserts that a broker which was opened after a power cut is in a state that the
// answers allow: that after an operation, the latest that was surely on disk or one behind
// it; or part of the way through one of these, if that is several decisions.
func (l *simLife) match(cut *simCut, got *simState) error {
	is, err := got.render(got)
	if err != nil {
		return err
	}
	last := min(cut.op+1, len(l.states)-1)
	after := *got
	after.nowMs = max(after.nowMs, l.states[last].nowMs) // the clock may have been set back
	var why string
	for i := last; i >= cut.durable; i-- {
		want, err := l.states[i].render(&after)
		if err != nil {
			why += fmt.Sprintf("\n    not state %d: %v", i, err)
			continue
		}
		if len(simDiff(is, want)) == 0 {
			return nil
		}
		why += fmt.Sprintf("\n    not state %d:%s", i, simExplain(is, want))
		if op := l.ops[min(i, len(l.ops)-1)]; i < last && (op.several || op.makes || op.drains) {
			if err = simPartial(op, is, want, l.states[i+1], &after); err == nil {
				return nil
			}
			why += fmt.Sprintf("\n    nor on the way to %d: %v", i+1, err)
		}
	}
	return fmt.Errorf("a state that no answer allows:%s", why)
}

// simPartial asserts that what was found is what was before or what was to come after,
// unit by unit.
func simPartial(op *simOp, is, was map[simKey]string, after, got *simState) error {
	will, err := after.render(got)
	if err != nil {
		return err
	}
	if op.drains {
		return simDrained(is, was, will)
	}
	stays, comes := map[string]bool{}, map[string]bool{}
	for _, k := range simDiff(is, was) {
		// A group that registers has a place everywhere, whatever becomes of its leases.
		if was[k] != "" || !strings.Contains(is[k], simNoLease) {
			comes[op.unit(k)] = true
		}
	}
	for _, k := range simDiff(is, will) {
		stays[op.unit(k)] = true
	}
	for unit := range comes {
		if stays[unit] {
			return fmt.Errorf("%s is half done: between%s\n    and%s", unit, simExplain(is, was), simExplain(is, will))
		}
	}
	return nil
}

// unit names the decision that a line is part of.
func (op *simOp) unit(k simKey) string {
	if op.several || strings.HasPrefix(k.unit, "queue ") || strings.HasPrefix(k.unit, "group ") {
		return k.unit
	}
	return "the " + op.name
}

// simDrained asserts that every message of the spool is there, or where it was pushed to,
// and nowhere twice. What is moved later is stored later.
func simDrained(is, was, will map[simKey]string) error {
	timeless := func(s string) string { s, _, _ = strings.Cut(s, " @"); return s }
	for k, v := range is {
		if k.what == "offsets" {
			continue
		}
		if timeless(v) != timeless(was[k]) && timeless(v) != timeless(will[k]) {
			return fmt.Errorf("%s %s: %s, not %s or %s", k.unit, k.what, v, was[k], will[k])
		}
		if id, ok := strings.CutPrefix(k.unit, "spool "); ok {
			for other, v := range is {
				if strings.HasPrefix(other.what, "message ") && strings.HasPrefix(v, id) {
					return fmt.Errorf("%s was moved, and is still spooled", id)
				}
			}
		}
	}
	for k := range was {
		id, spooled := strings.CutPrefix(k.unit, "spool ")
		if !spooled || is[k] != "" {
			continue
		}
		for other, v := range will {
			if strings.HasPrefix(other.what, "message ") && strings.HasPrefix(v, id) && is[other] == "" {
				return fmt.Errorf("%s was taken out of the spool, and is not stored", id)
			}
		}
	}
	return nil
}

// simEqual asserts that two states are one.
func simEqual(got, want *simState) error {
	is, err := got.render(got)
	if err != nil {
		return err
	}
	was, err := want.render(want)
	if err == nil && len(simDiff(is, was)) > 0 {
		err = fmt.Errorf("another state than without the fault:%s", simExplain(is, was))
	}
	return err
}
