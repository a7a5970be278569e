package codec

// DecodeSwitch reads the body of a switch, {"enabled":true}. ok is false unless enabled
// is there and a boolean, and when the body is not JSON: whoever turns a switch has one
// thing to say.
func DecodeSwitch(body []byte) (enabled, ok bool) {
	var (
		s      scanner
		fields [1]field
	)
	s.reset(body)
	at, more := s.begin()
	at = s.members(at, more, 1, []string{"enabled"}, fields[:])
	if s.finish(at) != nil || fields[0].to == 0 {
		return false, false
	}
	switch string(s.raw(fields[0])) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}
