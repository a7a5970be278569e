package server

import "github.com/valyala/fasthttp"

// postgresStats answers GET /api/v1/analytics/postgres-stats, in the shape that dashboards
// render as empty: there is no database.
func (r *request) postgresStats() {
	r.abandonBody()
	b := append(r.answer(), `{"available":false,"reason":"no_postgres"`...)
	b = appendInstant(b, "timestamp", r.server.opts.Now())
	b = append(b, `,"database":null,"databaseCache":null,"tableCache":[],"indexCache":[],"cacheSummary":null`...)
	b = append(b, `,"deadTuples":[],"hotUpdates":[],"activeQueries":[],"autovacuumStatus":[],"bufferConfig":null`...)
	r.send(fasthttp.StatusOK, append(b, `,"bufferUsage":[],"tableSizes":[]}`...))
}
