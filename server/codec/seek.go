package codec

// Seek is where a consumer group is to go. Of a timestamp only the text is read; what it
// means is for the caller to find out.
type Seek struct {
	ToEnd     bool
	Timestamp string // "": none
	Empty     bool   // there was no body, or one without members
}

// DecodeSeek reads the body of a seek, {"toEnd":true} or {"timestamp":"…"}, which may be
// empty. It holds copies. Errors are of type *Error.
func DecodeSeek(body []byte) (Seek, error) {
	if skipSpace(body, 0) == uint(len(body)) {
		return Seek{Empty: true}, nil
	}
	var (
		s      scanner
		names  = [...]string{"toEnd", "timestamp"}
		fields [len(names)]field
	)
	s.reset(body)
	at, more := s.begin()
	seek := Seek{Empty: !more}
	at = s.members(at, more, 1, names[:], fields[:])
	if err := s.finish(at); err != nil {
		return Seek{}, err
	}
	if toEnd := fields[0]; !s.absent(toEnd) {
		switch string(s.raw(toEnd)) {
		case "true":
			seek.ToEnd = true
		case "false":
		default:
			return Seek{}, &Error{Text: "toEnd is not true or false", Offset: -1}
		}
	}
	text, ok := s.optional(fields[1])
	if !ok {
		return Seek{}, &Error{Text: "timestamp is not a string", Offset: -1}
	}
	seek.Timestamp = string(text)
	return seek, nil
}

// DecodeSubscription reads the body of a change of subscription,
// {"subscriptionTimestamp":"…"}, and returns a copy of the text: "" for one that is not
// there, or no string. Errors are of type *Error.
func DecodeSubscription(body []byte) (timestamp string, err error) {
	if skipSpace(body, 0) == uint(len(body)) {
		return "", nil
	}
	var (
		s      scanner
		fields [1]field
	)
	s.reset(body)
	at, more := s.begin()
	at = s.members(at, more, 1, []string{"subscriptionTimestamp"}, fields[:])
	if err := s.finish(at); err != nil {
		return "", err
	}
	if text, ok := s.optional(fields[0]); ok {
		timestamp = string(text)
	}
	return timestamp, nil
}
