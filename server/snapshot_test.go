package server

import (
	"net/http"
	"testing"

	"github.com/skepmq/skep/broker"
)

// Snapshot has nothing to copy.
func (f *fake) Snapshot() (*broker.Snapshot, error) {
	if f.err != nil {
		return nil, f.err
	}
	return nil, broker.ErrClosed
}

// G-904: what is answered to who asks for a snapshot that cannot begin.
func TestSnapshotRefused(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		want   string
	}{
		{broker.ErrSnapshotRunning, http.StatusConflict, `{"error":"another snapshot is being copied","code":"snapshot_running"}`},
		{broker.ErrClosed, http.StatusServiceUnavailable, `{"error":"the broker is stopping","code":"stopping"}`},
	} {
		f := newFake()
		f.err = tt.err
		status, body, _ := ask(t, startMemory(t, f, Options{}), "POST", "/api/v1/system/snapshot", "")
		if status != tt.status || body != tt.want {
			t.Errorf("%v: got %d %s, want %d %s", tt.err, status, body, tt.status, tt.want)
		}
	}
}
