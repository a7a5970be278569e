package acceptance

import (
	"strings"
	"testing"
)

func (w *world) refuseConfigure(body, want string) {
	w.t.Helper()
	a := w.call("POST", "/api/v1/configure", body)
	if e := decode[errorAnswer](w.t, a.body); a.status != 400 || !strings.HasPrefix(e.Error, want) {
		w.t.Errorf("configure %s: %d %s, want 400 %q", body, a.status, a.body, want)
	}
}

func TestM500QueueIsRequired(t *testing.T) {
	w := open(t)
	for _, body := range []string{`{}`, `{"queue":null}`, `{"queue":7}`, `{"queue":["q"]}`, `{"name":"q","options":{}}`} {
		w.refuseConfigure(body, "queue is required")
	}
	if q := w.queues(); len(q) > 0 {
		t.Errorf("queues %+v", q)
	}
	if c := w.configureRaw(`{"queue":""}`); c.Queue != "" {
		t.Errorf("%+v", c)
	}
}

func TestM501WhereOptionsStand(t *testing.T) {
	w := open(t)
	for _, row := range []struct {
		body            string
		leaseTime       int64
		namespace, task string
	}{
		{`{"queue":"q","leaseTime":7}`, 7, "", ""},
		{`{"queue":"q","options":{"leaseTime":7}}`, 7, "", ""},
		{`{"queue":"q","options":null,"leaseTime":7}`, 7, "", ""},
		{`{"queue":"q","namespace":"n","task":"t","options":{"leaseTime":7}}`, 7, "n", "t"},
		{`{"queue":"q","namespace":null,"task":null,"options":{"leaseTime":7}}`, 7, "", ""},
		{`{"queue":"q","namespace":"","task":"","options":{"namespace":"n","task":"t"}}`, 300, "n", "t"},
		{`{"queue":"q","options":{"namespace":"n","task":"t"}}`, 300, "n", "t"},
		{`{"queue":"q","namespace":"n","task":"t"}`, 300, "n", "t"},
		{`{"queue":"q","options":{"leaseTime":null,"unknown":[1]},"extra":{}}`, 300, "", ""},
	} {
		c := w.configureRaw(row.body)
		if c.Options.LeaseTime != row.leaseTime || c.Namespace != row.namespace || c.Task != row.task {
			t.Errorf("%s: leaseTime %d, namespace %q, task %q", row.body, c.Options.LeaseTime, c.Namespace, c.Task)
		}
	}
}

// M-502: labels that a push derived go as well; M-504: the queue stays what it is.
func TestM502LabelsAreReplaced(t *testing.T) {
	w := open(t)
	w.queued(msg("billing.invoice", "p", "a"), msg("billing.invoice", "p", "b"))
	p := w.popFrom("billing.invoice", "p", "batch=1")
	id := w.queue("billing.invoice").ID
	c := w.configure("billing.invoice", `{"retryLimit":9}`)
	if c.Namespace != "" || c.Task != "" || c.QueueID != id || c.Options.LeaseTime != 300 {
		t.Errorf("configured %+v, queue id was %s", c, id)
	}
	w.nothing(w.discover("namespace=billing", "consumerGroup=g"))
	w.nothing(w.popFrom("billing.invoice", "p")) // the lease is untouched
	w.ackAll("", p)
	w.want(w.popFrom("billing.invoice", "p"), "b")
	if d := w.queue("billing.invoice"); len(d.Partitions) != 1 || d.Totals.Total != 2 {
		t.Errorf("detail %+v", d)
	}
}

func TestM503Modes(t *testing.T) {
	w := open(t)
	w.configureRaw(`{"queue":"q","namespace":"n","task":"t","options":` + allOptions + `}`)
	c := w.configureRaw(`{"queue":"q","mode":"merge","options":{"leaseTime":9,"priority":null}}`)
	want := all
	want.LeaseTime, want.Priority = 9, 0
	if c.Options != want || c.Namespace != "n" || c.Task != "t" {
		t.Errorf("merged %+v, want %+v", c, want)
	}
	c = w.configureRaw(`{"queue":"q","mode":"replace","options":{"leaseTime":9}}`)
	want = defaults
	want.LeaseTime = 9
	if c.Options != want || c.Namespace != "" {
		t.Errorf("replaced %+v, want %+v", c, want)
	}
	if c = w.configureRaw(`{"queue":"new","mode":"merge","options":{"leaseTime":9}}`); c.Options != want {
		t.Errorf("merged into a new queue %+v, want %+v", c, want)
	}
	if c = w.configureRaw(`{"queue":"q","mode":null}`); c.Options != defaults {
		t.Errorf("mode null %+v", c)
	}
	for _, mode := range []string{`"Merge"`, `""`, `7`, `{}`} {
		w.refuseConfigure(`{"queue":"q","mode":`+mode+`}`, `mode must be "merge" or "replace", got `)
	}
}

// D-17: what can be cast is, and the rest is refused without a change.
func TestM506Values(t *testing.T) {
	w := open(t)
	before := w.configure("q", `{"leaseTime":77}`)
	for in, want := range map[string]int64{
		`5`: 5, `5.0`: 5, `"5"`: 5, `1e2`: 100, `-3`: -3, `true`: 1, `false`: 0, `0`: 0, `9007199254740993`: 9007199254740993, `null`: 3,
	} {
		if got := w.configure("r", `{"retryLimit":`+in+`}`).Options.RetryLimit; got != want {
			t.Errorf("retryLimit %s: %d, want %d", in, got, want)
		}
	}
	for in, want := range map[string]bool{`true`: true, `"true"`: true, `1`: true, `false`: false, `"false"`: false, `0`: false} {
		if got := w.configure("r", `{"retentionEnabled":`+in+`}`).Options.RetentionEnabled; got != want {
			t.Errorf("retentionEnabled %s: %t, want %t", in, got, want)
		}
	}
	for _, bad := range []string{
		`{"leaseTime":"soon"}`, `{"leaseTime":1.5}`, `{"leaseTime":{}}`, `{"leaseTime":1e30}`, `{"deadLetterQueue":"yes"}`, `{"deadLetterQueue":2}`,
		`{"namespace":7}`, `{"retentionSinkHold":"a/b"}`, `{"retentionSinkHoldMaxSeconds":59}`, `{"retentionSinkHoldMaxSeconds":31536001}`, `7`, `[]`,
	} {
		w.refuseConfigure(`{"queue":"q","options":`+bad+`}`, "configure failed: ")
	}
	if d := w.queue("q"); d.Options.options != before.Options {
		t.Errorf("options %+v, want %+v", d.Options, before.Options)
	}
}

func TestM520EncryptionWithoutAKeyWarns(t *testing.T) {
	w := open(t)
	if c := w.configure("q", `{"encryptionEnabled":true}`); !c.Options.EncryptionEnabled || c.Warning == "" {
		t.Errorf("%+v", c)
	}
	w.queued(msg("q", "p", "a"))
	if p := w.pop("q"); string(p.Messages[0].Data) != `"a"` {
		t.Errorf("data %s", p.Messages[0].Data)
	}
}

func TestM505OptionsAcrossRestarts(t *testing.T) {
	w := open(t)
	id := w.configureRaw(`{"queue":"q","namespace":"n","task":"t","options":` + allOptions + `}`).QueueID
	for _, again := range []func(){w.crash, w.restart, w.restart} {
		again()
		d := w.queue("q")
		if d.Options.options != all || d.Namespace != "n" || d.Task != "t" || d.ID != id {
			t.Errorf("detail %+v", d)
		}
	}
}

// Seconds are stored as given, so they may be more than a number of milliseconds holds.
func TestM506SecondsOfAnySize(t *testing.T) {
	for _, seconds := range []string{"9223372036854775807", "9223372036854775", "92233720368547758"} {
		t.Run(seconds, func(t *testing.T) {
			w := open(t, retaining)
			w.configure("keyed", `{"dedupWindowSeconds":`+seconds+`}`)
			id := w.queued(msg("keyed", "Default", "a"))[0]
			w.wantDuplicate(msg("keyed", "Default", "a"), id)
			w.rolledBack(bundled(pushing(msg("keyed", "Default", "a"))), "duplicate",
				`QDUP duplicate messages in queue "keyed" partition "Default"; transaction rolled back`)

			for _, option := range []string{"delayedProcessing", "windowBuffer"} {
				w.configure(option, `{"`+option+`":`+seconds+`}`)
				w.queued(msg(option, "p", "a"))
				w.nothing(w.pop(option))
				w.idle("/api/v1/pop/queue/"+option, []string{"consumerGroup=latest", "conflation=true"}, `{"messages":[],"conflation":true}`)
			}
			for _, option := range []string{"retentionSeconds", "completedRetentionSeconds", "maxWaitTimeSeconds", "leaseTime"} {
				w.configure(option, `{"retentionEnabled":true,"`+option+`":`+seconds+`}`)
				w.queued(msg(option, "p", "a"))
				w.want(w.pop(option), "a")
			}
			w.cycle()
			w.nothing(w.pop("leaseTime"))
			for _, q := range w.queues() {
				if q.Name != "hourglass" && q.Messages.Total != 1 {
					t.Errorf("%s: %+v", q.Name, q.Messages)
				}
			}
		})
	}
}
