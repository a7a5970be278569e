package codec

// Replay is where to send a dead letter. What is absent stays as it was; what is there
// but blank is for the caller to refuse.
type Replay struct {
	Queue     OptString
	Partition OptString
}

// DecodeReplay reads the body of a replay, which may be empty. It holds copies. Errors
// are of type *Error.
func DecodeReplay(body []byte) (Replay, error) {
	var r Replay
	if skipSpace(body, 0) == uint(len(body)) {
		return r, nil
	}
	var (
		s      scanner
		names  = [...]string{"queue", "partition"}
		fields [len(names)]field
	)
	s.reset(body)
	at, more := s.begin()
	at = s.members(at, more, 1, names[:], fields[:])
	if err := s.finish(at); err != nil {
		return r, err
	}
	for i, to := range [...]*OptString{&r.Queue, &r.Partition} {
		if f := fields[i]; f.to > 0 && !to.cast(&s, f) {
			return Replay{}, &Error{Text: names[i] + " is not a string", Offset: -1}
		}
	}
	return r, nil
}
