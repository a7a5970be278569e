package broker

import "github.com/skepmq/skep/segment"

// roomStep is the least that is asked for at a time.
const roomStep = 64 << 10

// clearRoom begins an answer anew.
func (p *popper) clearRoom() {
	p.room = FreeRoom
	if p.asked {
		p.asked = false
		p.req.Room.GiveBack()
	}
}

// take counts n bytes of the answer, and reports whether there is room for them.
func (p *popper) take(n int64, first bool) bool {
	if n > p.room {
		if p.req.Room == nil {
			return true
		}
		more := max(n-p.room, roomStep)
		p.asked = true
		if !p.req.Room.Take(more, first) {
			return false
		}
		p.room += more
	}
	p.room -= n
	return true
}

// unpacked returns the memory that reading a batch takes: its bytes, if not the journal
// keeps them anyway, and those of its body, if it is packed.
func (cl *claim) unpacked(h *segment.Header) (n int64) {
	if h.BaseOffset < cl.view.filedEnd {
		n = int64(h.Len())
	}
	if h.Codec != segment.CodecRaw {
		n += int64(h.RawLen)
	}
	return n
}

// begins reports whether the next message is the first of the answer.
func (cl *claim) begins() bool { return cl.first && len(cl.spans) == 0 }

// noRoom says what happens to a claim that finds no room: the answer ends before it, or
// there is none.
func (cl *claim) noRoom() error {
	if cl.begins() {
		return ErrNoRoom
	}
	cl.full = true
	return nil
}

// Bytes returns about what the messages of the part take in an answer.
func (p *PopPart) Bytes() (n int64) {
	for i := range p.Spans {
		n += p.Spans[i].bytes
	}
	return n
}
