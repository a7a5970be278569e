package model

import (
	"errors"
	"fmt"
	"time"

	"pgregory.net/rapid"
)

// maintenance turns a switch, off more often than on, or looks at them.
func (x *machine) maintenance(t *rapid.T) error {
	on := chance(t, 3, "on")
	switch rapid.IntRange(0, 2).Draw(t, "switch") {
	case 0:
		return x.switchPops(on)
	case 1:
		return x.switchPushes(on)
	}
	return x.compareMaintenance()
}

func (x *machine) switchPops(on bool) error {
	x.note("pops %t", on)
	for _, m := range x.tenants.models {
		m.PopMaintenance = on
	}
	return x.turn("/api/v1/system/maintenance/pop", on)
}

func (x *machine) switchPushes(on bool) error {
	x.note("pushes %t (%d buffered)", on, x.buffered())
	ends := !on && x.m.PushMaintenance
	for _, m := range x.tenants.models {
		if !ends {
			m.PushMaintenance = on
		} else if x.over = !m.EndPushMaintenance(); x.over {
			return nil
		}
	}
	if !ends {
		return x.turn("/api/v1/system/maintenance", on)
	}
	if err := x.turn("/api/v1/system/maintenance", false); err != nil {
		return err
	}
	return errors.Join(x.drained(), x.compareMaintenance())
}

func (x *machine) turn(path string, on bool) error {
	var ignored any
	_, err := x.w.fetch("POST", path, map[string]any{"enabled": on}, &ignored, 200)
	return err
}

// drained waits until pushes go their usual way, by when all that was spooled is in its
// place, and until it is on disk there.
func (x *machine) drained() error {
	probe := map[string]any{"items": []item{{Queue: "unrelated", Payload: 1}}}
	for deadline := time.Now().Add(20 * time.Second); ; {
		var answer []pushResult
		if _, err := x.w.fetch("POST", "/api/v1/push", probe, &answer, 201); err != nil {
			return err
		}
		state, err := x.askMaintenance()
		if err != nil {
			return err
		}
		if answer[0].Status == "queued" && state.Buffered == 0 {
			return x.barrier() // which deletes the queue of the probes
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not drained: %+v", state)
		}
	}
}

type maintenanceState struct {
	Push     bool `json:"maintenanceMode"`
	Pop      bool `json:"popMaintenanceMode"`
	Buffered int  `json:"bufferedMessages"`
	Healthy  bool `json:"bufferHealthy"`
}

func (x *machine) askMaintenance() (state maintenanceState, err error) {
	_, err = x.w.fetch("GET", "/api/v1/system/maintenance", nil, &state, 200)
	return state, err
}

func (x *machine) compareMaintenance() error {
	got, err := x.askMaintenance()
	if err != nil {
		return err
	}
	want := maintenanceState{x.m.PushMaintenance, x.m.PopMaintenance, x.buffered(), true}
	if got != want {
		return fmt.Errorf("got %+v, want %+v", got, want)
	}
	return nil
}
