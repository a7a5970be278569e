package acceptance

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// awkward are names that brokers have stumbled over. Some differ only in their spelling.
var awkward = []string{
	"a/b", "a%2Fb", "a%252Fb", "..", "%2e%2e", ".", "a b", "a+b", "a%20b", "?x=1", "#", "&", "=", ";", ",",
	strings.Repeat("😀", 60), "caf\u00e9", "cafe\u0301", "שלום", "\u202eabc", "abc\u202c", strings.Repeat("x", 255),
	`"`, `'`, `\`, "", "\x00", "a\x00b", "\n", "\t", "orders/../../api", "C:\\x", "con", "-", "~", "*", "$(id)",
	"Default", "default", "null", "0", "\ufeff", "\u2028",
}

// Every name goes through push, pop, ack, lists, dead letters, deletion and a restart beside
// all others, and stays itself; none of them is a file.
func TestP26NamesWithSpecialCharacters(t *testing.T) {
	w := open(t, eagerCheckpoints)
	for i, name := range awkward {
		first := name + "1"
		pushed := w.pushRaw(fmt.Sprintf(`{"items":[{"queue":%[1]s,"partition":%[1]s,"transactionId":%[2]s,"payload":1},`+
			`{"queue":"all","partition":%[1]s,"transactionId":%[2]s,"payload":1},{"queue":%[1]s,"partition":%[1]s,"transactionId":%[1]s,"payload":1}]}`,
			quote(name), quote(first)))
		group, second := "consumerGroup="+name, pushed[2].TransactionID // of no name the broker makes one
		p := w.want(w.popFrom(name, name, group, "batch=1"), first)
		w.ok(true, w.ack(name, p.Messages[0].as("completed")))
		p = w.want(w.pop(name, group), second)
		w.buried(w.ack(name, p.Messages[0].as("dlq").because(name)))
		if i%10 == 9 {
			w.crash()
		}
	}
	w.restart()
	var queues, groups, partitions []string
	for _, q := range w.queues("limit=1000") {
		queues = append(queues, q.Name)
	}
	sameSet(t, "queues", queues, append(slices.Clone(awkward), "all")...)
	for _, p := range w.queue("all").Partitions {
		partitions = append(partitions, p.Name)
	}
	sameSet(t, "partitions", partitions, awkward...)
	for _, g := range w.groups() {
		groups = append(groups, g.Name)
	}
	sameSet(t, "groups", groups, append(slices.DeleteFunc(slices.Clone(awkward), func(s string) bool { return s == "" }), queueMode)...)

	for _, name := range awkward {
		d := w.queue(name)
		if len(d.Partitions) != 1 || d.Partitions[0].Name != name || d.Totals.Total != 2 || d.Totals.DeadLetter != 1 {
			t.Errorf("%q: %+v", name, d)
		}
		// An empty filter matches all.
		letters := slices.DeleteFunc(w.deadLetters("queue="+name, "partition="+name, "consumerGroup="+group(name)),
			func(d deadLetter) bool { return d.Queue != name })
		if len(letters) != 1 || letters[0].Queue != name || letters[0].Partition != name {
			t.Fatalf("%q: dead letters %+v", name, letters)
		}
		w.retry(letters[0])
		w.want(w.pop(name, "consumerGroup="+name), "dlq:"+letters[0].ID)
		w.seek(group(name), name, toEnd)
		w.nothing(w.pop(name, "consumerGroup="+name))
		w.want(w.popFrom("all", name), name+"1")
		if a := w.deleteQueue(name); !a.Deleted {
			t.Errorf("%q: %+v", name, a)
		}
	}
	if q := w.queues(); len(q) != 1 || q[0].Name != "all" {
		t.Errorf("left %+v", q)
	}

	base := filepath.Dir(w.dir)
	ours := regexp.MustCompile(`^[0-9a-z.]+$|^LOCK$`)
	err := filepath.WalkDir(base, func(path string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(base, path)
		if parts := strings.Split(rel, string(filepath.Separator)); len(parts) > 1 && !ours.MatchString(parts[len(parts)-1]) {
			t.Errorf("a file is called %q", rel)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// group is the name under which a group is known; no name is the queue mode.
func group(name string) string {
	if name == "" {
		return queueMode
	}
	return name
}

// What is too long is refused, and nothing of it is stored.
func TestP26NamesThatAreTooLong(t *testing.T) {
	w := open(t)
	long := strings.Repeat("x", 1<<16)
	w.queued(msg("q", "p", "a"))
	p := w.popFrom("q", "p")
	for _, row := range []struct{ method, target, body string }{
		{"POST", "/api/v1/push", `{"items":[{"queue":"` + long + `","payload":1}]}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"r","payload":1},{"queue":"r","partition":"` + long + `","payload":1}]}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"r","transactionId":"` + long + `","payload":1}]}`},
		{"POST", "/api/v1/configure", `{"queue":"` + long + `"}`},
		{"POST", "/api/v1/ack", `{"transactionId":"a","partitionId":"` + p.PartitionID + `","consumerGroup":"` + long + `"}`},
	} {
		a := w.call(row.method, row.target, row.body)
		if e := decode[errorAnswer](t, a.body); a.status != 400 || e.Error == "" {
			t.Errorf("%s %s: %d %.200s", row.method, row.target, a.status, a.body)
		}
	}
	for _, target := range []string{
		"/api/v1/pop/queue/q?consumerGroup=", "/api/v1/pop/queue/", "/api/v1/pop/queue/q/partition/", "/api/v1/resources/queues/",
		"/api/v1/consumer-groups/", "/api/v1/dlq?queue=",
	} {
		a := w.call("GET", target+long, "")
		if a.status != 400 && a.status != 414 && a.status != 431 {
			t.Errorf("GET %s…: %d %.200s", target, a.status, a.body)
		}
		decode[map[string]any](t, a.body)
	}
	if q := w.queues(); len(q) != 1 {
		t.Errorf("%d queues", len(q))
	}
	if g := w.groups(); len(g) != 1 || g[0].Name != queueMode {
		t.Errorf("groups %+v", g)
	}
}
