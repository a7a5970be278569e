package server

import (
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/server/history"
)

// systemBytes is about what a point of the system takes in an answer.
const systemBytes = 1200

// systemMetrics answers GET /api/v1/analytics/system-metrics: what the process has taken of
// its machine, the oldest bucket first.
func (r *request) systemMetrics() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	t, ok := r.timeRange(q, seriesTime, 0)
	if !ok {
		return
	}
	w := r.walk(t, q, nil)
	points := map[int64]*systemPoint{}
	if r.isReplica(q) {
		for m := range w.minutes() {
			entry(points, w.bucket(m.StartMs)).add(m)
		}
	}
	if !r.makeRoom(len(points) * systemBytes) {
		return
	}
	b := appendTimeRange(append(r.answer(), '{'), &w.timeRange)
	b = appendNumber(b, "pointCount", int64(len(points)))
	if !r.isReplica(q) {
		r.send(fasthttp.StatusOK, append(b, `,"replicaCount":0,"replicas":[]}`...))
		return
	}
	b = appendText(append(b, `,"replicaCount":1,"replicas":[{`...), "hostname", r.server.opts.ServerID)
	b = r.server.appendPort(b)
	b = append(b, `,"workerId":0,"timeSeries":[`...)
	for i, ms := range slices.Sorted(maps.Keys(points)) {
		b = appendBucket(append(appendComma(b, i), '{'), "timestamp", ms)
		b = append(points[ms].append(b), '}')
	}
	b = append(b, "]}]}"...)
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

// isReplica reports whether the query asks for this process, by its name and number, or for
// any. There is no other.
func (r *request) isReplica(q filters) bool {
	host := q.text("hostname")
	return (host == "" || host == r.server.opts.ServerID) && q.number("workerId", 0) == 0
}

// appendPort appends the port that is listened on; null: there is none.
func (s *Server) appendPort(b []byte) []byte {
	s.lnMu.Lock()
	defer s.lnMu.Unlock()
	b = appendKey(b, "port")
	if s.ln != nil {
		if tcp, ok := s.ln.Addr().(*net.TCPAddr); ok {
			return strconv.AppendInt(b, int64(tcp.Port), 10)
		}
	}
	return append(b, "null"...)
}

// systemPoint is what the minutes of a bucket say of the process.
type systemPoint struct {
	samples                                                   int64
	user, system, rss, virtual, uptime, bytes, segments, sync spread
}

func (p *systemPoint) add(m *history.Minute) {
	p.samples++
	length, is := max(m.LengthMs, 1), &m.Process
	measured := is.UserNs+is.SystemNs > 0 // not every system tells
	p.user.add(length, cpuPart(is.UserNs, length), measured)
	p.system.add(length, cpuPart(is.SystemNs, length), measured)
	p.rss.add(length, float64(is.RSS), is.RSS > 0)
	p.virtual.add(length, float64(is.Virtual), is.Virtual > 0)
	p.uptime.add(length, float64(is.UptimeMs/1000), true)
	p.bytes.add(length, float64(is.StoreBytes), true)
	p.segments.add(length, float64(is.Segments), true)
	p.sync.add(length, float64(is.SyncUs)/1000, is.SyncUs > 0)
}

// cpuPart is processor time as hundredths of a percent of one processor.
func cpuPart(ns, lengthMs int64) float64 { return float64(ns) / 1e6 / float64(lengthMs) * 100 * 100 }

func (p *systemPoint) append(b []byte) []byte {
	b = append(appendNumber(b, "sampleCount", p.samples), `,"metrics":{"cpu":{`...)
	b = p.user.append(b, "user_us", 0)
	b = p.system.append(b, "system_us", 0)
	b = append(b, `},"memory":{`...)
	b = p.rss.append(b, "rss_bytes", 0)
	b = p.virtual.append(b, "virtual_bytes", 0)
	b = append(b, `},"database":{`...)
	for _, name := range [...]string{"pool_size", "pool_idle", "pool_active"} {
		b = new(spread).append(b, name, 0)
	}
	b = append(b, '}')
	b = p.uptime.append(b, "uptime_seconds", 0)
	b = append(b, `,"threadpool":null,"shared_state":{"enabled":false},"storage":{`...)
	b = p.bytes.append(b, "bytes", 0)
	b = p.segments.append(b, "segments", 0)
	return append(p.sync.append(b, "fsync_ms", 2), "}}"...)
}

// spread is what samples say of a value. The zero value is of none.
type spread struct {
	sum, weight    float64
	min, max, last float64
}

// add adds a sample of so much time; if it is not known it is none.
func (s *spread) add(lengthMs int64, v float64, known bool) {
	if !known {
		return
	}
	if s.weight == 0 {
		s.min, s.max = v, v
	}
	s.sum += v * float64(lengthMs)
	s.weight += float64(lengthMs)
	s.min, s.max, s.last = min(s.min, v), max(s.max, v), v
}

func (s *spread) append(b []byte, name string, decimals int) []byte {
	b = append(appendKey(b, name), '{')
	for _, part := range [...]struct {
		name  string
		value float64
	}{{"avg", s.sum / s.weight}, {"min", s.min}, {"max", s.max}, {"last", s.last}} {
		b = appendKey(b, part.name)
		if s.weight == 0 {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, part.value, 'f', decimals, 64)
		}
	}
	return append(b, '}')
}
