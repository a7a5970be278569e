package server

import (
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/server/codec"
)

// ranged reads the time range of a query, at 2026-08-01T12:00:30Z.
func ranged(t *testing.T, query string) (timeRange, string) {
	t.Helper()
	values, err := codec.ParseQuery([]byte(query))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 8, 1, 12, 0, 30, 0, time.UTC)
	return readTimeRange(filters{&values}, now.UnixMilli(), time.Hour, 0)
}

// G-140: buckets are as wide as the time is long, and whole.
func TestG140TimeRanges(t *testing.T) {
	for _, tt := range []struct {
		query       string
		minutes     int64
		first, last string // buckets
		points      int64
	}{
		{"", 1, "11:00", "12:00", 61},
		{"from=2026-08-01T11:00:01Z", 1, "11:00", "12:00", 61},
		{"from=2026-08-01T11:00:00Z&to=2026-08-01T12:00:00Z", 1, "11:00", "11:59", 60},
		{"from=2026-08-01T10:59:59.500Z&to=2026-08-01T12:00:00.499Z", 1, "10:59", "12:00", 62},
		{"from=2026-08-01T11:00:00Z&to=2026-08-01T12:01:00Z", 5, "11:00", "12:00", 13},
		{"from=2026-08-01T06:00:00Z&to=2026-08-01T12:00:00Z", 5, "06:00", "11:55", 72},
		{"from=2026-08-01T06:00:00Z&to=2026-08-01T12:01:00Z", 15, "06:00", "12:00", 25},
		{"from=2026-07-31T12:00:00Z&to=2026-08-01T12:00:00Z", 15, "12:00", "11:45", 96},
		{"from=2026-07-31T12:00:00Z&to=2026-08-01T12:01:00Z", 60, "12:00", "12:00", 25},
		{"from=2026-07-25 12:00:00&to=2026-08-01T12:00:00Z", 60, "12:00", "11:00", 168},
		{"from=2026-07-25T12:00:00Z&to=2026-08-01T12:01:00Z", 360, "12:00", "12:00", 29},
		{"from=2026-07-01T17:00:00%2B02:00", 360, "12:00", "12:00", 125},
		{"to=2026-07-01T00:00:00Z", 1, "23:00", "23:59", 60},
		{"from=1969-12-31T23:50:00Z&to=1970-01-01T00:00:00Z", 1, "23:50", "23:59", 10},
		{"from=2026-08-01T12:00:00Z&to=2099-01-01", 360, "", "", -1},
		{"from=2026-08-01T12:00:00Z&to=2026-09-01", 360, "12:00", "18:00", 122},
	} {
		s, refused := ranged(t, tt.query)
		if tt.points < 0 {
			if !strings.Contains(refused, "points apart") {
				t.Errorf("%q: %+v %s", tt.query, s, refused)
			}
			continue
		}
		first, last := string(appendBucket([]byte("{"), "b", s.firstMs())), string(appendBucket([]byte("{"), "b", s.endMs()-s.widthMs))
		if refused != "" || s.widthMs != tt.minutes*minuteMs || s.points() != tt.points ||
			!strings.Contains(first, "T"+tt.first+":00Z") || !strings.Contains(last, "T"+tt.last+":00Z") {
			t.Errorf("%q: %s: %d minutes, %d points from %s to %s", tt.query, refused, s.widthMs/minuteMs, s.points(), first, last)
		}
	}
	for query, want := range map[string]string{
		"from=yesterday":                          "invalid timestamp: yesterday",
		"to=1":                                    "invalid timestamp: 1",
		"from=2026-08-01T12:00:31Z":               "from is in the future",
		"from=2026-08-01&to=2026-08-01":           "from is not before to",
		"from=2026-08-01T00:00:01Z&to=2026-08-01": "from is not before to",
		"from=0000-01-01&to=9999-12-31":           "from and to are more than 20000 points apart",
	} {
		if s, refused := ranged(t, query); refused != want {
			t.Errorf("%q: %+v %s, want %s", query, s, refused, want)
		}
	}
}

func TestWiden(t *testing.T) {
	fixed := timeRange{widthMs: minuteMs, fixed: true}
	if fixed.widen(15 * minuteMs); fixed.widthMs != minuteMs {
		t.Errorf("buckets whose width was asked for are %d ms wide", fixed.widthMs)
	}
	for _, tt := range []struct{ width, record, want int64 }{
		{1, 60_000, 1}, {1, 1000, 1}, {1, 60_001, 5}, {5, 180_000, 5}, {1, 900_000, 15}, {60, 900_000, 60}, {1, 3_600_000, 60},
	} {
		s := timeRange{widthMs: tt.width * minuteMs}
		if s.widen(tt.record); s.widthMs != tt.want*minuteMs {
			t.Errorf("%d minutes for records of %d ms: %d, want %d", tt.width, tt.record, s.widthMs/minuteMs, tt.want)
		}
	}
}
