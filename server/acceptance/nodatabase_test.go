package acceptance

import "testing"

// G-147: the shape alone.
func TestG147PostgresStats(t *testing.T) {
	w := open(t)
	w.wantShape("GET", "/api/v1/analytics/postgres-stats", 200, `{"available":false,"reason":"no_postgres","timestamp":"T","database":null,"databaseCache":null,"tableCache":[],"indexCache":[],`+
		`"cacheSummary":null,"deadTuples":[],"hotUpdates":[],"activeQueries":[],"autovacuumStatus":[],"bufferConfig":null,"bufferUsage":[],"tableSizes":[]}`)
}
