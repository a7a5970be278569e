package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/client"
	"github.com/skepmq/skep/log/fsck"
)

// traceOf is a trace as both lists have it.
type traceOf struct {
	ID          string          `json:"id"`
	Transaction string          `json:"transaction_id,omitempty"`
	PartitionID string          `json:"partition_id,omitempty"`
	Event       string          `json:"event_type"`
	Data        json.RawMessage `json:"data"`
	Group       string          `json:"consumer_group"`
	Worker      string          `json:"worker_id"`
	CreatedAt   string          `json:"created_at"`
	Queue       string          `json:"queue_name,omitempty"`
	Partition   string          `json:"partition_name,omitempty"`
	Payload     *string         `json:"message_payload,omitempty"`
	Names       []string        `json:"trace_names"`
}

type pagination struct {
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
}

type tracePage struct {
	Traces     []traceOf  `json:"traces"`
	Truncated  bool       `json:"truncated,omitempty"`
	Total      int        `json:"total"`
	Pagination pagination `json:"pagination"`
}

type traceName struct {
	Name     string `json:"trace_name"`
	Traces   int    `json:"trace_count"`
	Messages int    `json:"message_count"`
	LastSeen string `json:"last_seen"`
}

// trace notes something about a message, and returns the id of the note.
func (w *world) trace(partitionID, transaction, members string) string {
	w.t.Helper()
	a := w.call("POST", "/api/v1/traces", fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,%s}`, transaction, partitionID, members))
	got := decode[struct {
		Success bool   `json:"success"`
		TraceID string `json:"traceId"`
	}](w.t, a.body)
	if a.status != http.StatusCreated || !got.Success || !uuidPattern.MatchString(got.TraceID) {
		w.t.Fatalf("trace %s: %d %s", members, a.status, a.body)
	}
	return got.TraceID
}

func (w *world) tracesOf(partitionID, transaction string) []traceOf {
	w.t.Helper()
	return decode[struct {
		Traces    []traceOf `json:"traces"`
		Truncated bool      `json:"truncated,omitempty"`
	}](w.t, w.get("/api/v1/traces/"+partitionID+"/"+transaction)).Traces
}

func (w *world) tracesNamed(name, query string) tracePage {
	w.t.Helper()
	return decode[tracePage](w.t, w.get("/api/v1/traces/by-name/"+name+query))
}

func (w *world) traceNames(query string) (names []traceName, total int) {
	w.t.Helper()
	page := decode[struct {
		Names      []traceName `json:"trace_names"`
		Total      int         `json:"total"`
		Pagination pagination  `json:"pagination"`
	}](w.t, w.get("/api/v1/traces/names"+query))
	return page.Names, page.Total
}

func traceIDs(traces []traceOf) (ids []string) {
	for _, t := range traces {
		ids = append(ids, t.ID)
	}
	return ids
}

// partitionIDs pushes a message into each of some partitions of a queue, and returns their ids.
func (w *world) partitionIDs(queue string, names ...string) (ids []string) {
	w.t.Helper()
	for _, name := range names {
		w.queued(msg(queue, name, "t"))
		ids = append(ids, w.popFrom(queue, name, "consumerGroup=ids").PartitionID)
	}
	return ids
}

// The answers, letter by letter.
func TestG350Traces(t *testing.T) {
	w := open(t)
	p := w.partitionIDs("q", "p")[0]
	const none = "00000000-0000-8000-8000-000000000001"
	w.expect("GET", "/api/v1/traces/"+none+"/t", "", 200, `{"traces":[]}`)
	w.expect("GET", "/api/v1/traces/by-name/none", "", 200, `{"traces":[],"total":0,"pagination":{"limit":100,"offset":0}}`)
	w.expect("GET", "/api/v1/traces/names", "", 200, `{"trace_names":[],"total":0,"pagination":{"limit":50,"offset":0}}`)

	id := w.trace(strings.ToUpper(p), "t", `"consumerGroup":"g","eventType":"step","data": {"a": [1, "é"]} ,"traceNames":["x","y"],"workerId":"me"`)
	at := w.tracesOf(p, "t")[0].CreatedAt
	if !millisPattern.MatchString(at) {
		t.Errorf("created_at %q", at)
	}
	const middle = `,"event_type":"step","data":{"a": [1, "é"]},"consumer_group":"g","worker_id":"skep","created_at":`
	w.expect("GET", "/api/v1/traces/"+p+"/t", "", 200,
		`{"traces":[{"id":"`+id+`"`+middle+quote(at)+`,"trace_names":["x","y"]}]}`)
	w.expect("GET", "/api/v1/traces/by-name/x?limit=7&offset=0", "", 200,
		`{"traces":[{"id":"`+id+`","transaction_id":"t","partition_id":"`+p+`"`+middle+quote(at)+
			`,"queue_name":"q","partition_name":"p","message_payload":null,"trace_names":["x","y"]}],"total":1,"pagination":{"limit":7,"offset":0}}`)
	w.expect("GET", "/api/v1/traces/names?limit=1", "", 200,
		`{"trace_names":[{"trace_name":"x","trace_count":1,"message_count":1,"last_seen":`+quote(at)+`}],"total":2,"pagination":{"limit":1,"offset":0}}`)

	// Their directory is none that skep verify wonders about.
	w.stop()
	r, err := fsck.Verify(fsck.Options{Dir: w.dir})
	if err != nil || len(r.Findings) > 0 {
		t.Errorf("verify: %v %+v", err, r)
	}
}

// What is refused, and what is taken for what.
func TestG351WhatIsATrace(t *testing.T) {
	w := open(t)
	p := w.partitionIDs("q", "p")[0]
	const required, data = `{"error":"transactionId and partitionId are required"}`, `{"error":"data is required"}`
	for body, want := range map[string]string{
		`{}`:                                   required,
		`{"transactionId":"t","data":1}`:       required,
		`{"partitionId":"` + p + `","data":1}`: required,
		`{"transactionId":"","partitionId":"` + p + `","data":1}`: required,
		`{"transactionId":"t","partitionId":"","data":1}`:         required,
		`{"transactionId":7,"partitionId":"` + p + `","data":1}`:  required,
		`{"transactionId":"t","partitionId":"` + p + `"}`:         data,
		`{"transactionId":"t","partitionId":"nonsense"}`:          data,
		`[]`: `{"error":"bad body: the body is not an object"}`,
		`{`:  `{"error":"bad body: unexpected end at byte 1"}`,
		`{"transactionId":"t","partitionId":"` + p + `","data":{"a":}}`: `{"error":"bad body: unexpected '}' at byte 86"}`,
	} {
		w.expect("POST", "/api/v1/traces", body, 400, want)
	}
	if got := w.tracesOf(p, "t"); len(got) > 0 {
		t.Fatalf("kept: %+v", got)
	}
	for _, row := range []struct {
		members, data, group, event string
		names                       []string
	}{
		{`"data":null`, "null", queueMode, "info", []string{}},
		{`"data":-1.5e3`, "-1.5e3", queueMode, "info", []string{}},
		{`"data":"","consumerGroup":"","eventType":""`, `""`, queueMode, "info", []string{}},
		{`"data":[],"consumerGroup":null,"eventType":7,"traceNames":null`, "[]", queueMode, "info", []string{}},
		{`"data":true,"traceNames":"one"`, "true", queueMode, "info", []string{"one"}},
		{`"data":0,"traceNames":7`, "0", queueMode, "info", []string{}},
		{`"data":0,"traceNames":["a",7,null,"a",["b"],"c"]`, "0", queueMode, "info", []string{"a", "c"}},
		{`"data":{"\u0000":"\ud800"},"eventType":"\"é\"","consumerGroup":"g/h"`, `{"\u0000":"\ud800"}`, "g/h", `"é"`, []string{}},
	} {
		id := w.trace(p, "t", row.members)
		all := w.tracesOf(p, "t")
		got := all[len(all)-1]
		if got.ID != id || string(got.Data) != row.data || got.Group != row.group || got.Event != row.event || !slices.Equal(got.Names, row.names) {
			t.Errorf("%s: %+v, data %s", row.members, got, got.Data)
		}
	}
}

// A message need not exist; a partition id has to be one.
func TestG352PartitionIDs(t *testing.T) {
	w := open(t)
	const bad = `{"error":"partitionId is not a UUID"}`
	for _, id := range []string{"p", "00000000-0000-8000-8000-00000000000", "{00000000-0000-8000-8000-000000000001}", "00000000000080008000000000000001"} {
		w.expect("POST", "/api/v1/traces", `{"transactionId":"t","partitionId":"`+id+`","data":1}`, 400, bad)
		w.expect("GET", "/api/v1/traces/"+id+"/t", "", 400, bad)
	}
	const none = "00000000-0000-8000-8000-00000000abcd"
	id := w.trace(none, "a/b c", `"data":1,"traceNames":"x"`)
	for partition, transaction := range map[string]string{none: "a%2Fb%20c", strings.ToUpper(none): "a%2fb%20c"} {
		if got := w.tracesOf(partition, transaction); len(got) != 1 || got[0].ID != id {
			t.Errorf("%s of %s: %+v", transaction, partition, got)
		}
	}
	if page := w.tracesNamed("x", ""); len(page.Traces) > 0 || page.Total != 0 {
		t.Errorf("by name, of a partition that never was: %+v", page)
	}
}

// Bounds of a trace, and of the lists.
func TestG353Limits(t *testing.T) {
	w := open(t)
	p := w.partitionIDs("q", "p")[0]
	body := func(names ...string) string {
		b, err := json.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		return `{"transactionId":"t","partitionId":"` + p + `","data":1,"traceNames":` + string(b) + `}`
	}
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprint("name ", i))
	}
	const long, tooMany = `{"error":"a trace name exceeds 511 bytes","code":"name_too_long"}`, `{"error":"a trace has more than 64 names","code":"too_many_names"}`
	w.expect("POST", "/api/v1/traces", body(strings.Repeat("n", 512)), 400, long)
	w.expect("POST", "/api/v1/traces", body("ok", strings.Repeat("é", 256)), 400, long)
	w.expect("POST", "/api/v1/traces", body(many...), 400, tooMany)
	w.trace(p, "t", `"data":1,"traceNames":["`+strings.Join(append(many[:64:64], many[:64]...), `","`)+`"]`)
	w.trace(p, "t", `"data":2,"traceNames":"`+strings.Repeat("n", 511)+`"`)
	if got := w.tracesOf(p, "t"); len(got) != 2 || !slices.Equal(got[0].Names, many[:64]) || len(got[1].Names[0]) != 511 {
		t.Errorf("%+v", got)
	}
	if page := w.tracesNamed(strings.Repeat("n", 511), ""); page.Total != 1 {
		t.Errorf("by the longest name: %+v", page)
	}

	// A large one is kept as it is, one that is too large is refused.
	huge := quote(strings.Repeat("x", 1<<20-200))
	for range 18 {
		w.trace(p, "huge", `"traceNames":"huge","data":`+huge)
	}
	w.expect("POST", "/api/v1/traces", `{"transactionId":"t","partitionId":"`+p+`","data":`+quote(strings.Repeat("x", 1<<20))+`}`, 413, `{"error":"request body too large"}`)

	// A list ends where the answer is long enough, and goes on from there.
	for _, row := range []struct {
		path  string
		n     int
		ended string
	}{
		{p + "/huge", 16, `],"truncated":true}`},
		{"by-name/huge", 15, `],"truncated":true,"total":18,"pagination":{"limit":100,"offset":0}}`},
		{"by-name/huge?offset=15", 3, `],"total":18,"pagination":{"limit":100,"offset":15}}`},
	} {
		list := w.get("/api/v1/traces/" + row.path)
		if n := bytes.Count(list, []byte(`"data":`+huge+`,`)); n != row.n || !bytes.HasSuffix(list, []byte(row.ended)) {
			t.Errorf("%s: %d traces, to %s", row.path, n, list[max(0, len(list)-100):])
		}
	}
	for query, want := range map[string][2]int{
		"?limit=100000": {1000, 0}, "?limit=-1&offset=-1": {0, 0}, "?limit=x&offset=y": {100, 0}, "?offset=9223372036854775807": {100, 1 << 40},
	} {
		got := w.tracesNamed("none", query).Pagination
		if got.Limit != want[0] || got.Offset != want[1] {
			t.Errorf("%s: %+v", query, got)
		}
		w.get("/api/v1/traces/names" + query)
	}
}

// Traces come back after a restart and a kill; their lists are in the order in which they
// were sent.
func TestG354TracesStay(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		p := w.partitionIDs("q", "a", "b")
		var sent, named []string
		note := func() {
			for i := range 6 {
				id := w.trace(p[i%2], "t", fmt.Sprintf(`"data":%d,"traceNames":"n"`, i))
				if named = append(named, id); i%2 == 0 {
					sent = append(sent, id)
				}
			}
		}
		check := func() {
			w.t.Helper()
			if got := traceIDs(w.tracesOf(p[0], "t")); !slices.Equal(got, sent) {
				w.t.Errorf("of the message %v, want %v", got, sent)
			}
			page := w.tracesNamed("n", "?limit=1000")
			if got := traceIDs(page.Traces); !slices.Equal(got, named) || page.Total != len(named) {
				w.t.Errorf("by name %v of %d, want %v", got, page.Total, named)
			}
		}
		note()
		check()
		again()
		check()
		note()
		again()
		check()
	})
}

// By name: a page, and how many there are, without those whose partition is gone.
func TestG355ByName(t *testing.T) {
	w := open(t)
	p := append(w.partitionIDs("q", "a", "b"), w.partitionIDs("gone", "a")...)
	var all, left []string
	for i := range 12 {
		id := w.trace(p[i%3], fmt.Sprint(i), `"data":1,"traceNames":["n","other"]`)
		if all = append(all, id); i%3 != 2 {
			left = append(left, id)
		}
	}
	check := func(want []string) {
		t.Helper()
		for offset := range len(want) + 2 {
			page := w.tracesNamed("n", fmt.Sprintf("?limit=3&offset=%d", offset))
			at := min(offset, len(want))
			if got := traceIDs(page.Traces); !slices.Equal(got, want[at:min(at+3, len(want))]) || page.Total != len(want) {
				t.Errorf("offset %d: %v of %d", offset, got, page.Total)
			}
		}
		if page := w.tracesNamed("n", "?limit=0"); len(page.Traces) > 0 || page.Total != len(want) {
			t.Errorf("no limit: %+v", page)
		}
	}
	check(all)
	w.deleteQueue("gone")
	check(left)
	if got := w.tracesOf(p[2], "2"); len(got) != 1 || got[0].ID != all[2] {
		t.Errorf("of the message itself: %+v", got)
	}
	w.partitionIDs("gone", "a") // the same name is another partition
	check(left)
}

// Names: those used last first, with the traces and the different messages of each.
func TestG356Names(t *testing.T) {
	w := open(t)
	p := w.partitionIDs("q", "a", "b")
	for i := range 10 {
		w.trace(p[i%2], fmt.Sprint("t", i/4), fmt.Sprintf(`"data":1,"traceNames":["all","n%d"]`, i%3))
		w.clock.advance(time.Second)
	}
	names, total := w.traceNames("")
	for i := range names {
		if !millisPattern.MatchString(names[i].LastSeen) {
			t.Errorf("last_seen %q", names[i].LastSeen)
		}
		names[i].LastSeen = ""
	}
	// Of the numbers from 0 to 9, three are 1 modulo 3: 1, 4 and 7, of the messages 0, 1 and 1.
	want := []traceName{{"all", 10, 3, ""}, {"n0", 4, 3, ""}, {"n2", 3, 3, ""}, {"n1", 3, 2, ""}}
	if !slices.Equal(names, want) || total != 4 {
		t.Errorf("%+v of %d, want %+v", names, total, want)
	}
	if page, total := w.traceNames("?limit=2&offset=1"); len(page) != 2 || page[0].Name != "n0" || page[1].Name != "n2" || total != 4 {
		t.Errorf("the second page: %+v of %d", page, total)
	}
	if page, total := w.traceNames("?offset=4"); len(page) != 0 || total != 4 {
		t.Errorf("behind the last: %+v of %d", page, total)
	}
}

// A torn end and a damaged trace cost what they hit, and stop nothing.
func TestG353DamagedTraces(t *testing.T) {
	w := open(t)
	p := w.partitionIDs("q", "p")[0]
	var ids []string
	for i := range 3 {
		ids = append(ids, w.trace(p, "t", fmt.Sprintf(`"data":"trace %d","traceNames":"n"`, i)))
	}
	w.stop()
	files, err := filepath.Glob(filepath.Join(w.dir, fsck.TracesName, "*.traces"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	b[strings.Index(string(b), "trace 1")] ^= 1
	if err := os.WriteFile(files[0], b[:len(b)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	later := w.trace(p, "t", `"data":3,"traceNames":"n"`)
	for range 2 {
		if got, want := traceIDs(w.tracesOf(p, "t")), []string{ids[0], later}; !reflect.DeepEqual(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if page := w.tracesNamed("n", ""); page.Total != 2 || len(page.Traces) != 2 {
			t.Errorf("by name %+v", page)
		}
		w.restart()
	}
}

// With a retention traces go by the day, without one they stay.
func TestG353TraceRetention(t *testing.T) {
	for _, days := range []int{0, 2} {
		t.Run(fmt.Sprint(days, " days"), func(t *testing.T) {
			w := open(t, func(w *world) { w.server.TraceRetention = time.Duration(days) * 24 * time.Hour })
			const p = "00000000-0000-8000-8000-000000000001"
			left := []string{}
			for day := range 6 {
				w.restart()
				w.running.server.RollMetrics()
				left = append(left, w.trace(p, "t", `"data":1`))
				if days > 0 && day >= days {
					left = left[1:]
				}
				if got := traceIDs(w.tracesOf(p, "t")); !slices.Equal(got, left) {
					t.Fatalf("on day %d: %v, want %v", day, got, left)
				}
				w.clock.advance(24*time.Hour + time.Minute)
			}
		})
	}
}

// Many at once.
func TestG353Concurrent(t *testing.T) {
	w := open(t)
	p := w.partitionIDs("q", "p")[0]
	together(8, func(i int) {
		for n := range 20 {
			id := w.trace(p, fmt.Sprint(i), `"data":1,"traceNames":"n"`)
			if got := w.tracesOf(p, fmt.Sprint(i)); len(got) != n+1 || got[n].ID != id {
				t.Errorf("%d: %+v", i, got)
			}
			if total := w.tracesNamed("n", "?limit=1").Total; total <= n {
				t.Errorf("%d by name", total)
			}
			w.traceNames("")
		}
	})
	if names, _ := w.traceNames(""); len(names) != 1 || names[0].Traces != 160 || names[0].Messages != 8 {
		t.Errorf("%+v", names)
	}
}

// The Go client notes, and finds what it has noted.
func TestG350GoClientTraces(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "t"))
	c, ctx := w.goClient(), t.Context()
	b, err := c.Queue("q").Group("g").Pop(ctx)
	if err != nil || len(b.Messages) != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	m := b.Messages[0]
	id, err := c.Trace(ctx, m, client.Trace{Names: []string{"a/b"}, Data: "done"})
	if err != nil {
		t.Fatal(err)
	}
	of, err := c.TracesOf(ctx, m.PartitionID, m.TransactionID)
	if err != nil || len(of.Traces) != 1 || of.Traces[0].ID != id || of.Traces[0].Group != "g" || string(of.Traces[0].Data) != `"done"` {
		t.Errorf("%+v, %v", of, err)
	}
	named, err := c.TracesNamed(ctx, "a/b", 0, 0)
	if err != nil || named.Total != 1 || named.Traces[0].Queue != "q" || named.Traces[0].TransactionID != "t" {
		t.Errorf("%+v, %v", named, err)
	}
	names, total, err := c.TraceNames(ctx, 0, 0)
	if err != nil || total != 1 || names[0].Name != "a/b" || names[0].Traces != 1 || names[0].Messages != 1 {
		t.Errorf("%+v of %d, %v", names, total, err)
	}
}
