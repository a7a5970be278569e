package codec

// Valid returns an *Error unless value is one JSON value in valid UTF-8, with or
// without white space around it.
func Valid(value []byte) error {
	var s scanner
	s.reset(value)
	return s.finish(s.skip(0, 0))
}
