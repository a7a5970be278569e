package acceptance

import "testing"

func TestM446LeaseOfAnAck(t *testing.T) {
	const foreign = "0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83"
	type state struct {
		a, b message // of two partitions under two leases
	}
	rows := []struct {
		name   string
		lapsed bool
		bundle func(s state) bundle
		text   string // of the rollback, "" for none
	}{
		{"on the operation", false, func(s state) bundle { return bundled(acking("", s.a.as("completed"))) }, ""},
		{"the holder among those required", false, func(s state) bundle {
			return bundled(acking("", s.a.as("completed").leaseless())).holding(foreign, s.a.LeaseID)
		}, ""},
		{"the holder on another operation", false, func(s state) bundle {
			return bundled(acking("", s.a.as("completed")), acking("", s.a.as("completed").leaseless()))
		}, ""},
		{"two partitions, two leases", false, func(s state) bundle {
			return bundled(acking("", s.a.as("completed").leaseless()), acking("", s.b.as("completed").leaseless())).holding(s.b.LeaseID, s.a.LeaseID)
		}, ""},
		{"no lease id anywhere", false, func(s state) bundle { return bundled(acking("", s.a.as("completed").leaseless())) }, ""},
		{"no lease id anywhere, lapsed", true, func(s state) bundle { return bundled(acking("", s.a.as("completed").leaseless())) }, ""},
		{"the holder is not among them", false, func(s state) bundle {
			return bundled(acking("", s.a.as("completed").leaseless())).holding(foreign)
		}, lostLease},
		{"the holder of another partition", false, func(s state) bundle {
			return bundled(acking("", s.b.as("completed")), acking("", s.a.as("completed").leaseless()))
		}, lostLease},
		{"the one on the operation counts", false, func(s state) bundle {
			a := s.a.as("completed")
			a.LeaseID = foreign
			return bundled(acking("", a)).holding(s.a.LeaseID)
		}, lostLease},
		{"two on one cursor", false, func(s state) bundle {
			a := s.a.as("completed")
			a.LeaseID = foreign
			return bundled(acking("", s.a.as("completed")), acking("", a))
		}, lostLease},
		{"no holder, one supplied", true, func(s state) bundle {
			return bundled(acking("", s.a.as("completed").leaseless())).holding(s.a.LeaseID)
		}, lostLease},
		{"no holder, several supplied", true, func(s state) bundle {
			return bundled(acking("", s.a.as("completed").leaseless())).holding(s.a.LeaseID, s.b.LeaseID)
		}, lostLease},
		{"nothing that is an id", false, func(s state) bundle {
			return bundled(acking("", s.a.as("completed").leaseless())).holding("x")
		}, lostLease},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := open(t)
			w.queued(msg("q", "a", "a0"), msg("q", "b", "b0"))
			s := state{a: w.popFrom("q", "a").Messages[0], b: w.popFrom("q", "b").Messages[0]}
			if row.lapsed {
				w.lapse()
			}
			if row.text == "" {
				w.committed(row.bundle(s))
				w.lapse()
				w.nothing(w.popFrom("q", "a"))
				return
			}
			w.rolledBack(row.bundle(s), "ack_rejected", row.text)
			w.lapse()
			w.want(w.popFrom("q", "a"), "a0")
		})
	}
}

// A worker whose lease has passed to another cannot commit, whichever way it sends it.
func TestM447Fencing(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "m0"))
	slow := w.pop("q").Messages[0]
	w.lapse()
	fast := w.popFrom("q", "Default").Messages[0]
	out := pushing(msg("out", "", "slow"))
	w.rolledBack(bundled(acking("", slow.as("completed")), out), "ack_rejected", lostLease)
	w.rolledBack(bundled(acking("", slow.as("completed").leaseless()), out).holding(slow.LeaseID), "ack_rejected", lostLease)
	w.committed(bundled(acking("", fast.as("completed").leaseless()), pushing(msg("out", "", "fast"))).holding(fast.LeaseID))
	w.want(w.pop("out"), "fast")
}
