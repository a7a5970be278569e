package segment

import "errors"

// scanBufferLen is how much Scan reads at a time, larger batches apart.
const scanBufferLen = 1 << 20

// Scan walks the batches that lie one behind the other in the positions from to to
// and calls fn with each, verified; batch is only valid during the call. It returns
// the position where it ended: to, or where the batches do. There it returns a
// *CorruptError, for Scan cannot tell damage from what is no batch: the caller
// knows what may follow. An error of fn ends the walk and is returned as it is.
func (r *Reader) Scan(from, to int64, fn func(position int64, h *Header, batch []byte) error) (int64, error) {
	var (
		window = make([]byte, 0, min(scanBufferLen, max(to-from, 0)))
		at     = from // of window[0]
	)
	for at < to {
		h, err := Verify(window)
		if errors.Is(err, ErrShort) {
			need := HeaderLen
			if h, err := DecodeHeader(window); err == nil {
				need = h.Len()
			}
			if int64(need) > to-at {
				return at, r.Corrupt(at, ErrShort)
			}
			if window, err = r.fill(window, at, to, need); err != nil {
				return at, err
			}
			continue
		}
		if err != nil {
			return at, r.Corrupt(at, err)
		}
		if err := fn(at, &h, window[:h.Len():h.Len()]); err != nil {
			return at, err
		}
		window = window[h.Len():]
		at += int64(h.Len())
	}
	return at, nil
}

// fill returns the bytes from position at on, at least need of them, none past to.
// It keeps those that window holds already.
func (r *Reader) fill(window []byte, at, to int64, need int) ([]byte, error) {
	size := int(min(int64(max(need, scanBufferLen)), to-at))
	next := make([]byte, size)
	held := copy(next, window)
	return next, r.ReadAt(next[held:], at+int64(held))
}
