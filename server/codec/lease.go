package codec

// DefaultExtendSeconds is the length of a lease extension that does not say how long.
const DefaultExtendSeconds = 60

// DecodeExtend reads the body of a lease extension, {"seconds":120}. It has no errors:
// an empty body, a body that is not JSON and a seconds that is not a whole number all
// mean DefaultExtendSeconds, because clients in the field send each of them. Numbers
// below 1 act as 1.
func DecodeExtend(body []byte) int64 {
	var (
		s      scanner
		fields [1]field
	)
	s.reset(body)
	at, more := s.begin()
	at = s.members(at, more, 1, []string{"seconds"}, fields[:])
	if s.finish(at) != nil || fields[0].to == 0 {
		return DefaultExtendSeconds
	}
	if n, ok := wholeNumber(s.raw(fields[0])); ok {
		return max(n, 1)
	}
	return DefaultExtendSeconds
}
