package acceptance

import (
	"net/url"
	"strings"
	"testing"
)

// names are such as nobody would choose and everybody has seen. M-013, G-005, T-48.
var names = map[string]string{
	"space":        "my queue",
	"slash":        "a/b/c",
	"only slash":   "/",
	"emoji":        "orders-😀",
	"umlaut":       "Bestellungen-ä",
	"colon":        "queue:42",
	"dot dot":      "..",
	"dot":          ".",
	"path":         "../../etc/passwd",
	"newline":      "two\nlines",
	"nul":          "a\x00b",
	"quote":        `say "hi" \ there`,
	"percent":      "100%",
	"escaped":      "a%2Fb",
	"plus":         "a+b",
	"question":     "a?b=c&d#e",
	"long":         strings.Repeat("long-name-", 20),
	"empty":        "",
	"queue mode":   queueMode,
	"non-breaking": "a\u00a0b\u2028c",
}

func TestT48NamesRoundTrip(t *testing.T) {
	for row, name := range names {
		t.Run(row, func(t *testing.T) {
			w := open(t)
			group := "consumerGroup=" + name
			raw := `{"items":[{"queue":` + quote(name) + `,"partition":` + quote(name) + `,"transactionId":` + quote(name+"1") + `,"payload":1},` +
				`{"queue":` + quote(name) + `,"partition":` + quote(name) + `,"transactionId":` + quote(name+"2") + `,"payload":2}]}`
			for _, r := range w.pushRaw(raw) {
				if r.Queue != name || r.Status != "queued" {
					t.Errorf("push: %+v", r)
				}
			}
			p := w.want(w.popFrom(name, name, group, "batch=1"), name+"1")
			ackGroup := name
			w.ok(true, w.ack(ackGroup, p.Messages[0].as("completed")))
			p = w.want(w.pop(name, group), name+"2")
			w.buried(w.ack(ackGroup, p.Messages[0].as("dlq").because(name)))

			d := w.queue(name)
			if d.Name != name || len(d.Partitions) != 1 || d.Partitions[0].Name != name || d.Partitions[0].ID != p.PartitionID {
				t.Errorf("detail %+v", d)
			}
			if q := w.queues(); len(q) != 1 || q[0].Name != name {
				t.Errorf("list %+v", q)
			}
			wantGroup, wantError := name, name
			if name == "" {
				wantGroup, wantError = queueMode, "Retries exhausted"
			}
			letters := w.deadLetters("queue="+name, "partition="+name, group)
			if len(letters) != 1 || letters[0].Queue != name || letters[0].Partition != name || letters[0].Group != wantGroup ||
				letters[0].TransactionID != name+"2" || letters[0].Error != wantError {
				t.Fatalf("dead letters %+v", letters)
			}
			w.retry(letters[0])
			w.want(w.pop(name, group), "dlq:"+letters[0].ID)
			w.configure(name, `{}`)
			if a := w.deleteQueue(name); !a.Deleted {
				t.Errorf("delete: %+v", a)
			}
		})
	}
}

// Clients differ in what they escape: both spellings are one name.
func TestM013RawAndEscapedNames(t *testing.T) {
	w := open(t)
	for i, path := range []string{"caf\u00e9:1", "caf%C3%A9%3A1", "%63af%c3%a9:1"} {
		w.queued(msg("café:1", "", string(rune('a'+i))))
		if a := w.call("GET", "/api/v1/pop/queue/"+path+"?autoAck=true", ""); a.status != 200 {
			t.Errorf("pop of %s: %d %s", path, a.status, a.body)
		}
	}
	if q := w.queues(); len(q) != 1 {
		t.Errorf("queues %+v", q)
	}
	for _, path := range []string{"50%", "50%25", "5%30%"} { // M-801: a percent sign as well
		w.queued(msg("50%", "", path))
		if a := w.call("GET", "/api/v1/pop/queue/"+path+"?autoAck=true", ""); a.status != 200 {
			t.Errorf("pop of %s: %d %s", path, a.status, a.body)
		}
	}
	for _, path := range []string{"%ff", "a%C3"} {
		a := w.call("GET", "/api/v1/pop/queue/"+path, "")
		if e := decode[errorAnswer](t, a.body); a.status != 400 || !strings.HasPrefix(e.Error, "bad path: ") {
			t.Errorf("pop of %q: %d %s", path, a.status, a.body)
		}
	}
}

// No path is cleaned: dots and doubled slashes are names, not directions.
func TestG005PathsAreNotCleaned(t *testing.T) {
	w := open(t)
	w.queued(msg("..", "", "a"))
	w.queued(msg("", "", "b"))
	w.queued(msg("", "", "c"))
	for _, row := range []struct{ target, id string }{
		{"/api/v1/pop/queue/..?autoAck=true", "a"},
		{"/api/v1/pop/queue/?autoAck=true&batch=1", "b"},
		{"/api/v1/pop/queue//partition/Default?autoAck=true", "c"},
	} {
		a := w.call("GET", row.target, "")
		if a.status != 200 || !strings.Contains(string(a.body), `"transactionId":"`+row.id+`"`) {
			t.Errorf("%s: %d %s", row.target, a.status, a.body)
		}
	}
	for _, path := range []string{"/api/v1/push/", "//api/v1/push", "/api/v1//push", "/api/./v1/push", "/API/v1/push"} {
		if a := w.call("POST", path, `{"items":[]}`); a.status != 404 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if got := url.PathEscape(".."); got != ".." {
		t.Fatalf("PathEscape escapes dots: %q", got) // then TestT48 would not send them raw
	}
}

func TestM013TransactionIDs(t *testing.T) {
	w := open(t)
	for _, id := range []string{"a/b", "..", "x\ny", "nul\x00", "😀", strings.Repeat("x", 1<<16-1), " "} {
		w.queued(msg("q", "", id))
		p := w.want(w.pop("q"), id)
		w.buried(w.ack("", p.Messages[0].as("dlq")))
		if len(id) > 1000 {
			continue // no path
		}
		target := address(p.PartitionID, id)
		a := w.call("DELETE", target, "")
		if d := decode[addressAnswer](t, a.body); a.status != 200 || d.TransactionID != id || d.PartitionID != p.PartitionID {
			t.Errorf("delete: %d %s", a.status, a.body)
		}
	}
	w.expect("POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1,"transactionId":"`+strings.Repeat("x", 1<<16)+`"}]}`,
		400, `{"error":"bad body: transactionId exceeds 65535 bytes"}`)
}
