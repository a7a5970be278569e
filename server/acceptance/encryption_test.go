package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/broker/envelope"
	"github.com/skepmq/skep/server/testkit"
)

func keys(n byte, previous ...byte) *envelope.Keys {
	var old []envelope.Key
	for _, p := range previous {
		old = append(old, envelope.Key{0: p})
	}
	return envelope.New(envelope.Key{0: n}, old...)
}

// withKey loads an encryption key.
func withKey(w *world) { w.broker.Keys = keys(1) }

// marked is an item whose payload no file may hold; its id may.
func marked(queue, partition, id string) item {
	return item{queue, partition, id, json.RawMessage(`{"secret":"honey-` + id + `"}`)}
}

// inTheClear returns the files in which some marked payload stands.
func (w *world) inTheClear() (files []string) {
	w.t.Helper()
	tree, err := testkit.ReadStill(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for name, content := range tree {
		if bytes.Contains(content, []byte("honey-")) {
			files = append(files, name)
		}
	}
	return files
}

// sealedOnly fails when a marked payload stands in some file.
func (w *world) sealedOnly(after string) {
	w.t.Helper()
	if files := w.inTheClear(); len(files) > 0 {
		w.t.Errorf("after %s plaintext is in %v", after, files)
	}
}

// reads checks that a message is delivered as it was pushed.
func (w *world) reads(p *popAnswer, items ...item) *popAnswer {
	w.t.Helper()
	if p == nil || len(p.Messages) != len(items) {
		w.t.Fatalf("popped %v, want %d messages", p.ids(), len(items))
	}
	for i, m := range p.Messages {
		if string(m.Data) != string(items[i].Payload) {
			w.t.Errorf("message %s: %s, want %s", m.TransactionID, m.Data, items[i].Payload)
		}
	}
	return p
}

// G-822: nothing that was pushed to an encrypted queue is in the clear in any file, on
// whatever way it came there; and all of it is delivered as it was pushed.
func TestG822NothingInTheClear(t *testing.T) {
	for _, name := range []string{"crash", "segments, crash"} {
		row := comebacks[name]
		t.Run(name, func(t *testing.T) {
			w := open(t, withKey, row.option)
			for _, q := range []string{"q", "other"} {
				w.configure(q, `{"encryptionEnabled":true,"retryLimit":0}`)
			}
			again := func(step string) {
				w.sealedOnly(step)
				row.again(w)
				w.sealedOnly(step + " and a start")
			}
			// Small and many, one large, one with an id that the broker mints, repeats.
			large := item{"q", "p", "large", json.RawMessage(`["honey-` + strings.Repeat("x", 300<<10) + `"]`)}
			minted := marked("q", "p", "")
			w.queued(marked("q", "p", "a"), marked("q", "p2", "b"), large, minted)
			w.push(marked("q", "p", "a"), marked("q", "p", "c"))
			again("a push")
			w.committed(bundled(pushing(marked("q", "p", "t"), marked("other", "p", "t"))))
			again("a transaction")
			w.maintain(true)
			w.buffered(marked("q", "p", "s"), marked("other", "new", "s"))
			again("a push that is spooled")
			w.drained()
			again("the drain")

			p := w.reads(w.popFrom("q", "p"), marked("q", "p", "a"), large, minted, marked("q", "p", "c"), marked("q", "p", "t"), marked("q", "p", "s"))
			w.buried(w.ack("", p.Messages[0].as("failed").because("no luck")))
			again("a dead letter")
			p = w.popFrom("q", "p")
			w.committed(bundled(acking("", p.Messages[0].as("dlq")), pushing(marked("other", "p", "moved"))))
			again("a dead letter of a transaction")
			if d := w.deadLetters("queue=q"); len(d) != 2 || string(d[0].Data) != string(large.Payload) || !d[0].Encrypted || string(d[1].Data) != `{"secret":"honey-a"}` || d[1].Error != "no luck" {
				t.Errorf("dead letters %.300v", d)
			}
			w.retry(w.deadLetters("queue=q")[1])
			w.replay(w.deadLetters("queue=q")[0].ID, `{"queue":"other","partition":"replayed"}`)
			again("replays")
			w.reads(w.popFrom("q", "p", "consumerGroup=g"), marked("", "", "a"), large, minted, marked("", "", "c"), marked("", "", "t"), marked("", "", "s"), marked("", "", "a"))
			w.reads(w.popFrom("other", "p"), marked("", "", "t"), marked("", "", "moved"))
			w.reads(w.popFrom("other", "new"), marked("", "", "s"))
			w.reads(w.popFrom("other", "replayed"), large)
			for _, m := range w.messages("queue=q").Messages {
				if !m.Encrypted || !strings.Contains(string(m.Data), "honey-") {
					t.Errorf("%s: listed %.200s, encrypted %v", m.TransactionID, m.Data, m.Encrypted)
				}
			}
			w.filed()
			w.sealedOnly("everything")

			// That the search finds what is there.
			w.queued(marked("plain", "p", "a"))
			if len(w.inTheClear()) == 0 {
				t.Error("a payload in the clear is not found")
			}
		})
	}
}

// G-823: whatever the queue asks for now, and whichever key there is.
func TestG823Decryption(t *testing.T) {
	w := open(t, withKey)
	w.configure("q", `{"encryptionEnabled":true,"retryLimit":0}`)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
	letter := w.letter("q", "dead", "d", "g")
	w.configure("q", `{"encryptionEnabled":false}`)
	w.queued(msg("q", "p", "plain"))
	stored := func(m json.RawMessage) string {
		var e struct{ Encrypted, Iv, AuthTag string }
		if json.Unmarshal(m, &e) == nil && e.Encrypted != "" && e.Iv != "" && e.AuthTag != "" {
			return "sealed"
		}
		return string(m)
	}
	for _, row := range []struct {
		name   string
		keys   *envelope.Keys
		opened bool
	}{
		{"the key", keys(1), true},
		{"no key", nil, false},
		{"another key", keys(2), false},
		{"another, and the key as a previous one, G-825", keys(2, 3, 1), true},
	} {
		w.broker.Keys = row.keys
		w.restart()
		want := map[string]string{"a": `"a"`, "b": `"b"`, "d": `"d"`, "plain": `"plain"`}
		if !row.opened {
			want["a"], want["b"], want["d"] = "sealed", "sealed", "sealed"
		}
		for _, m := range w.popFrom("q", "p", "consumerGroup="+row.name).Messages {
			if got := stored(m.Data); got != want[m.TransactionID] {
				t.Errorf("%s: popped %s, want %s", row.name, got, want[m.TransactionID])
			}
		}
		for _, m := range w.messages("queue=q").Messages {
			d := w.message(m.PartitionID, m.TransactionID)
			encrypted := m.TransactionID != "plain"
			if got := stored(m.Data); got != want[m.TransactionID] || stored(d.Data) != got || string(d.Data) != string(d.Payload) || m.Encrypted != encrypted || d.Encrypted != encrypted {
				t.Errorf("%s: %s listed %s, described %s, encrypted %v and %v, want %s", row.name, m.TransactionID, m.Data, d.Data, m.Encrypted, d.Encrypted, want[m.TransactionID])
			}
		}
		if n := w.scrape()["queen_undecrypted_payloads_total"]; (n == 0) != row.opened {
			t.Errorf("%s: %v payloads counted that could not be decrypted", row.name, n)
		}
		if d := w.deadLetters(); len(d) != 1 || d[0].ID != letter.ID || stored(d[0].Data) != want["d"] || d[0].Encrypted != row.opened {
			t.Errorf("%s: dead letters %+v", row.name, d)
		}
	}
}

// G-820, G-823: what another broker has encrypted is read with its key, wherever it was pushed;
// in an encrypted queue it is a payload like any other. What only looks so is left alone.
func TestG820Interoperability(t *testing.T) {
	var file struct {
		Key     string
		Vectors []struct{ Payload, Envelope string }
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "broker", "envelope", "testdata", "vectors.json"))
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err := envelope.ParseKey(file.Key)
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, func(w *world) { w.broker.Keys = envelope.New(key) })
	w.configure("encrypted", `{"encryptionEnabled":true}`)
	payloads := []string{
		`{"encrypted":"YQ==","iv":"AAAAAAAAAAAAAAAAAAAAAA==","authTag":"AAAAAAAAAAAAAAAAAAAAAA=="}`,
		`{"encrypted":"","iv":"","authTag":""}`, `{"encrypted":true,"iv":1,"authTag":null}`, `null`, `""`,
		file.Vectors[0].Envelope[:len(file.Vectors[0].Envelope)-1] + `,"more":1}`,
	}
	odd := len(payloads)
	for _, v := range file.Vectors {
		payloads = append(payloads, v.Envelope)
	}
	for i, payload := range payloads {
		for _, q := range []string{"plain", "encrypted"} {
			want := payload
			if q == "plain" && i >= odd {
				want = file.Vectors[i-odd].Payload
			}
			w.queued(item{q, fmt.Sprint(i), "", json.RawMessage(payload)})
			p := w.popFrom(q, fmt.Sprint(i))
			if got := string(p.Messages[0].Data); got != want {
				t.Errorf("%s: pushed %.200s, popped %.200s", q, payload, got)
			}
			if m := w.message(p.PartitionID, p.Messages[0].TransactionID); m.Encrypted != (q == "encrypted") || string(m.Data) != want {
				t.Errorf("%s: described %.200s, encrypted %v", q, m.Data, m.Encrypted)
			}
		}
	}
}

// G-314: a replay is stored as its destination asks, whatever the dead letter was; without the
// key it moves as it is.
func TestG314ReplayedAsTheDestinationAsks(t *testing.T) {
	w := open(t, withKey)
	w.configure("sealed", `{"encryptionEnabled":true}`)
	w.configure("plain", `{}`)
	moved := map[string]string{} // transaction ids in their queues, by where they come from
	replayed := func(d deadLetter, to string) {
		moved[d.TransactionID] = w.replay(d.ID, `{"queue":"`+to+`"}`).ReplayedAs.TransactionID
	}
	stored := func(queue, from string) storedMessage {
		for _, m := range w.messages("queue=" + queue).Messages {
			if m.TransactionID == moved[from] {
				return m
			}
		}
		t.Fatalf("%s is not in %s", from, queue)
		return storedMessage{}
	}
	queues := []string{"sealed", "plain"}
	for _, from := range queues {
		for _, to := range queues {
			replayed(w.letter(from, "p", from+" to "+to, "g"), to)
		}
	}
	one, two := w.letter("sealed", "p", "one", "g"), w.letter("sealed", "p", "two", "g")
	w.broker.Keys = keys(2)
	w.restart()
	replayed(one, "plain")
	replayed(two, "sealed")
	for id, queue := range map[string]string{"one": "plain", "two": "sealed"} {
		if m := stored(queue, id); !m.Encrypted || !strings.Contains(string(m.Data), `"authTag"`) {
			t.Errorf("%s, with another key: %s, encrypted %v", id, m.Data, m.Encrypted)
		}
	}
	w.broker.Keys = keys(2, 1)
	w.crash()
	for id, queue := range map[string]string{"one": "plain", "two": "sealed"} {
		if m := stored(queue, id); !m.Encrypted || string(m.Data) != quote(id) {
			t.Errorf("%s, with the key again: %s, encrypted %v", id, m.Data, m.Encrypted)
		}
	}
	for _, from := range queues {
		for _, to := range queues {
			id := from + " to " + to
			if m := stored(to, id); m.Encrypted != (to == "sealed") || string(m.Data) != quote(id) {
				t.Errorf("%s: %s, encrypted %v", id, m.Data, m.Encrypted)
			}
		}
	}
}

// G-822: what the spool holds is as its queue asked when it was pushed, and is encrypted at the
// latest when it is drained.
func TestG822Spool(t *testing.T) {
	w := open(t, withKey)
	w.configure("on", `{"encryptionEnabled":true}`)
	w.configure("off", `{"encryptionEnabled":true}`)
	w.configure("later", `{}`)
	w.maintain(true)
	for _, q := range []string{"on", "off", "later"} {
		w.buffered(marked(q, "p", q), marked(q, "p", ""))
	}
	w.configure("off", `{}`)
	w.configure("later", `{"encryptionEnabled":true}`)
	w.restart()
	w.drained()
	for _, q := range []string{"on", "off", "later"} {
		w.reads(w.popFrom(q, "p"), marked(q, "p", q), marked(q, "p", ""))
		for _, m := range w.messages("queue=" + q).Messages {
			if !m.Encrypted {
				t.Errorf("%s: %s is in the clear", q, m.TransactionID)
			}
		}
	}
}

// G-823: what is rewritten and repaired stays encrypted, and says so: all that these look at is
// which bytes belong to which message.
func TestG823AfterRewriteAndRepair(t *testing.T) {
	w := open(t, withKey, retaining, eagerCheckpoints, func(w *world) { w.broker.SegmentBytes = 64 << 10 })
	w.configure("q", `{"encryptionEnabled":true,"retentionEnabled":true,"completedRetentionSeconds":5}`)
	kept := []item{marked("q", "slow", "a"), marked("q", "slow", "b")}
	w.queued(kept...)
	filler := json.RawMessage(quote(strings.Repeat("f", 2000)))
	for i := range 40 {
		w.queued(item{"q", fmt.Sprint(i), "", filler})
		w.popFrom("q", fmt.Sprint(i), "autoAck=true")
	}
	w.filed()
	w.clock.advance(6 * time.Second)
	await(t, "a rewrite", func() bool { return w.running.broker.Stats().RewrittenSegments > 0 })
	w.queued(msg("other", "p", "rotten-apple"))
	w.filed("rotten-apple")
	w.stop()
	w.rot("rotten-apple")
	w.repair(true)
	w.start()
	w.reads(w.popFrom("q", "slow"), kept...)
	for _, m := range w.messages("queue=q", "partition=slow").Messages {
		if !m.Encrypted {
			t.Errorf("%s is in the clear", m.TransactionID)
		}
	}
	w.sealedOnly("a rewrite and a repair")
}

// M-160, G-821: neither deduplication nor conflation minds; and without a key, or in a queue
// that does not ask for it, payloads are stored as they are.
func TestM160DeduplicationAndConflation(t *testing.T) {
	w := open(t, withKey)
	w.configure("q", `{"encryptionEnabled":true}`)
	first := w.queued(marked("q", "p", "a"))
	again := w.push(item{"q", "p", "a", json.RawMessage("2")}, marked("q", "p", "b"), marked("q", "p", "b"))
	if again[0].Status != "duplicate" || again[0].MessageID != first[0] || again[1].Status != "queued" || again[2].Status != "duplicate" {
		t.Errorf("%+v", again)
	}
	w.rolledBack(bundled(pushing(marked("q", "p", "a"))), "duplicate", isDuplicate("q", "p"))
	if p := w.call("GET", "/api/v1/pop/queue/q?conflation=true&consumerGroup=newest", ""); !bytes.Contains(p.body, []byte(`"data":{"secret":"honey-b"}`)) {
		t.Errorf("newest: %s", p.body)
	}
	w.reads(w.popFrom("q", "p"), marked("q", "p", "a"), marked("q", "p", "b"))
	w.sealedOnly("all that")
	w.queued(marked("plain", "p", "a"))
	if len(w.inTheClear()) == 0 {
		t.Error("a queue that does not ask for it is encrypted")
	}
}

// G-824: without a key a configuration warns; what is pushed is stored as it is, or, if
// encryption is required, refused on every way in.
func TestG824Required(t *testing.T) {
	for _, required := range []bool{false, true} {
		t.Run(fmt.Sprint(required), func(t *testing.T) {
			w := open(t, func(w *world) { w.broker.EncryptionRequired = required })
			letter := w.letter("plain", "p", "d", "g")
			warning := w.configure("q", `{"encryptionEnabled":true}`).Warning
			if strings.Contains(warning, "refused") != required || strings.Contains(warning, "plaintext") == required {
				t.Errorf("warning %q", warning)
			}
			status := map[bool]int{true: 500, false: 201}[required]
			const push = `{"items":[{"queue":"plain","payload":1},{"queue":"q","payload":1}]}`
			for _, on := range []bool{false, true} {
				w.maintain(on)
				if a := w.call("POST", "/api/v1/push", push); a.status != status {
					t.Errorf("push: %d %s", a.status, a.body)
				}
			}
			w.drained()
			transaction := `{"operations":[{"type":"push","items":[{"queue":"q","payload":1}]}]}`
			if a := w.call("POST", "/api/v1/transaction", transaction); required != (a.status == 500) {
				t.Errorf("transaction: %d %s", a.status, a.body)
			}
			a := w.call("POST", "/api/v1/dlq/"+letter.ID+"/replay", `{"queue":"q"}`)
			if required != (a.status == 500 && bytes.Contains(a.body, []byte(`"dlqRowRemoved":false`))) {
				t.Errorf("replay: %d %s", a.status, a.body)
			}
			if required {
				const refusal = `{"error":"the queue is encrypted, and no encryption key is loaded","code":"no_encryption_key"}`
				w.expect("POST", "/api/v1/push", push, 500, refusal)
				w.total("q", 0)
				w.total("plain", 1)
				w.queued(msg("plain", "p", "others go on"))
				w.broker.Keys = keys(1)
				w.restart()
				if a := w.configure("q", `{"encryptionEnabled":true}`); a.Warning != "" {
					t.Errorf("with a key: %s", a.Warning)
				}
				w.queued(marked("q", "p", "a"))
				w.sealedOnly("a push with the key")
				return
			}
			w.total("q", 4)
			for _, m := range w.messages("queue=q").Messages {
				if m.Encrypted {
					t.Errorf("%s is encrypted without a key", m.TransactionID)
				}
			}
		})
	}
}
