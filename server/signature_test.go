package server

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// G-149: what is folded, and what is not.
func TestG149Signature(t *testing.T) {
	long := strings.Repeat("é", 130)
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"white space alone", " \t\n ", ""},
		{"plain text", "no such customer", "no such customer"},
		{"white space", "  a \t b\n\n  c\u00a0d ", "a b c d"},
		{"an integer", "order 4711 is late", "order <n> is late"},
		{"a long integer", "offset 9007199254740993", "offset <n>"},
		{"integers beside signs", "-5, (12) and 3.14", "-<n>, (<n>) and <n>.<n>"},
		{"an address", "dial tcp 10.0.0.17:5432: refused", "dial tcp <n>.<n>.<n>.<n>:<n>: refused"},
		{"digits in words", "after 30s, user42, h2, job_17, 7_up, x٣4", "after 30s, user42, h2, job_17, 7_up, x٣4"},
		{"a UUID", "order 550e8400-e29b-41d4-a716-446655440000 gone", "order <id> gone"},
		{"a UUID in capitals", "{550E8400-E29B-41D4-A716-446655440000}", "{<id>}"},
		{"a UUID behind an underscore", "order_550e8400-e29b-41d4-a716-446655440000", "order_<id>"},
		{"a UUID that goes on", "550e8400-e29b-41d4-a716-446655440000z", "<id>-e29b-41d4-a716-446655440000z"},
		{"hex of 24", "document 507f1f77bcf86cd799439011", "document <id>"},
		{"hex of 8", "commit 1a2b3c4d", "commit <id>"},
		{"short hex", "commit 1a2b3c4", "commit 1a2b3c4"},
		{"hex without a digit", "defacade", "defacade"},
		{"a pointer", "panic at 0xc00012ab40", "panic at <id>"},
		{"a short pointer", "code 0x80", "code 0x80"},
		{"a date", "due 2026-07-30.", "due <date>."},
		{"a date that goes on", "2026-07-301", "<n>-<n>-<n>"},
		{"a time", "at 2026-07-30T09:12:41.118Z again", "at <date> again"},
		{"a time with an offset", "at 2026-07-30T09:12:41+02:00", "at <date>"},
		{"a time with a space", "2026-07-30 09:12:41,118 ERROR", "<date> ERROR"},
		{"a time at the end of a sentence", "2026-07-30 09:12:41. Then", "<date>. Then"},
		{"a time with slashes", "2026/07/30 09:12:41 boom", "<date> boom"},
		{"a date with slashes", "2026/07/30 boom", "<date> boom"},
		{"a time of day alone", "at 09:12:41", "at <n>:<n>:<n>"},
		{"other scripts", "註文 17 失敗", "註文 <n> 失敗"},
		{"no UTF-8", "a\xff 1", "a\xff <n>"},
		{"too long", long, long[:240]},
		{"too long once folded", strings.Repeat("123456 ", 40), strings.Repeat("<n> ", 29) + "<n>"},
		{"cut behind a space", strings.Repeat("x", 119) + " tail", strings.Repeat("x", 119)},
		{"cut in a placeholder", strings.Repeat("x", 118) + " 12345", strings.Repeat("x", 118) + " <"},
	} {
		if got := signature(tt.text); got != tt.want {
			t.Errorf("%s: %q\n got %q\nwant %q", tt.name, tt.text, got, tt.want)
		}
	}
}

func FuzzSignature(f *testing.F) {
	for _, text := range []string{
		"order 550e8400-e29b-41d4-a716-446655440000 of 2026-07-30T09:12:41.118Z", "at 0xc00012ab40, 17\n\t", "2026/07/30 09:12:41.", "\xff_1_",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := signature(text)
		if n := utf8.RuneCountInString(got); n > signatureLength {
			t.Errorf("%d characters of %q", n, text)
		}
		if got != strings.Join(strings.Fields(got), " ") {
			t.Errorf("white space in %q of %q", got, text)
		}
		if got != signature(" "+text+"\n") {
			t.Errorf("%q is another with white space around it", text)
		}
	})
}
