//go:build !race

package codec

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// bodyDecoders are all that read a body. Each begins with nothing to reuse.
var bodyDecoders = map[string]func([]byte){
	"push":         func(b []byte) { _ = new(Push).Decode(b) },
	"ack":          func(b []byte) { _, _ = DecodeAck(b) },
	"ack batch":    func(b []byte) { _ = new(AckBatch).Decode(b) },
	"transaction":  func(b []byte) { _ = new(Transaction).Decode(b) },
	"configure":    func(b []byte) { _, _ = DecodeConfigure(b) },
	"seek":         func(b []byte) { _, _ = DecodeSeek(b) },
	"subscription": func(b []byte) { _, _ = DecodeSubscription(b) },
	"replay":       func(b []byte) { _, _ = DecodeReplay(b) },
	"extend":       func(b []byte) { DecodeExtend(b) },
	"trace":        func(b []byte) { _, _ = DecodeTrace(b) },
	"notify":       func(b []byte) { _, _ = DecodeNotify(b) },
	"switch":       func(b []byte) { DecodeSwitch(b) },
	"query":        func(b []byte) { _, _ = ParseQuery(b) },
	"path segment": func(b []byte) { _, _ = PathSegment(b) },
}

// mayAllocate is what decoding b may allocate, all growth of slices added up. An item
// begins with a brace, and servers count those. A query comes in a header of 8 KiB.
func mayAllocate(decoder string, b []byte) int64 {
	most := int64(16*len(b) + 900*bytes.Count(b, []byte("{")) + 16<<10)
	if decoder == "query" {
		most += int64(150 * len(b))
	}
	return most
}

// TestDecodersAllocateLittle: no body makes a decoder allocate more than so many times its
// length.
func TestDecodersAllocateLittle(t *testing.T) {
	const size = 1 << 18
	fill := func(text string) string { return strings.Repeat(text, size/len(text)) }
	bodies := map[string]string{
		"items":           `{"items":[` + fill(`{"queue":"","payload":0},`) + `{"queue":"","payload":0}]}`,
		"empty items":     `{"items":[` + fill(`{},`) + `{}]}`,
		"acks":            `{"acknowledgments":[` + fill(`{},`) + `{}]}`,
		"operations":      `{"operations":[` + fill(`{"type":"push","items":[]},`) + `{"type":"ack"}]}`,
		"empty pushes":    `{"operations":[{"type":"push","items":[` + fill(`{},`) + `{}]}]}`,
		"leases":          `{"operations":[],"requiredLeases":[` + fill(`"",`) + `""]}`,
		"numbers":         `{"items":[` + fill(`0,`) + `0]}`,
		"escapes":         `{"items":[{"queue":"` + fill(`\u0001`) + `","payload":0}]}`,
		"escaped names":   `{"items":[{` + fill(`"\u0061":0,`) + `"a":0}]}`,
		"depth":           `{"items":[{"queue":"q","payload":` + fill(`[`),
		"members":         `{` + fill(`"a":0,`) + `"a":0}`,
		"options":         `{"queue":"q","options":{` + fill(`"a":0,`) + `"a":0}}`,
		"repeated items":  `{` + fill(`"items":[{}],`) + `"items":[]}`,
		"trace names":     `{"traceNames":[` + fill(`"a",`) + `"a"]}`,
		"pairs":           fill("&a"),
		"escaped pairs":   fill("%61=%61&"),
		"escaped segment": fill("%61"),
		"spaces":          fill(" "),
	}
	for name, body := range bodies {
		for decoder, decode := range bodyDecoders {
			if got, most := allocatedBy(decode, []byte(body)), mayAllocate(decoder, []byte(body)); got > most {
				t.Errorf("%s, %s of %d bytes: %d bytes allocated, more than %d", decoder, name, len(body), got, most)
			}
		}
	}
}

// TestCorpusAllocatesLittle is the same of what the fuzzer has found.
func TestCorpusAllocatesLittle(t *testing.T) {
	paths, err := filepath.Glob("testdata/fuzz/*/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, value, _ := bytes.Cut(text, []byte("[]byte("))
		body, err := strconv.Unquote(strings.TrimSuffix(strings.TrimSpace(string(value)), ")"))
		if err != nil {
			continue // of a target that takes no bytes
		}
		for decoder, decode := range bodyDecoders {
			if got, most := allocatedBy(decode, []byte(body)), mayAllocate(decoder, []byte(body)); got > most {
				t.Errorf("%s, %s of %d bytes: %d bytes allocated, more than %d", decoder, path, len(body), got, most)
			}
		}
	}
}

func allocatedBy(decode func([]byte), body []byte) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	decode(body)
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}
