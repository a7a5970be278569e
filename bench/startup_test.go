package main

import (
	"fmt"
	"io"
	"testing"
)

// TestRecovered expects the parts of the latest recovery, whatever else the log says.
func TestRecovered(t *testing.T) {
	var log logTail
	for _, total := range []string{"9.9s", "1m2.5s"} {
		_, _ = io.WriteString(&log, "2026-11-30T00:44:52.000Z INF starting data_dir=dir fsync=group\n"+
			"2026-11-30T00:44:56.250Z INF data directory recovered catalogue="+total+" journal=2.34ms leases=51ms offsets=0s partitions=1001100 "+
			"path=/a=7s/b queues=3 replayed_bytes=1500000 retention=910µs segments=6.01ms spool=0s total=4.25002s transaction_ids=1.75051s\n"+
			"2026-11-30T00:44:56.250Z INF ready listen=127.0.0.1:6632 after=3s\n")
	}
	want := "[{    catalogue 62500 ms} {    journal 2.34 ms} {    leases 51 ms} {    replayed 1.5 MB} {    segments 6.01 ms} {    transaction_ids 1750.51 ms}]"
	if got := fmt.Sprint(log.recovered()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := new(logTail).recovered(); got != nil {
		t.Errorf("of an empty log: %v", got)
	}
}
