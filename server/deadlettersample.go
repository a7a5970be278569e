package server

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

const (
	defaultSignatureSample = 200
	maxSignatureSample     = 1000
	// shownSignatures is how many are listed, the most frequent ones.
	shownSignatures = 8
	// sampleBytes is about what such an answer takes beside the names of groups: its
	// signatures, fully escaped, days and counts of retries.
	sampleBytes = 64 << 10
)

// deadLetterSignatures answers GET /api/v1/analytics/dlq-signatures: what the newest dead
// letters of a queue have in common.
func (r *request) deadLetterSignatures() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	queue := q.text("queue")
	if queue == "" {
		r.sendError(fasthttp.StatusBadRequest, "", "queue required")
		return
	}
	limit := min(max(q.number("limit", defaultSignatureSample), 0), maxSignatureSample)
	sample, err := r.broker.SampleDeadLetters(r.tenant, queue, int(limit))
	if err != nil {
		r.fail(err)
		return
	}
	d := digest(sample.Letters)
	room := sampleBytes
	for group := range d.groups {
		room += len(group)
	}
	if !r.makeRoom(room) {
		return
	}
	b := appendText(append(r.answer(), '{'), "queue", queue)
	b = appendNumber(b, "rowsNow", sample.All)
	b = appendNumber(b, "sample", int64(len(sample.Letters)))
	b = d.append(b)
	b = appendKey(b, "avgBytes")
	if sample.Payloads > 0 {
		b = strconv.AppendInt(b, sample.PayloadBytes/sample.Payloads, 10)
	} else {
		b = append(b, "null"...)
	}
	b = d.appendCounts(b, len(sample.Letters))
	b = append(b, '}')
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

// letterDigest is what dead letters have in common.
type letterDigest struct {
	retries          map[int64]bool
	groups           map[string]bool
	oldest, newest   int64 // times of failure; 0: there are no letters
	signatures, days map[string]int
}

func digest(letters []broker.DeadLetter) letterDigest {
	d := letterDigest{map[int64]bool{}, map[string]bool{}, 0, 0, map[string]int{}, map[string]int{}}
	for i := range letters {
		l := &letters[i]
		d.retries[l.RetryCount], d.groups[l.Group] = true, true
		d.signatures[signature(l.Error)]++
		d.days[string(codec.AppendTimeMs(nil, l.FailedAtMs)[1:len(`"2026-07-30`)])]++
	}
	if n := len(letters); n > 0 { // newest first
		d.oldest, d.newest = letters[n-1].FailedAtMs, letters[0].FailedAtMs
	}
	return d
}

func (d *letterDigest) append(b []byte) []byte {
	b = append(appendKey(b, "retryCounts"), '[')
	for i, n := range slices.Sorted(maps.Keys(d.retries)) {
		b = strconv.AppendInt(appendComma(b, i), n, 10)
	}
	b = append(appendKey(append(b, ']'), "groups"), '[')
	for i, group := range slices.Sorted(maps.Keys(d.groups)) {
		b = codec.AppendString(appendComma(b, i), group)
	}
	b = appendTime(appendKey(append(b, ']'), "oldest"), d.oldest)
	return appendTime(appendKey(b, "newest"), d.newest)
}

// appendCounts appends the most frequent signatures, with their share of all letters, and how
// many letters there are of each day.
func (d *letterDigest) appendCounts(b []byte, letters int) []byte {
	texts := slices.SortedFunc(maps.Keys(d.signatures), func(x, y string) int {
		return cmp.Or(cmp.Compare(d.signatures[y], d.signatures[x]), cmp.Compare(x, y))
	})
	b = append(appendKey(b, "signatures"), '[')
	for i, text := range texts[:min(len(texts), shownSignatures)] {
		n := d.signatures[text]
		b = appendText(append(appendComma(b, i), '{'), "text", text)
		b = appendNumber(b, "n", int64(n))
		b = append(appendRate(b, "share", float64(n)/float64(letters)), '}')
	}
	b = append(appendKey(append(b, ']'), "byDay"), '[')
	for i, day := range slices.Sorted(maps.Keys(d.days)) {
		b = appendText(append(appendComma(b, i), '{'), "day", day)
		b = append(appendNumber(b, "n", int64(d.days[day])), '}')
	}
	return append(b, ']')
}
