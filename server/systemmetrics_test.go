package server

import (
	"testing"

	"github.com/skepmq/skep/server/history"
)

// G-145: processor time is in hundredths of a percent, means are over the time, and what was
// not measured counts for nothing.
func TestG145SystemPoint(t *testing.T) {
	var p systemPoint
	const none = `{"avg":null,"min":null,"max":null,"last":null}`
	const pool = `},"database":{"pool_size":` + none + `,"pool_idle":` + none + `,"pool_active":` + none + `},"uptime_seconds":`
	const rest = `,"threadpool":null,"shared_state":{"enabled":false},"storage":{"bytes":`
	for _, step := range []struct {
		minute history.Minute
		want   string
	}{
		{history.Minute{LengthMs: 30_000, Process: history.Process{UptimeMs: 30_999}},
			`"sampleCount":1,"metrics":{"cpu":{"user_us":` + none + `,"system_us":` + none + `},"memory":{"rss_bytes":` + none + `,"virtual_bytes":` + none + pool +
				`{"avg":30,"min":30,"max":30,"last":30}` + rest + `{"avg":0,"min":0,"max":0,"last":0},"segments":{"avg":0,"min":0,"max":0,"last":0},"fsync_ms":` + none + `}}`},
		// 15 s of a minute on a processor are 25 %, 3 s are 5 %.
		{history.Minute{LengthMs: 60_000, Process: history.Process{UptimeMs: 90_000, UserNs: 15e9, SystemNs: 3e9, RSS: 300, Virtual: 900, SyncUs: 1500, StoreBytes: 9000, Segments: 3}},
			`"sampleCount":2,"metrics":{"cpu":{"user_us":{"avg":2500,"min":2500,"max":2500,"last":2500},"system_us":{"avg":500,"min":500,"max":500,"last":500}},` +
				`"memory":{"rss_bytes":{"avg":300,"min":300,"max":300,"last":300},"virtual_bytes":{"avg":900,"min":900,"max":900,"last":900}` + pool +
				`{"avg":70,"min":30,"max":90,"last":90}` + rest + `{"avg":6000,"min":0,"max":9000,"last":9000},"segments":{"avg":2,"min":0,"max":3,"last":3},"fsync_ms":{"avg":1.50,"min":1.50,"max":1.50,"last":1.50}}}`},
		// One that has just begun weighs next to nothing.
		{history.Minute{LengthMs: 0, Process: history.Process{UptimeMs: 90_000, UserNs: 1e3, RSS: 100, Virtual: 800, StoreBytes: 1, Segments: 1}},
			`"sampleCount":3,"metrics":{"cpu":{"user_us":{"avg":2500,"min":10,"max":2500,"last":10},"system_us":{"avg":500,"min":0,"max":500,"last":0}},` +
				`"memory":{"rss_bytes":{"avg":300,"min":100,"max":300,"last":100},"virtual_bytes":{"avg":900,"min":800,"max":900,"last":800}` + pool +
				`{"avg":70,"min":30,"max":90,"last":90}` + rest + `{"avg":6000,"min":0,"max":9000,"last":1},"segments":{"avg":2,"min":0,"max":3,"last":1},"fsync_ms":{"avg":1.50,"min":1.50,"max":1.50,"last":1.50}}}`},
	} {
		p.add(&step.minute)
		if got := string(p.append([]byte("{"))); got != "{"+step.want {
			t.Errorf("got  %s\nwant {%s", got, step.want)
		}
	}
}
