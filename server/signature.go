package server

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// signatureLength is where a signature is cut, in characters.
const signatureLength = 120

// signature folds the text of an error, so that errors that differ in what they name alone
// become one: ids, dates and numbers give way to <id>, <date> and <n>, and white space to one
// space. The rest stays as it is.
func signature(text string) string {
	var b strings.Builder
	var before rune // the last character of text that was passed
	space := false
	n := 0 // characters in b
	add := func(s string) {
		if space && n > 0 {
			b.WriteByte(' ')
			n++
		}
		b.WriteString(s)
		n += utf8.RuneCountInString(s)
		space = false
	}
	for len(text) > 0 && n < signatureLength {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case unicode.IsSpace(r):
			space = true
		case !wordly(r):
			add(text[:size])
		default:
			var s string
			s, size = foldWord(text, before)
			add(s)
		}
		before, _ = utf8.DecodeLastRuneInString(text[:size])
		text = text[size:]
	}
	return cutText(b.String(), signatureLength)
}

// foldWord folds the word that text begins with, and says how long it is. before is the
// character in front of it.
func foldWord(text string, before rune) (folded string, length int) {
	if n := begins(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"); n > 0 {
		return "<id>", n
	}
	if n := dateLength(text); n > 0 {
		return "<date>", n
	}
	length = strings.IndexFunc(text, func(r rune) bool { return !wordly(r) })
	if length < 0 {
		length = len(text)
	}
	word := text[:length]
	switch {
	case strings.Trim(word, "0123456789") == "":
		if before != '_' && !strings.HasPrefix(text[length:], "_") {
			return "<n>", length
		}
	case longHex(word):
		return "<id>", length
	}
	return word, length
}

// wordly reports what words are made of. An underscore is between two of them.
func wordly(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// longHex reports an id or an address: eight hexadecimal digits at least, letters and decimal
// ones among them. Without the first it is a number, without the second perhaps a word.
func longHex(word string) bool {
	if rest, ok := strings.CutPrefix(word, "0x"); ok {
		return len(rest) >= 8 && strings.IndexFunc(rest, notHex) < 0
	}
	return len(word) >= 8 && strings.IndexFunc(word, notHex) < 0 && strings.ContainsAny(word, "0123456789")
}

func notHex(r rune) bool { return !like(r, 'x') }

// dateLength returns how long the date is that text begins with, its time of day included; 0:
// there is none.
func dateLength(text string) int {
	n := max(begins(text, "0000-00-00"), begins(text, "0000/00/00"))
	for _, stamp := range [...]string{"0000-00-00T00:00:00", "0000-00-00 00:00:00", "0000/00/00 00:00:00"} {
		if looks(text, stamp) {
			n = len(stamp)
			n += fractionLength(text[n:])
			n += zoneLength(text[n:])
		}
	}
	return n
}

func fractionLength(text string) int {
	if text == "" || text[0] != '.' && text[0] != ',' {
		return 0
	}
	digits := len(text[1:]) - len(strings.TrimLeft(text[1:], "0123456789"))
	if digits == 0 {
		return 0 // the end of a sentence
	}
	return 1 + digits
}

func zoneLength(text string) int {
	for _, zone := range [...]string{"Z", "+00:00", "-00:00", "+0000", "-0000"} {
		if begins(text, zone) > 0 {
			return len(zone)
		}
	}
	return 0
}

// begins returns the length of pattern if text begins with what looks like it and no word
// goes on behind it, else 0.
func begins(text, pattern string) int {
	if !looks(text, pattern) {
		return 0
	}
	if r, _ := utf8.DecodeRuneInString(text[len(pattern):]); wordly(r) {
		return 0
	}
	return len(pattern)
}

// looks reports whether text begins with what looks like pattern, in which 0 stands for any
// decimal digit and x for any hexadecimal one.
func looks(text, pattern string) bool {
	if len(text) < len(pattern) {
		return false
	}
	for i := range len(pattern) {
		if !like(rune(text[i]), pattern[i]) {
			return false
		}
	}
	return true
}

func like(r rune, pattern byte) bool {
	digit := r >= '0' && r <= '9'
	switch pattern {
	case '0':
		return digit
	case 'x':
		return digit || r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F'
	}
	return r == rune(pattern)
}

// cutText returns the first n characters of text.
func cutText(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return strings.TrimRight(text[:i], " ")
		}
	}
	return text
}
