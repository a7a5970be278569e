package codec

import "encoding/binary"

// The instants that four digits of year can show, 0000-01-01 to 9999-12-31.
const (
	firstDay = -719_528 // in days from 1970-01-01
	lastDay  = 2_932_896

	daySeconds = 24 * 60 * 60
	dayMs      = daySeconds * 1_000
	dayMicro   = daySeconds * 1_000_000
)

// AppendTimeMs appends an instant in Unix milliseconds to dst as a JSON string, such
// as "2026-07-30T09:12:41.118Z". Instants outside of the years 0000 to 9999 are shown
// as the nearest one inside.
func AppendTimeMs(dst []byte, unixMs int64) []byte {
	unixMs = min(max(unixMs, firstDay*dayMs), (lastDay+1)*dayMs-1)
	days, ms := splitDays(unixMs, dayMs)
	dst = append(dst, `"0000-00-00T00:00:00.000Z"`...)
	b := (*[26]byte)(dst[len(dst)-26:])
	putDate((*[10]byte)(b[1:]), days)
	putClock((*[8]byte)(b[12:]), ms/1_000)
	putThree((*[3]byte)(b[21:]), ms%1_000)
	return dst
}

// AppendTimeSeconds appends an instant in Unix milliseconds to dst without its fraction of a
// second, such as "2026-07-30T09:12:41Z". Its range is that of AppendTimeMs.
func AppendTimeSeconds(dst []byte, unixMs int64) []byte {
	dst = AppendTimeMs(dst, unixMs)
	return append(dst[:len(dst)-len(`.118Z"`)], `Z"`...)
}

// AppendTimeMicro appends an instant in Unix microseconds to dst as a JSON string,
// such as "2026-07-30T11:06:44.512873Z". Its range is that of AppendTimeMs.
func AppendTimeMicro(dst []byte, unixMicro int64) []byte {
	unixMicro = min(max(unixMicro, firstDay*dayMicro), (lastDay+1)*dayMicro-1)
	days, micro := splitDays(unixMicro, dayMicro)
	dst = append(dst, `"0000-00-00T00:00:00.000000Z"`...)
	b := (*[29]byte)(dst[len(dst)-29:])
	putDate((*[10]byte)(b[1:]), days)
	putClock((*[8]byte)(b[12:]), micro/1_000_000)
	putThree((*[3]byte)(b[21:]), micro/1_000%1_000)
	putThree((*[3]byte)(b[24:]), micro%1_000)
	return dst
}

// splitDays splits an instant into days, downwards, and what of the last has passed.
func splitDays(unix, day int64) (days int64, passed uint64) {
	days, rest := unix/day, unix%day
	if rest < 0 {
		days, rest = days-1, rest+day
	}
	return days, uint64(rest)
}

// putDate writes days since 1970-01-01 as YYYY-MM-DD.
func putDate(b *[10]byte, days int64) {
	year, month, day := civil(days)
	putTwo(b[0:], year/100)
	putTwo(b[2:], year%100)
	putTwo(b[5:], month)
	putTwo(b[8:], day)
}

// putClock writes the seconds of a day as HH:MM:SS.
func putClock(b *[8]byte, seconds uint64) {
	putTwo(b[0:], seconds/3600)
	putTwo(b[3:], seconds/60%60)
	putTwo(b[6:], seconds%60)
}

func putThree(b *[3]byte, n uint64) {
	b[0] = '0' + byte(n/100)
	putTwo(b[1:], n%100)
}

func putTwo(b []byte, n uint64) {
	binary.LittleEndian.PutUint16(b, uint16('0'+n/10)|uint16('0'+n%10)<<8)
}

// An era is 400 years, after which the calendar repeats. Eras begin on 1 March, so that
// the leap day is the last of its year; epochDays lie between the start of era -1 and
// 1970-01-01, which leaves no negative numbers in the years 0000 to 9999.
const (
	eraDays   = 146_097
	epochDays = 719_468 + eraDays
)

// civil converts days since 1970-01-01 to a date. After Howard Hinnant,
// "chrono-Compatible Low-Level Date Algorithms".
func civil(days int64) (year, month, day uint64) {
	n := uint64(days + epochDays)
	era, dayOfEra := n/eraDays, n%eraDays
	yearOfEra := (dayOfEra - dayOfEra/1_460 + dayOfEra/36_524 - dayOfEra/146_096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*dayOfYear + 2) / 153 // month, and March is 0
	day = dayOfYear - (153*shifted+2)/5 + 1
	year = era*400 + yearOfEra - 400
	if shifted < 10 {
		return year, shifted + 3, day
	}
	return year + 1, shifted - 9, day
}

// daysOf is the inverse of civil.
func daysOf(year, month, day uint64) int64 {
	if year += 400; month <= 2 {
		year, month = year-1, month+12
	}
	era, yearOfEra := year/400, year%400
	dayOfYear := (153*(month-3)+2)/5 + day - 1
	return int64(era*eraDays+yearOfEra*365+yearOfEra/4-yearOfEra/100+dayOfYear) - epochDays
}

// ParseTime reads an instant as Unix milliseconds, cut downwards. It takes RFC 3339
// with or without a fraction and an offset, YYYY-MM-DD HH:MM:SS, and YYYY-MM-DD for
// midnight; without an offset the time is UTC.
func ParseTime(s string) (unixMs int64, ok bool) {
	days, rest, ok := parseDate(s)
	if !ok || rest == "" {
		return days * dayMs, ok
	}
	if rest[0] != 'T' && rest[0] != 't' && rest[0] != ' ' {
		return 0, false
	}
	seconds, rest, ok := parseClock(rest[1:])
	if !ok {
		return 0, false
	}
	ms, rest, ok := parseFraction(rest)
	if !ok {
		return 0, false
	}
	offset, ok := parseOffset(rest)
	if !ok {
		return 0, false
	}
	return days*dayMs + (seconds-offset)*1_000 + ms, true
}

// parseDate reads YYYY-MM-DD at the front of s as days since 1970-01-01.
func parseDate(s string) (days int64, rest string, ok bool) {
	if len(s) < 10 || s[4] != '-' || s[7] != '-' {
		return 0, "", false
	}
	century, ok1 := parseTwo(s, 0, 99)
	year, ok2 := parseTwo(s, 2, 99)
	month, ok3 := parseTwo(s, 5, 12)
	day, ok4 := parseTwo(s, 8, 31)
	if !ok1 || !ok2 || !ok3 || !ok4 || month == 0 || day == 0 {
		return 0, "", false
	}
	year += century * 100
	days = daysOf(year, month, day)
	if _, m, _ := civil(days); m != month {
		return 0, "", false // the 31st of a shorter month
	}
	return days, s[10:], true
}

// parseClock reads HH:MM:SS at the front of s as seconds.
func parseClock(s string) (seconds int64, rest string, ok bool) {
	if len(s) < 8 || s[2] != ':' || s[5] != ':' {
		return 0, "", false
	}
	hour, ok1 := parseTwo(s, 0, 23)
	minute, ok2 := parseTwo(s, 3, 59)
	second, ok3 := parseTwo(s, 6, 59)
	return int64(hour*3600 + minute*60 + second), s[8:], ok1 && ok2 && ok3
}

// parseFraction reads a fraction of a second, if s begins with one.
func parseFraction(s string) (ms int64, rest string, ok bool) {
	if s == "" || s[0] != '.' {
		return 0, s, true
	}
	n := 1
	for weight := int64(100); n < len(s) && isDigit(s[n]); n++ {
		ms += int64(s[n]-'0') * weight
		weight /= 10
	}
	return ms, s[n:], n > 1
}

// parseOffset reads all of s as an offset from UTC in seconds.
func parseOffset(s string) (seconds int64, ok bool) {
	if s == "" || s == "Z" || s == "z" {
		return 0, true
	}
	if len(s) != len("+00:00") || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return 0, false
	}
	hours, ok1 := parseTwo(s, 1, 23)
	minutes, ok2 := parseTwo(s, 4, 59)
	if seconds = int64(hours*3600 + minutes*60); s[0] == '-' {
		seconds = -seconds
	}
	return seconds, ok1 && ok2
}

// parseTwo reads the two digits of s at i, which must be there, up to limit.
func parseTwo(s string, i int, limit uint64) (n uint64, ok bool) {
	if !isDigit(s[i]) || !isDigit(s[i+1]) {
		return 0, false
	}
	n = uint64(s[i]-'0')*10 + uint64(s[i+1]-'0')
	return n, n <= limit
}

func isDigit(c byte) bool {
	return c-'0' <= 9
}
