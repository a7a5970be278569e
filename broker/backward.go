package broker

import (
	"errors"

	"github.com/skepmq/skep/segment"
)

// batchesBackward calls fn with the batches of v that begin before an offset, the last one
// first, until fn returns false. Otherwise it is as batches. The oldest one may begin
// before the view's start.
func (b *Broker) batchesBackward(v view, before int64, fn func(h *segment.Header, batch []byte) bool) error {
	for i := min(tailIndex(v.tail, before-1), len(v.tail)-1); i >= 0; i-- {
		h, err := segment.DecodeHeader(v.tail[i])
		if err != nil {
			return err
		}
		if h.BaseOffset < before && !fn(&h, v.tail[i]) {
			return nil
		}
	}
	if v.filedEnd <= v.start {
		return nil
	}
	var fnErr error
	err := b.store.ReadBackward(v.newest, v.number, min(before, v.filedEnd), func(batch []byte) bool {
		h, err := segment.DecodeHeader(batch)
		if err != nil {
			fnErr = err
			return false
		}
		return h.EndOffset() > v.start && fn(&h, batch)
	})
	return errors.Join(err, fnErr)
}
