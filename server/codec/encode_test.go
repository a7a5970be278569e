package codec

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

func TestAppendString(t *testing.T) {
	rows := []struct{ name, in, want string }{
		{"empty", "", `""`},
		{"plain", "orders.created", `"orders.created"`},
		{"quote and backslash", `a"b\c`, `"a\"b\\c"`},
		{"short escapes", "\b\f\n\r\t", `"\b\f\n\r\t"`},
		{"other control characters", "\x00\x1f", `"\u0000\u001f"`},
		{"kept", "</script>&\x7f\u2028 /", "\"</script>&\x7f\u2028 /\""},
		{"beyond ASCII", "Größe 順序 😀", `"Größe 順序 😀"`},
		{"invalid UTF-8", "a\xffb\xc3", "\"a\ufffdb\ufffd\""},
		{"surrogate in UTF-8", "\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""},
		{"replacement character", "\ufffd", "\"\ufffd\""},
		{"escape in the second word", "0123456789\"", `"0123456789\""`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := string(AppendString([]byte("x"), row.in)); got != "x"+row.want {
				t.Errorf("string: got %s want x%s", got, row.want)
			}
			if got := string(AppendString(nil, []byte(row.in))); got != row.want {
				t.Errorf("bytes: got %s want %s", got, row.want)
			}
		})
	}
	if got := string(AppendString(nil, []byte(nil))); got != `""` {
		t.Errorf("nil: got %s", got)
	}
}

func TestAppendStringEveryAlignment(t *testing.T) {
	for before := range 20 {
		for _, mid := range []string{"\"", "\\", "\n", "\x01", "ä", "\xff", "😀"} {
			s := strings.Repeat("x", before) + mid + strings.Repeat("y", 20-before)
			checkString(t, s)
		}
	}
}

// checkString decodes what AppendString wrote, with ours and with encoding/json.
func checkString(t *testing.T, s string) {
	t.Helper()
	out := AppendString(nil, s)
	if err := Valid(out); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	var back string
	want := string([]rune(s)) // U+FFFD for each invalid byte
	if err := json.Unmarshal(out, &back); err != nil || back != want {
		t.Fatalf("got %q, %v want %q", back, err, want)
	}
	if got := string(appendUnescaped(nil, out[1:len(out)-1])); got != want {
		t.Fatalf("got %q want %q", got, want)
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\"\\\x00\xffä😀 and more than eight bytes")
	f.Fuzz(func(t *testing.T, s string) {
		checkString(t, s)
		if !utf8.Valid(AppendString(nil, s)) {
			t.Fatal("invalid UTF-8")
		}
	})
}

func TestAppendTime(t *testing.T) {
	rows := []struct {
		unixMicro         int64
		wantMs, wantMicro string
	}{
		{0, `"1970-01-01T00:00:00.000Z"`, `"1970-01-01T00:00:00.000000Z"`},
		{1785402761118_000, `"2026-07-30T09:12:41.118Z"`, `"2026-07-30T09:12:41.118000Z"`},
		{1785402761118_999, `"2026-07-30T09:12:41.118Z"`, `"2026-07-30T09:12:41.118999Z"`},
		{-1, `"1969-12-31T23:59:59.999Z"`, `"1969-12-31T23:59:59.999999Z"`},
		{951782400_000_000, `"2000-02-29T00:00:00.000Z"`, `"2000-02-29T00:00:00.000000Z"`},
		{4107542399_000_000, `"2100-02-28T23:59:59.000Z"`, `"2100-02-28T23:59:59.000000Z"`},
		{4107542400_000_000, `"2100-03-01T00:00:00.000Z"`, `"2100-03-01T00:00:00.000000Z"`},
		{-62167219200_000_000, `"0000-01-01T00:00:00.000Z"`, `"0000-01-01T00:00:00.000000Z"`},
		{-62167219200_000_001, `"0000-01-01T00:00:00.000Z"`, `"0000-01-01T00:00:00.000000Z"`},
		{253402300799_999_999, `"9999-12-31T23:59:59.999Z"`, `"9999-12-31T23:59:59.999999Z"`},
		{253402300800_000_000, `"9999-12-31T23:59:59.999Z"`, `"9999-12-31T23:59:59.999999Z"`},
		{1<<63 - 1, `"9999-12-31T23:59:59.999Z"`, `"9999-12-31T23:59:59.999999Z"`},
		{-1 << 63, `"0000-01-01T00:00:00.000Z"`, `"0000-01-01T00:00:00.000000Z"`},
	}
	for _, row := range rows {
		if got := string(AppendTimeMicro([]byte{'x'}, row.unixMicro)); got != "x"+row.wantMicro {
			t.Errorf("%d: got %s want %s", row.unixMicro, got, row.wantMicro)
		}
		ms := time.UnixMicro(row.unixMicro).UnixMilli()
		if got := string(AppendTimeMs([]byte{'x'}, ms)); got != "x"+row.wantMs {
			t.Errorf("%d: got %s want %s", row.unixMicro, got, row.wantMs)
		}
	}
}

// TestEveryDay compares the calendar with package time, on each day of 10,000 years.
func TestEveryDay(t *testing.T) {
	day := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	for n := int64(firstDay); n <= lastDay; n++ {
		y, m, d := civil(n)
		if wantY, wantM, wantD := day.Date(); int(y) != wantY || int(m) != int(wantM) || int(d) != wantD {
			t.Fatalf("day %d: got %d-%d-%d want %s", n, y, m, d, day)
		}
		if got := daysOf(y, m, d); got != n {
			t.Fatalf("%d-%d-%d: got day %d want %d", y, m, d, got, n)
		}
		day = day.AddDate(0, 0, 1)
	}
}

func TestParseTime(t *testing.T) {
	const base = 1785402761 // 2026-07-30T09:12:41Z
	rows := []struct {
		in   string
		want int64
		ok   bool
	}{
		{"2026-07-30T09:12:41Z", base * 1000, true},
		{"2026-07-30t09:12:41z", base * 1000, true},
		{"2026-07-30T09:12:41.118Z", base*1000 + 118, true},
		{"2026-07-30T09:12:41.1Z", base*1000 + 100, true},
		{"2026-07-30T09:12:41.118999999999Z", base*1000 + 118, true},
		{"2026-07-30T11:12:41+02:00", base * 1000, true},
		{"2026-07-30T03:42:41.5-05:30", base*1000 + 500, true},
		{"2026-07-30T09:12:41", base * 1000, true},
		{"2026-07-30 09:12:41", base * 1000, true},
		{"2026-07-30 09:12:41.25", base*1000 + 250, true},
		{"2026-07-30", 1785369600_000, true},
		{"1970-01-01", 0, true},
		{"1969-12-31T23:59:59.999Z", -1, true},
		{"2024-02-29", 1709164800_000, true},
		{"", 0, false},
		{"now", 0, false},
		{"1785402761", 0, false},
		{"2026-07-30T", 0, false},
		{"2026-07-30T09:12", 0, false},
		{"2026-07-30T9:12:41Z", 0, false},
		{"2026-07-30T09:12:41.", 0, false},
		{"2026-07-30T09:12:41.Z", 0, false},
		{"2026-07-30T09:12:41+0200", 0, false},
		{"2026-07-30T09:12:41+02", 0, false},
		{"2026-07-30T09:12:41+24:00", 0, false},
		{"2026-07-30T09:12:41+02:60", 0, false},
		{"2026-07-30T09:12:41Zx", 0, false},
		{"2026-07-30T09:12:41 Z", 0, false},
		{"2026-07-30x09:12:41", 0, false},
		{"2026-07-30T24:00:00", 0, false},
		{"2026-07-30T09:60:00", 0, false},
		{"2026-07-30T09:12:60", 0, false},
		{"2026-07-30T09.12.41", 0, false},
		{"2025-02-29", 0, false},
		{"1900-02-29", 0, false},
		{"2026-04-31", 0, false},
		{"2026-00-10", 0, false},
		{"2026-13-10", 0, false},
		{"2026-01-00", 0, false},
		{"2026-01-32", 0, false},
		{"2026/01/02", 0, false},
		{"26-01-02", 0, false},
		{"2026-1-02T", 0, false},
		{" 2026-07-30", 0, false},
		{"-026-07-30", 0, false},
	}
	for _, row := range rows {
		if got, ok := ParseTime(row.in); ok != row.ok || got != row.want {
			t.Errorf("%q: got %d %t want %d %t", row.in, got, ok, row.want, row.ok)
		}
	}
}

func FuzzParseTime(f *testing.F) {
	f.Add("2026-07-30T09:12:41.118+02:00", int64(1785402761118))
	f.Add("2026-07-30", int64(-1))
	f.Fuzz(func(t *testing.T, s string, unixMs int64) {
		// Package time also takes what is not RFC 3339: hours of one digit, a decimal
		// comma, offsets of 60 minutes. Those do not come back from Format.
		want, err := time.Parse(time.RFC3339, s)
		strict := err == nil && strings.HasPrefix(s, want.Format(time.DateOnly+"T"+time.TimeOnly)) && !strings.Contains(s, ",") &&
			(strings.HasSuffix(s, want.Format("-07:00")) || strings.HasSuffix(s, want.Format("Z07:00")))
		if strict {
			if got, ok := ParseTime(s); !ok || got != want.UnixMilli() {
				t.Fatalf("%q: got %d %t want %d", s, got, ok, want.UnixMilli())
			}
		}
		unixMs = min(max(unixMs, firstDay*dayMs), lastDay*dayMs)
		text := AppendTimeMs(nil, unixMs)
		if got, ok := ParseTime(string(text[1 : len(text)-1])); !ok || got != unixMs {
			t.Fatalf("%s: got %d %t want %d", text, got, ok, unixMs)
		}
		if got, want := string(text), time.UnixMilli(unixMs).UTC().Format(`"2006-01-02T15:04:05.000Z"`); got != want {
			t.Fatalf("got %s want %s", got, want)
		}
		micro := time.UnixMilli(unixMs).UTC().Add(987 * time.Microsecond)
		if got, want := string(AppendTimeMicro(nil, micro.UnixMicro())), micro.Format(`"2006-01-02T15:04:05.000000Z"`); got != want {
			t.Fatalf("got %s want %s", got, want)
		}
	})
}

func TestUUID(t *testing.T) {
	for i := range 256 {
		var u uuid.UUID
		for j := range u {
			u[j] = byte(i + j*17)
		}
		want := `"` + u.String() + `"`
		if got := string(AppendUUID([]byte("x"), u)); got != "x"+want {
			t.Fatalf("got %s want x%s", got, want)
		}
		for _, s := range []string{u.String(), strings.ToUpper(u.String())} {
			if got, ok := ParseUUID([]byte(s)); !ok || got != u {
				t.Fatalf("%s: got %x %t", s, got, ok)
			}
		}
	}
}

func TestParseUUIDRefuses(t *testing.T) {
	const good = "0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83"
	bad := []string{
		"", good[:35], good + "0", "{" + good + "}", "urn:uuid:" + good,
		strings.ReplaceAll(good, "-", ""), strings.ReplaceAll(good, "-", "_"), "019-8f2c1-4d3a-7c10-9f2b6a1e5d0c7b83",
	}
	for i := range good {
		bad = append(bad, good[:i]+"g"+good[i+1:])
	}
	for _, s := range bad {
		if u, ok := ParseUUID([]byte(s)); ok || u != [16]byte{} {
			t.Errorf("%q: got %x %t", s, u, ok)
		}
	}
}
