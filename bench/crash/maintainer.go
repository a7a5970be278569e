package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const maintenancePath = "/api/v1/system/maintenance"

// maintainer switches push maintenance on and off. While it is on, answered pushes lie in
// the spool: they are as good as stored, but come later.
type maintainer struct {
	*worker
	// alone is held while maintenance is on, and read-locked by those who push and must
	// know that it is stored.
	alone *sync.RWMutex
	done  func() bool
}

// run returns when done, with maintenance off, or when ctx ends.
func (m *maintainer) run(ctx context.Context) {
	defer m.hangUp()
	ok, err := m.available(ctx, http.MethodGet, maintenancePath, "")
	for err == nil && ok && !m.done() {
		if err = m.pause(ctx, time.Duration(200+m.rng.IntN(900))*time.Millisecond); err == nil {
			err = m.cycle(ctx)
		}
	}
}

// cycle switches maintenance on for a while, long enough for a crash, mostly.
func (m *maintainer) cycle(ctx context.Context) error {
	m.alone.Lock()
	defer m.alone.Unlock()
	c := m.check
	c.mu.Lock()
	c.maintenance.windows++
	c.maintenance.mayBeOn = true
	c.mu.Unlock()
	if err := m.turn(ctx, true); err != nil {
		return err
	}
	c.mu.Lock()
	c.maintenance.isOn = true
	c.mu.Unlock()
	if err := m.pause(ctx, time.Duration(50+m.rng.IntN(700))*time.Millisecond); err != nil {
		return err
	}
	c.mu.Lock()
	c.maintenance.isOn = false
	c.mu.Unlock()
	if err := m.turn(ctx, false); err != nil {
		return err
	}
	// Pushes go through the spool until it is empty, and so keep their order.
	if err := m.emptied(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maintenance.mayBeOn = false
	c.totals.maintenances++
	return nil
}

func (m *maintainer) turn(ctx context.Context, on bool) error {
	return m.call(ctx, http.MethodPost, maintenancePath, fmt.Appendf(nil, `{"enabled":%v}`, on), func(status int, answer []byte) error {
		var got struct{ MaintenanceMode *bool }
		if err := into(&got)(status, answer); err != nil {
			return err
		}
		if got.MaintenanceMode == nil || *got.MaintenanceMode != on {
			return fmt.Errorf("%w: want maintenanceMode %v", errMaintenance, on)
		}
		return nil
	})
}

// emptied waits until nothing is buffered.
func (w *worker) emptied(ctx context.Context) error {
	deadline := w.now() + drainPatience
	for {
		var got struct {
			MaintenanceMode  bool
			BufferedMessages int
		}
		err := w.call(ctx, http.MethodGet, maintenancePath, nil, func(status int, answer []byte) error {
			if status == http.StatusNotFound {
				return nil // there is no such thing
			}
			if status != http.StatusOK {
				return errStatus
			}
			return json.Unmarshal(answer, &got)
		})
		switch {
		case err != nil:
			return err
		case got.BufferedMessages == 0:
			return nil
		case w.now() > deadline:
			w.check.complain("stuck", "%d messages are still buffered, %v after maintenance ended", got.BufferedMessages, drainPatience)
			return errViolation
		}
		if err := w.pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}
