//go:build !linux

package server

import (
	"runtime/metrics"
	"time"
)

// usage is what is known of this process; what is not is 0.
type usage struct {
	rss, virtual int64 // bytes
	user, system time.Duration
}

// readUsage takes the memory that the runtime has mapped and not given back for resident.
func readUsage() (u usage) {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	u.virtual = int64(s[0].Value.Uint64())
	u.rss = u.virtual - int64(s[1].Value.Uint64())
	return u
}
