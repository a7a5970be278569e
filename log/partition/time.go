package partition

import (
	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
)

// exactMs is how far apart the batches of an extent may be for its first time to stand
// for all of them.
const exactMs = 1000

// TimeAt returns when the message at an offset was stored, in Unix milliseconds; it may
// be early by less than a second. The index tells it, and only if the extent spans a
// longer time are its batches read. ok is false if no extent that newest knows of holds
// the offset or comes after it. Errors as for Read.
func (s *Store) TimeAt(newest index.Pointer, partition uint64, offset int64) (timestampMs int64, ok bool, err error) {
	if newest.IsZero() {
		return 0, false, nil
	}
	for {
		timestampMs, ok, err = s.timeAt(newest, partition, offset)
		if !s.startsOver(err, partition) {
			return timestampMs, ok, err
		}
	}
}

func (s *Store) timeAt(newest index.Pointer, partition uint64, offset int64) (timestampMs int64, ok bool, err error) {
	chain, _, err := s.chain(newest, partition, target{offset: offset})
	if err != nil {
		return 0, false, err
	}
	i := index.FindOffset(chain, offset)
	if i == len(chain) {
		return 0, false, nil
	}
	e := &chain[i]
	timestampMs = e.FirstTimestampMs
	if e.LastTimestampMs-e.FirstTimestampMs < exactMs || e.BaseOffset >= offset {
		return timestampMs, true, nil
	}
	_, err = s.readExtent(e, offset, func(batch []byte) bool {
		if h, headerErr := segment.DecodeHeader(batch); headerErr == nil {
			timestampMs = h.TimestampMs
		}
		return false
	})
	return timestampMs, err == nil, err
}
