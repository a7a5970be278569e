package acceptance

import (
	"testing"
)

// A notification is taken for any queue, and wakes nobody who would not wake by himself: those
// who wait go on, and get what comes.
func TestG416Notify(t *testing.T) {
	w := open(t)
	const ok = `{"status":"ok"}`
	for body, want := range map[string]string{
		`{}`: `{"error":"queue is required"}`, `{"queue":""}`: `{"error":"queue is required"}`,
		`{"queue":7}`: `{"error":"queue is required"}`, `{"queue":`: `{"error":"bad body: unexpected end at byte 9"}`,
	} {
		w.expect("POST", "/internal/api/notify", body, 400, want)
	}
	w.configure("q", "{}")
	got := make(chan *popAnswer, 2)
	for _, group := range []string{"a", "b"} {
		go func() { got <- w.pop("q", "wait=true", "timeout=20000", "consumerGroup="+group) }()
	}
	w.parked(2)
	for range 5 {
		w.expect("POST", "/internal/api/notify", `{"queue":"q","partition":"p"}`, 200, ok)
		w.expect("POST", "/internal/api/notify", `{"queue":"none"}`, 200, ok)
	}
	w.parked(2)
	w.queued(msg("q", "p", "m"))
	for range 2 {
		w.want(<-got, "m")
	}
}

// The settings that are in force are shown as they were handed in.
func TestG421ConfigOverHTTP(t *testing.T) {
	const config = `{"settings":[{"name":"PORT","value":"6632","source":"default"}],"unknown":[],"ignored":[],"warnings":[]}`
	w := open(t, func(w *world) { w.server.Config = []byte(config) })
	for range 2 {
		w.expect("GET", "/api/v1/system/config", "", 200, config)
		w.restart()
	}
}
