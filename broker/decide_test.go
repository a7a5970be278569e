package broker

import "testing"

// The worked examples: offsets 10 to 19 are leased, committed is 9, the limit 3.
func TestDecide(t *testing.T) {
	base := cursorState{committed: 9, leased: true, end: 19, retryLimit: 3, deadLetter: true}
	with := func(change func(*cursorState)) cursorState {
		s := base
		change(&s)
		return s
	}
	at := func(status AckStatus, offsets ...int64) (items []resolved) {
		for _, o := range offsets {
			items = append(items, resolved{status: status, offset: o})
		}
		return items
	}
	join := func(parts ...[]resolved) (items []resolved) {
		for _, p := range parts {
			items = append(items, p...)
		}
		return items
	}
	below := resolved{offset: -1, below: true}
	unknown := resolved{offset: -1}
	all := []int64{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}

	tests := []struct {
		name  string
		state cursorState
		items []resolved
		want  decision
	}{
		{"1: the last", base, at(AckCompleted, 19), decision{committed: 19, released: true, completed: true, poison: -1}},
		{"2: the middle", base, at(AckCompleted, 14), decision{committed: 14, poison: -1}},
		{"4: below the cursor", with(func(s *cursorState) { s.committed = 14 }), []resolved{below}, decision{committed: 14, poison: -1}},
		{"6: a failure among successes", base,
			join(at(AckCompleted, 10), at(AckFailed, 11), at(AckCompleted, all[2:]...)),
			decision{committed: 10, released: true, retries: 1, poison: -1}},
		{"7: all failed charge once", base, at(AckFailed, all...), decision{committed: 9, released: true, retries: 1, poison: -1}},
		{"8: the lowest signal wins", base, join(at(AckRetry, 12), at(AckDeadLetter, 15)), decision{committed: 9, released: true, poison: -1}},
		{"9: at one message a dead letter beats a failure", base, join(at(AckFailed, 12), at(AckDeadLetter, 12)),
			decision{committed: 12, released: true, poison: 12, file: true}},
		{"9: in the other order", base, join(at(AckDeadLetter, 12), at(AckFailed, 12)),
			decision{committed: 12, released: true, poison: 12, file: true}},
		{"a failure beats a retry", base, join(at(AckRetry, 12), at(AckFailed, 12)),
			decision{committed: 9, released: true, retries: 1, poison: -1}},
		{"10: a failure within the budget", with(func(s *cursorState) { s.retries = 2 }), at(AckFailed, 10),
			decision{committed: 9, released: true, retries: 3, poison: -1}},
		{"11: a failure beyond it", with(func(s *cursorState) { s.retries = 3 }), at(AckFailed, 10),
			decision{committed: 10, released: true, poison: 10, file: true}},
		{"beyond it, dead letters off", with(func(s *cursorState) { s.retries, s.deadLetter = 3, false }), at(AckFailed, 10),
			decision{committed: 10, released: true, poison: 10}},
		{"beyond it, payload gone", with(func(s *cursorState) { s.retries, s.gone = 3, true }), join(at(AckCompleted, 10), at(AckFailed, 11)),
			decision{committed: 10, retries: 3, rejected: true, poison: -1}},
		{"12: a dead letter passes what is below", base, at(AckDeadLetter, 13), decision{committed: 13, released: true, poison: 13, file: true}},
		{"a dead letter at the end completes", base, at(AckDeadLetter, 19),
			decision{committed: 19, released: true, completed: true, poison: 19, file: true}},
		{"limit 0 files the first failure", with(func(s *cursorState) { s.retryLimit = 0 }), at(AckFailed, 10),
			decision{committed: 10, released: true, poison: 10, file: true}},
		{"13: unknown", base, []resolved{unknown}, decision{committed: 9, poison: -1}},
		{"completion resets the counter", with(func(s *cursorState) { s.retries = 2 }), at(AckCompleted, 19),
			decision{committed: 19, released: true, completed: true, poison: -1}},
		{"a part of it does not", with(func(s *cursorState) { s.retries = 2 }), at(AckCompleted, 15),
			decision{committed: 15, retries: 2, poison: -1}},
		{"a retry does not charge", with(func(s *cursorState) { s.retries = 3 }), at(AckRetry, 10),
			decision{committed: 9, retries: 3, released: true, poison: -1}},
		{"exact cover", with(func(s *cursorState) { s.exact = true }), at(AckCompleted, 10, 11),
			decision{committed: 19, released: true, completed: true, poison: -1}},
		{"not leased: completed", with(func(s *cursorState) { s.leased = false }), at(AckCompleted, 25), decision{committed: 25, poison: -1}},
		{"not leased: failed", with(func(s *cursorState) { s.leased = false }), join(at(AckCompleted, 11), at(AckFailed, 12)),
			decision{committed: 11, poison: -1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := decide(tt.state, tt.items); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestOutcome(t *testing.T) {
	released := decision{released: true, poison: -1}
	filed := decision{released: true, poison: 12, file: true}
	rejected := decision{rejected: true, poison: -1}
	leased := cursorState{leased: true}
	tests := []struct {
		name  string
		d     decision
		state cursorState
		item  resolved
		want  AckResult
	}{
		{"resolved", released, leased, resolved{status: AckCompleted, offset: 10, below: false}, AckResult{Success: true, LeaseReleased: true}},
		{"kept lease", decision{poison: -1}, leased, resolved{status: AckCompleted, offset: 10, below: false}, AckResult{Success: true}},
		{"noop", released, leased, resolved{status: AckCompleted, offset: -1, below: true}, AckResult{Success: true, LeaseReleased: true, Noop: true}},
		{"late failure", released, leased, resolved{status: AckFailed, offset: -1, below: true}, AckResult{Error: errCommitted}},
		{"late retry", released, leased, resolved{status: AckRetry, offset: -1, below: true}, AckResult{Error: errCommitted}},
		{"unknown", released, leased, resolved{status: AckCompleted, offset: -1, below: false}, AckResult{Error: errUnresolvable}},
		{"filed", filed, leased, resolved{status: AckFailed, offset: 12, below: false}, AckResult{Success: true, LeaseReleased: true, DeadLetter: true}},
		{"beside the filed one", filed, leased, resolved{status: AckFailed, offset: 13, below: false}, AckResult{Success: true, LeaseReleased: true}},
		{"dead letter without a batch", decision{poison: -1}, cursorState{}, resolved{status: AckDeadLetter, offset: 10, below: false}, AckResult{Error: errNoBatch}},
		{"failed without a batch", decision{poison: -1}, cursorState{}, resolved{status: AckFailed, offset: 10, below: false}, AckResult{Success: true}},
		{"payload gone", rejected, leased, resolved{status: AckFailed, offset: 10, below: false}, AckResult{Error: errPayloadGone}},
		{"payload gone, the completed", rejected, leased, resolved{status: AckCompleted, offset: 9, below: false}, AckResult{Success: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.d.outcome(tt.state, tt.item); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
