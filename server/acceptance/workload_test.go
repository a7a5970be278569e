package acceptance

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

var retained = regexp.MustCompile(`"retainedBytes":[1-9]\d*`)

// workload is a row of the workload, without its names.
func workload(queues int, window, lags string, series []string, now string) string {
	var text strings.Builder
	fmt.Fprintf(&text, `"queues":%d,"window":{`, queues)
	for i, name := range []string{"pushMessages", "pushRequests", "popMessages", "popEmpty", "ackRequests", "ackSuccess", "ackFailed",
		"transactions", "conflated", "partitionsCreated", "partitionsDeleted", "parkedAvg"} {
		fmt.Fprintf(&text, `"%s":%s,`, name, strings.Fields(window)[i])
	}
	fmt.Fprintf(&text, `"avgLagMs":%s,"maxLagMs":%s},"series":{`, lags, lags)
	for i, name := range []string{"push", "pop", "popEmpty", "ackFailed", "parked", "avgLagMs", "maxLagMs"} {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `"%s":[%s]`, name, series[i])
	}
	text.WriteString(`},"now":{`)
	for i, name := range []string{"pending", "processing", "deadLetter", "retainedBytes", "partitions", "groups", "queuesWithoutGroup", "pendingWithoutGroup",
		"queuesTouched", "queuesActive"} {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `"%s":%s`, name, strings.Fields(now)[i])
	}
	return text.String() + "}"
}

// G-148: what queues had and have, by label, on the complete axis of the time. Filters choose
// rows; the tenant has everything.
func TestG148Workload(t *testing.T) {
	w := open(t)
	at := w.aligned(time.Hour)
	target := "/api/v1/analytics/workload?" + between(at, at.Add(3*time.Minute))
	axis := fmt.Sprintf(`"buckets":["%s","%s","%s"]`, bucketOf(at), bucketOf(at.Add(time.Minute)), bucketOf(at.Add(2*time.Minute)))
	want := func(query, by, rows, tenant string) {
		t.Helper()
		a := w.call("GET", target+query, "")
		got := regexp.MustCompile(`(,|\[)\d{5}\b`).ReplaceAllString(retained.ReplaceAllString(a.figures(), `"retainedBytes":B`), "${1}L")
		if text := `{` + noRange + `,"groupBy":"` + by + `",` + axis + `,"rows":[` + rows + `],"tenant":{` + tenant + `}}`; got != text {
			t.Errorf("%s\n got %d %s\nwant %s", query, a.status, got, text)
		}
	}
	none := []string{"null,null,null", "null,null,null", "null,null,null", "null,null,null", "null,null,null", "null,null,null", "null,null,null"}
	want("", "namespace", "", workload(0, "0 0 0 0 0 0 0 0 0 0 0 0.00", "null", none, "0 0 0 0 0 0 0 0 0 0"))

	w.configureRaw(`{"queue":"q","namespace":"n","task":"t","options":{"retryLimit":0}}`)
	w.configureRaw(`{"queue":"quiet","namespace":"n","options":{}}`)
	w.configure("other", "{}")
	w.queued(append(numbered("q", "a", "m", 5), msg("q", "b", "y"))...)
	w.queued(msg("other", "p", "x"))
	w.rolled()
	w.ackAll("g", w.popFrom("q", "b", "consumerGroup=g"))
	w.buried(w.ack("", w.popFrom("q", "a", "batch=1").Messages[0].as("failed")))
	w.want(w.popFrom("q", "a", "batch=2"), "m1", "m2")
	w.nothing(w.popFrom("q", "a"))

	q := workload(1, "6 1 4 1 2 1 1 0 0 2 0 0.00", "L", []string{"6,0,null", "0,4,null", "0,1,null", "0,1,null", "0.00,0.00,null", "null,L,null", "null,L,null"}, "3 2 1 B 2 2 0 0 1 1")
	quiet := workload(1, "0 0 0 0 0 0 0 0 0 0 0 0.00", "null", none, "0 0 0 0 0 0 1 0 0 0")
	both := workload(2, "6 1 4 1 2 1 1 0 0 2 0 0.00", "L", []string{"6,0,null", "0,4,null", "0,1,null", "0,1,null", "0.00,0.00,null", "null,L,null", "null,L,null"}, "3 2 1 B 2 2 1 0 1 1")
	other := workload(1, "1 1 0 0 0 0 0 0 0 1 0 0.00", "null", []string{"1,null,null", "0,null,null", "0,null,null", "0,null,null", "0.00,null,null", "null,null,null", "null,null,null"},
		"1 0 0 B 1 0 1 1 1 1")
	all := workload(3, "7 2 4 1 2 1 1 0 0 3 0 0.00", "L", []string{"7,0,null", "0,4,null", "0,1,null", "0,1,null", "0.00,0.00,null", "null,L,null", "null,L,null"}, "4 2 1 B 3 2 2 1 2 2")
	want("", "namespace", `{"key":"",`+other+`},{"key":"n",`+both+`}`, all)
	want("&groupBy=", "namespace", `{"key":"",`+other+`},{"key":"n",`+both+`}`, all)
	want("&groupBy=task&namespace=n", "task", `{"key":"",`+quiet+`},{"key":"t",`+q+`}`, all)
	want("&groupBy=queue&namespace=n", "queue", `{"key":"q","namespace":"n","task":"t",`+q+`},{"key":"quiet","namespace":"n","task":"",`+quiet+`}`, all)
	want("&groupBy=queue&queue=other", "queue", `{"key":"other","namespace":"","task":"",`+other+`}`, all)
	want("&task=t", "namespace", `{"key":"n",`+q+`}`, all)
	want("&queue=none", "namespace", "", all)
	w.expect("GET", target+"&groupBy=color", "", 400, `{"error":"bad groupBy"}`)
	for range 6 {
		w.rolled()
	}
	if a := w.call("GET", target, ""); !strings.HasSuffix(string(a.body), `"queuesTouched":2,"queuesActive":0}}}`) {
		t.Errorf("six minutes later: %s", a.body)
	}
	w.queued(msg("quiet", "p", "z"))
	if a := w.call("GET", target, ""); !strings.HasSuffix(string(a.body), `"queuesTouched":2,"queuesActive":1}}}`) {
		t.Errorf("and with a push: %s", a.body)
	}
}

// G-148: groups are those that the list of groups has, those without a partition included.
func TestG148Groups(t *testing.T) {
	w := open(t)
	w.configure("q", "{}")
	want := func(state string) {
		t.Helper()
		if a := w.call("GET", "/api/v1/analytics/workload?queue=q", ""); !strings.Contains(string(a.body), `"rows":[{"key":"",`) || strings.Count(string(a.body), state) != 2 {
			t.Errorf("no %s: %s", state, a.body)
		}
	}
	want(`"groups":0,"queuesWithoutGroup":1,`)
	w.nothing(w.pop("q", "consumerGroup=g"))
	want(`"groups":1,"queuesWithoutGroup":0,`)
	w.queued(msg("q", "p", "m"))
	w.want(w.pop("q"), "m")
	want(`"groups":2,"queuesWithoutGroup":0,`)
	for _, group := range []string{"g", queueMode} {
		w.call("DELETE", "/api/v1/consumer-groups/"+group+"/queues/q", "")
	}
	want(`"groups":0,"queuesWithoutGroup":1,"pendingWithoutGroup":1,`)
}
