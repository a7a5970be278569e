package config

import (
	"maps"
	"slices"
	"strings"
)

// Remarks is what the environment holds and has no effect.
type Remarks struct {
	Unknown []Unknown `json:"unknown"`
	// Ignored are names of other Queen MQ brokers that mean nothing here.
	Ignored []string `json:"ignored"`
	// Warnings are sentences about those of them that somebody may rely on.
	Warnings []string `json:"warnings"`
}

// Unknown is a name that looks like one of ours and is none.
type Unknown struct {
	Name    string `json:"name"`
	Nearest string `json:"nearest,omitempty"` // what may be meant
}

// String is the name, and what may be meant.
func (u Unknown) String() string {
	if u.Nearest == "" {
		return u.Name
	}
	return u.Name + " (" + u.Nearest + "?)"
}

// prefixes are what our names begin with, as far as nobody else's do.
var prefixes = []string{"SKEP_", "QUEEN_", "JWT_"}

// elsewhere are names of other commands of skep, and of what skep consume runs.
var elsewhere = []string{
	"SKEP_URL", "SKEP_TOKEN", "SKEP_TENANT", "SKEP_QUEUE", "SKEP_GROUP", "SKEP_PARTITION", "SKEP_PARTITION_ID",
	"SKEP_MESSAGE_ID", "SKEP_TRANSACTION_ID", "SKEP_CREATED_AT", "SKEP_ATTEMPT",
}

// ignored are names of other Queen MQ brokers, for what Skep has no use for or does not
// have. A star stands for any ending.
var ignored = []string{
	"PG_*", "DB_*", "QUEEN_STMT_TIMEOUT_MS", "QUEEN_APPLY_SCHEMA", "QUEEN_SEG_*", "QUEEN_VEGAS_*",
	"QUEEN_ADMISSION_*", "QUEEN_HOTLIST*", "QUEEN_ACK_REGISTRY*", "QUEEN_ACK_FUSION*",
	"QUEEN_POP_FUSION", "QUEEN_RAFT_*", "RETAINED_BYTES_INTERVAL_MS",
	"QUEEN_SYNC_*", "QUEEN_MESH_*", "QUEEN_CACHE_REFRESH_INTERVAL_MS", "QUEEN_UDP_*",
	"POP_WAIT_*", "FILE_BUFFER_*", "RETENTION_BATCH_SIZE", "RETENTION_PARALLELISM",
	"STATS_INTERVAL_MS", "QUEEN_V2_*",
	"QUEEN_KV_*", "QUEEN_TIMERS_*", "QUEEN_SWEEPER_*",
	"QUEEN_EPHEMERAL_*",
}

// reliedOn are those whose absence somebody should know of.
var reliedOn = []struct{ name, warning string }{
	{"QUEEN_MESH_PEERS", "QUEEN_MESH_PEERS has no effect: this broker is a single node and copies nothing to its peers"},
}

// remarks sorts what the environment holds. A blank variable counts as absent.
func remarks(table []setting, env map[string]string) Remarks {
	r := Remarks{Unknown: []Unknown{}, Ignored: []string{}, Warnings: []string{}}
	known := slices.Clone(elsewhere)
	for i := range table {
		known = append(known, table[i].name, table[i].alias)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch {
		case strings.TrimSpace(env[name]) == "" || slices.Contains(known, name):
		case slices.ContainsFunc(ignored, func(pattern string) bool { return matches(pattern, name) }):
			r.Ignored = append(r.Ignored, name)
		case slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }):
			r.Unknown = append(r.Unknown, Unknown{name, nearest(name, known)})
		}
	}
	for _, w := range reliedOn {
		if slices.Contains(r.Ignored, w.name) {
			r.Warnings = append(r.Warnings, w.warning)
		}
	}
	return r
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return name == pattern
}

// nearest returns the name that is closest, or "" if none is close. What it begins with
// does not count: SKEP_PORT is most likely PORT.
func nearest(name string, known []string) string {
	best, found := 3, "" // two typing errors, and no more than a third of the name
	for _, k := range known {
		if k == "" {
			continue
		}
		if d := distance(core(name), core(k)); d < best && 3*d <= len(core(k)) {
			best, found = d, k
		}
	}
	return found
}

func core(name string) string {
	for _, p := range prefixes {
		name = strings.TrimPrefix(name, p)
	}
	return name
}

// distance is how many letters have to be added, removed or changed to turn a into b; two
// that have changed places count as one.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
