package acceptance

import (
	"fmt"
	"testing"
	"time"
)

// M-700, M-707: a process is killed with SIGKILL while push maintenance is turned on and
// off, again and again, under load. What was answered is there, once and in order, and
// so is the switch.
func TestM707KillUnderMaintenance(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir(), clock: &clock{}}
	lanes := make([]*lane, 4)
	for i := range lanes {
		lanes[i] = &lane{name: fmt.Sprint(i)}
	}
	for round := range 3 {
		answered, asked := false, false // whether it is on
		w.killUnderLoad(lanes, func() { answered, asked = w.flip() })
		w.start()
		if on := w.state().Push; on != answered && on != asked {
			t.Errorf("push maintenance is %t, was answered %t", on, answered)
		}
		w.drained()
		w.clock.advance(2 * time.Second) // the leases of the killed consumers are over
		for _, l := range lanes {
			w.checkLane(l, fmt.Sprint("look", round))
		}
		w.stop()
		w.clock.ahead.Store(0)
	}
}

// flip turns push maintenance on and off until the broker is gone, each time when there
// was time for some pushes, and returns how it is as answered and as last asked for.
func (w *world) flip() (answered, asked bool) {
	for {
		asked = !answered
		a, err := w.try("POST", maintenancePath, fmt.Sprintf(`{"enabled":%t}`, asked), nil)
		if err != nil || a.status != 200 {
			return answered, asked
		}
		answered = asked
		for range 5 { // each takes a sync, as a push does
			if a, err := w.try("POST", "/api/v1/configure", `{"queue":"unrelated","options":{}}`, nil); err != nil || a.status != 200 {
				return answered, asked
			}
		}
	}
}
