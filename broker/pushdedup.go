package broker

import (
	"bytes"

	"github.com/google/uuid"

	"github.com/skepmq/skep/index/dedup"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment"
)

// While a batch is decided, results carry the state of each item: itemNew will be
// stored, Duplicate repeats a stored message, and itemRepeat an earlier item of the same
// request, whose number stands in Offset until settleRepeats.
const (
	itemNew    = Queued
	itemRepeat = PushStatus(0xff)
)

// findLeaders marks the items that repeat a transaction id of an earlier item, if they
// are of one request, and hashes the ids of the others.
func (s *pushState) findLeaders(b *Broker, batch *pushBatch, partition uint64, oneRequest bool) {
	if cap(s.hashes) < len(s.items) {
		s.hashes = make([]uint64, len(s.items))
	}
	s.hashes = s.hashes[:len(s.items)]
	clear(s.leaders)
	for i := batch.first; i >= 0; i = s.next[i] {
		it := &s.items[i]
		s.results[i] = PushResult{Status: itemNew, Minted: len(it.TransactionID) == 0}
		if len(it.TransactionID) == 0 {
			continue
		}
		s.hashes[i] = b.ids.Hash(partition, it.TransactionID)
		if batch.count > 1 && oneRequest {
			s.findLeader(i)
		}
	}
}

func (s *pushState) findLeader(i int32) {
	for h := s.hashes[i]; ; h++ {
		leader, ok := s.leaders[h]
		if !ok {
			s.leaders[h] = i
			return
		}
		if bytes.Equal(s.items[leader].TransactionID, s.items[i].TransactionID) {
			s.results[i].Status, s.results[i].Offset = itemRepeat, int64(leader)
			return
		}
	}
}

// A batch is read and decompressed whole, so one request may become several: all of them
// in one entry of the journal and with one timestamp, but none large. One message that is
// larger stands alone.
const (
	maxBatchBytes    = 1 << 20
	maxBatchMessages = 4096
)

// part is one encoded batch of a push.
type part struct {
	start, end int // of its frame in pushState.frame
	count      int
}

// encode writes the frames of the batch's new items, without offset and time.
func (s *pushState) encode(batch *pushBatch) {
	s.frame, s.parts = s.frame[:0], s.parts[:0]
	s.encodeNext(batch)
}

// encodeNext is encode behind the frames that are there already.
func (s *pushState) encodeNext(batch *pushBatch) {
	s.raw = s.raw[:0]
	count := 0
	for i := batch.first; i >= 0; i = s.next[i] {
		if s.results[i].Status != itemNew {
			continue
		}
		it := &s.items[i]
		payload, encrypted := s.encrypt(batch.keys, it)
		if count == maxBatchMessages || (count > 0 && len(s.raw)+len(payload) > maxBatchBytes) {
			s.endPart(count)
			count = 0
		}
		m := segment.Message{
			Payload: payload, Encrypted: encrypted, ProducerSub: s.sub, TraceID: it.TraceID, ID: s.drained.id(i),
		}
		if len(it.TransactionID) > 0 {
			m.TransactionID = it.TransactionID
		}
		s.raw = segment.AppendMessage(s.raw, &m)
		count++
	}
	if count > 0 {
		s.endPart(count)
	}
}

// endPart makes a batch of the messages in s.raw.
func (s *pushState) endPart(count int) {
	start := len(s.frame)
	s.frame = record.BeginFrame(s.frame, record.KindBatch)
	s.frame = segment.AppendBatch(s.frame, &segment.Header{Count: uint32(count)}, s.raw)
	s.frame = record.EndFrame(s.frame, start)
	s.parts = append(s.parts, part{start, len(s.frame), count})
	s.raw = s.raw[:0]
}

func (s *pushState) hasKeys(batch *pushBatch) bool {
	for i := batch.first; i >= 0; i = s.next[i] {
		if !s.results[i].Minted {
			return true
		}
	}
	return false
}

// findStored marks the items whose id is stored in p since the instant, and reports
// whether there are any. The partition is locked.
func (b *Broker) findStored(s *pushState, batch *pushBatch, p *partition, since int64) (bool, error) {
	stored := false
	f := finder{b: b, v: p.viewLocked(), limit: p.end}
	for i := batch.first; i >= 0; i = s.next[i] {
		r := &s.results[i]
		if r.Status != itemNew || r.Minted {
			continue
		}
		var err error
		if s.found, err = b.ids.LookupSince(s.hashes[i], since, s.found[:0]); err != nil {
			return false, err
		}
		if s.found, err = f.appendMinted(s.found, s.items[i].TransactionID, since); err != nil {
			return false, err
		}
		id, offset, found, err := f.earliest(s.found, s.items[i].TransactionID, since)
		if err != nil {
			return false, err
		}
		if found {
			stored = true
			r.Status, r.MessageID, r.Offset = Duplicate, id, offset
		}
	}
	return stored, nil
}

// appendMinted appends the offset of the message whose id, and so whose transaction id,
// the broker has minted as key. The index does not have it: the id itself says where to
// look. Someone who pushes a delivered message again may well send its id along.
func (f *finder) appendMinted(found []int64, key []byte, since int64) ([]int64, error) {
	if len(key) != uuidTextLen {
		return found, nil
	}
	id, err := uuid.ParseBytes(key)
	if o := mintedFor(id); err != nil || o < f.v.start || o >= f.limit {
		return found, nil // as most ids that clients have made
	}
	o, ok, err := f.mintedOffset(string(key), since)
	if ok {
		found = append(found, o)
	}
	return found, err
}

// earliest picks among candidates the first message with that transaction id appended at
// or after since. One that retention has removed is still known by its key: if there is no
// other, id is zero and offset says where it was.
func (f *finder) earliest(candidates []int64, key []byte, since int64) (id uuid.UUID, offset int64, found bool, err error) {
	removed := int64(-1)
	for _, o := range candidates {
		if o < f.v.start {
			removed = o
			continue
		}
		if found && o >= offset {
			continue
		}
		m, ok, err := f.at(o)
		if err != nil {
			return id, 0, false, err
		}
		if ok && m.CreatedAtMs >= since && m.hasID(key) {
			id, offset, found = m.ID, o, true
		}
	}
	if !found && removed >= 0 {
		return uuid.UUID{}, removed, true, nil
	}
	return id, offset, found, nil
}

// settleStored fills in what became of the stored items and indexes their ids.
func (s *pushState) settleStored(b *Broker, batch *pushBatch, p *partition, base, stamp int64, id uuid.UUID) {
	s.entries = s.entries[:0]
	offset := base
	for i := batch.first; i >= 0; i = s.next[i] {
		r := &s.results[i]
		if r.Status != itemNew {
			continue
		}
		r.MessageID, r.Offset = segment.MessageID(id, offset), offset
		if s.drained != nil {
			r.MessageID = s.drained.id(i)
		}
		if r.Minted && s.drained != nil {
			s.hashes[i] = b.ids.Hash(p.number, appendUUID(nil, r.MessageID))
		}
		if !r.Minted || s.drained != nil {
			b.ids.Add(s.hashes[i], offset, stamp)
			s.entries = append(s.entries, dedup.Entry{Hash: s.hashes[i], Offset: offset, TimestampMs: stamp})
		}
		offset++
	}
	b.changed.ids(s.entries)
}

// settleRepeats gives the items that repeat an earlier one of the request the fate of
// that one.
func (s *pushState) settleRepeats(batch *pushBatch) {
	for i := batch.first; i >= 0; i = s.next[i] {
		r := &s.results[i]
		if r.Status == itemRepeat {
			leader := &s.results[r.Offset]
			r.Status, r.MessageID, r.Offset = Duplicate, leader.MessageID, leader.Offset
		}
	}
}
