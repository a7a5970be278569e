package server

import (
	"testing"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/trace"
)

// Where the disk is full traces are refused like pushes; where there is no place for them only
// they are.
func TestG353RefusedTraces(t *testing.T) {
	const body = `{"transactionId":"t","partitionId":"00000000-0000-8000-8000-000000000001","data":1}`
	f := newFake()
	c := startMemory(t, f, Options{TraceDir: t.TempDir()})
	nowhere := startMemory(t, newFake(), Options{})
	f.err = broker.ErrStorageFull
	if status, text, _ := call(t, c, "POST", "/api/v1/traces", body); status != 507 || text != `{"error":"storage is full","code":"storage_full"}` {
		t.Errorf("full: %d %s", status, text)
	}
	f.err = nil
	const path = "/api/v1/traces/00000000-0000-8000-8000-000000000001/t"
	if status, text, _ := call(t, c, "GET", path, ""); status != 200 || text != `{"traces":[]}` {
		t.Errorf("refused, but there: %d %s", status, text)
	}
	if status, text, h := call(t, nowhere, "POST", "/api/v1/traces", body); status != 503 || text != `{"error":"the trace was not kept","code":"trace_failed"}` || h.Get("Retry-After") != "1" {
		t.Errorf("without a directory: %d %s", status, text)
	}
	if status, text, _ := call(t, nowhere, "GET", path, ""); status != 200 || text != `{"traces":[]}` {
		t.Errorf("without a directory: %d %s", status, text)
	}
}

// A stop ends the log of traces, which syncs it.
func TestStopClosesTraces(t *testing.T) {
	s := New(Options{TraceDir: t.TempDir()})
	if err := s.traces.Append(&trace.Trace{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.traces.Append(&trace.Trace{}) == nil {
		t.Error("open after the stop")
	}
}

// What is in force is what the process says it is.
func TestG421Config(t *testing.T) {
	for _, row := range []struct {
		config []byte
		want   string
	}{{nil, "{}"}, {[]byte(`{"settings":[]}`), `{"settings":[]}`}} {
		c := startMemory(t, newFake(), Options{Config: row.config})
		for range 2 {
			if status, text, h := call(t, c, "GET", "/api/v1/system/config", ""); status != 200 || text != row.want || h.Get("Content-Type") != "application/json" {
				t.Errorf("%d %s", status, text)
			}
		}
	}
}

func TestG416NotifyReachesTheBroker(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{})
	if status, text, _ := call(t, c, "POST", "/internal/api/notify", `{"queue":"é"}`); status != 200 || f.asked != "é" {
		t.Errorf("%d %s, for %q", status, text, f.asked)
	}
}
