package acceptance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rot changes a bit of the payload that holds text, in every segment file that does, and
// returns the name of the last of them below the directory, which is not verified any more.
func (w *world) rot(text string) (file string) {
	w.t.Helper()
	w.damaged = true
	found, err := filepath.Glob(filepath.Join(w.dir, "segments", "*.seg"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, path := range found {
		content, err := os.ReadFile(path)
		if err != nil {
			w.t.Fatal(err)
		}
		i := bytes.Index(content, []byte(text))
		if i < 0 {
			continue
		}
		content[i+len(text)/2] ^= 1
		if err := os.WriteFile(path, content, 0o644); err != nil {
			w.t.Fatal(err)
		}
		file = "segments/" + filepath.Base(path)
	}
	if file == "" {
		w.t.Fatalf("no segment holds %q", text)
	}
	return file
}

// A partition that is damaged says so, and where; its queue and /health say how many. All
// others are served, and /health stays 200.
func TestR6DamageIsSeen(t *testing.T) {
	w := open(t, eagerCheckpoints)
	w.queued(msg("q", "bad", "rotten-apple"), msg("q", "good", "m0"), msg("other", "p", "n0"))
	w.filed("rotten-apple")
	w.stop()
	file := w.rot("rotten-apple")
	w.start()
	if a := w.call("GET", "/health", ""); strings.Contains(string(a.body), "damaged") {
		t.Errorf("before it is read: %s", a.body)
	}
	w.expect("GET", "/api/v1/pop/queue/q/partition/bad", "", 500, `{"error":"partition damaged","code":"partition_damaged"}`)
	w.want(w.popFrom("q", "good"), "m0")
	w.want(w.pop("other"), "n0")
	sees := func(target string, n int, text string) {
		t.Helper()
		if a := w.call("GET", target, ""); a.status != 200 || strings.Count(string(a.body), text) != n {
			t.Errorf("%s: %d %s, want %d times %s", target, a.status, a.body, n, text)
		}
	}
	sees("/health", 1, `,"damagedPartitions":1}`)
	sees("/api/v1/resources/queues", 1, `"damagedPartitions":1}`)
	sees("/api/v1/resources/queues", 1, `"damagedPartitions"`)
	sees("/api/v1/resources/queues/q", 1, `,"damagedPartitions":1}`)
	sees("/api/v1/resources/queues/q", 1, fmt.Sprintf(`,"damaged":true,"damagedFile":%q,"damagedPosition":`, file))
	sees("/api/v1/resources/queues/other", 0, "damaged")
	if n := w.running.broker.Stats().DamagedPartitions; n != 1 {
		t.Errorf("%d damaged partitions", n)
	}
	w.deleteQueue("q")
	sees("/health", 0, "damaged")
	sees("/api/v1/resources/queues", 0, "damaged")
}
