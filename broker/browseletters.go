package broker

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/google/uuid"
)

// selectDeadLetters selects the messages that have a dead letter. It starts from the dead
// letters: they are few among the messages.
func (br *browse) selectDeadLetters() error {
	letters := br.collectLetters()
	slices.SortFunc(letters, func(x, y *deadLetter) int {
		return cmp.Or(cmp.Compare(y.CreatedMs, x.CreatedMs), cmp.Compare(x.Partition, y.Partition),
			cmp.Compare(offsetOf(y.MessageID), offsetOf(x.MessageID)), bytes.Compare(x.MessageID[:], y.MessageID[:]))
	})
	// Groups file their dead letters of a message each on its own.
	letters = slices.CompactFunc(letters, func(x, y *deadLetter) bool { return x.MessageID == y.MessageID })
	shelves := map[uint64]*shelf{}
	for _, l := range letters {
		if len(br.found) == br.limit {
			return nil
		}
		if br.steps -= browseOpening; br.steps <= 0 || br.bytes <= 0 {
			br.cut = true
			return nil
		}
		p := br.b.partitions.get(l.Partition)
		if p == nil {
			continue
		}
		s := shelves[l.Partition]
		if s == nil {
			s = br.b.newShelf(p)
			shelves[l.Partition] = s
		}
		br.bytes += s.finder.loaded
		offset, ok, err := s.finder.placeOf(l)
		br.bytes -= s.finder.loaded
		if err != nil {
			if err = br.b.passDamage(p, err); err != nil {
				return err
			}
			br.cut = true
		}
		if ok {
			br.take(located{p, offset, l.CreatedMs})
		}
	}
	return nil
}

// collectLetters returns the dead letters whose messages are of the wanted time.
func (br *browse) collectLetters() (letters []*deadLetter) {
	// A message fails after it was appended.
	merge := mergeDeadLetters(br.queues, br.f.Partition, letterMatch{fromMs: br.fromMs})
	for {
		_, l := merge.next()
		switch {
		case l == nil:
			return letters
		case l.CreatedMs < br.fromMs || l.CreatedMs >= br.toMs:
		case len(letters) == browseLetters:
			br.cut = true
			return letters
		default:
			letters = append(letters, l)
		}
	}
}

// offsetOf returns the offset in an id that was formed by segment.MessageID.
func offsetOf(id uuid.UUID) int64 {
	return int64(id[11])<<32 | int64(binary.BigEndian.Uint32(id[12:]))
}

// placeOf finds the message of a dead letter. ok is false if retention has removed it. The
// offset is in its id; only a message whose id came from elsewhere is looked for among
// those of its time.
func (f *finder) placeOf(l *deadLetter) (offset int64, ok bool, err error) {
	offset = offsetOf(l.MessageID)
	m, ok, err := f.at(offset)
	if err != nil || ok && m.ID == l.MessageID {
		return offset, ok, err
	}
	before, err := f.b.offsetAt(f.v, f.limit, l.CreatedMs)
	if err != nil {
		return 0, false, err
	}
	for offset = before + 1; offset < f.limit; offset++ {
		switch m, ok, err = f.at(offset); {
		case err != nil, ok && m.CreatedAtMs > l.CreatedMs:
			return 0, false, err
		case ok && m.ID == l.MessageID:
			return offset, true, nil
		}
	}
	return 0, false, nil
}
