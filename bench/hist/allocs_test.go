//go:build !race

package hist

import (
	"testing"
	"time"
)

func TestRecordAllocatesNothing(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Record(time.Millisecond) }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}
