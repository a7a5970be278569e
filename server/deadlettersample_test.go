package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/broker"
)

// G-149: the answer, byte for byte.
func TestG149DeadLetterSignatures(t *testing.T) {
	at := func(day, hour int) int64 { return time.Date(2026, 7, day, hour, 59, 59, 999e6, time.UTC).UnixMilli() }
	f := newFake()
	c := startMemory(t, f, Options{})
	const path = "/api/v1/analytics/dlq-signatures?queue=q"
	check(t, c, "GET", path, "", 200, `{"queue":"q","rowsNow":0,"sample":0,"retryCounts":[],"groups":[],"oldest":null,"newest":null,"avgBytes":null,"signatures":[],"byDay":[]}`)
	f.letters = []broker.DeadLetter{ // newest first
		{Error: "order 12 is late", Group: "g", RetryCount: 10, FailedAtMs: at(30, 23)},
		{Error: "boom", Group: "f", RetryCount: 2, FailedAtMs: at(30, 0)},
		{Error: "order 9 is late", Group: "g\n", RetryCount: 2, FailedAtMs: at(29, 23)},
	}
	check(t, c, "GET", path, "", 200, `{"queue":"q","rowsNow":9,"sample":3,"retryCounts":[2,10],"groups":["f","g","g\n"],"oldest":"2026-07-29T23:59:59.999Z","newest":"2026-07-30T23:59:59.999Z",`+
		`"avgBytes":10,"signatures":[{"text":"order <n> is late","n":2,"share":0.67},{"text":"boom","n":1,"share":0.33}],"byDay":[{"day":"2026-07-29","n":1},{"day":"2026-07-30","n":2}]}`)

	f.letters = nil
	for often := range 10 {
		for range often {
			f.letters = append(f.letters, broker.DeadLetter{Error: strings.Repeat("x", often)})
		}
	}
	_, body, _ := call(t, c, "GET", path, "")
	if n := strings.Count(body, `"text":`); n != 8 || !strings.Contains(body, `"signatures":[{"text":"xxxxxxxxx","n":9,"share":0.20},{"text":"xxxxxxxx","n":8,`) {
		t.Errorf("%d signatures: %s", n, body)
	}
	for query, want := range map[string]string{"": "q200", "&limit=7": "q7", "&limit=1001": "q1000", "&limit=-1": "q0", "&limit=x": "q200"} {
		if call(t, c, "GET", path+query, ""); f.asked != want {
			t.Errorf("%s asks for %s, want %s", query, f.asked, want)
		}
	}
	for _, query := range []string{"", "?queue=", "?limit=5"} {
		check(t, c, "GET", "/api/v1/analytics/dlq-signatures"+query, "", 400, `{"error":"queue required"}`)
	}
	f.err = fmt.Errorf("sample: %w", broker.ErrQueueNotFound)
	check(t, c, "GET", path, "", 404, `{"error":"Queue not found"}`)
}
