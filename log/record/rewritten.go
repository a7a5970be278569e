package record

import "fmt"

// Rewritten is a segment that holds what others held and was still needed, in one run. It
// is all that the catalogue says of such a segment; it is sealed from its beginning.
type Rewritten struct {
	ID        uint32
	Queue     uint32
	Partition uint64 // 0: shared by the partitions of the queue
	Length    int64
	// Replaces are the segments that are gone, those replaced by one of them included.
	// Pointers into them are answered by this one.
	Replaces []uint32
}

// AppendRewritten appends r as a frame, the fields in the order of the struct, Replaces as
// their number and each of them.
func AppendRewritten(dst []byte, r *Rewritten) []byte {
	start := len(dst)
	dst = BeginFrame(dst, KindRewritten)
	dst = appendU32(dst, r.ID)
	dst = appendU32(dst, r.Queue)
	dst = appendU64(dst, r.Partition)
	dst = appendI64(dst, r.Length)
	dst = appendU32(dst, uint32(len(r.Replaces)))
	for _, id := range r.Replaces {
		dst = appendU32(dst, id)
	}
	return EndFrame(dst, start)
}

// DecodeRewritten decodes the body of a KindRewritten frame.
func DecodeRewritten(body []byte) (Rewritten, error) {
	f := fields{b: body}
	r := Rewritten{ID: f.u32(), Queue: f.u32(), Partition: f.u64(), Length: f.i64()}
	n := f.u32()
	if f.err == nil && int64(n)*4 > int64(len(f.b)) {
		return r, fmt.Errorf("rewritten: %w: %d ids in %d bytes", ErrShort, n, len(f.b))
	}
	if f.err == nil && n == 0 {
		return r, fmt.Errorf("rewritten: %w: replaces nothing", ErrCorrupt)
	}
	for range n {
		r.Replaces = append(r.Replaces, f.u32())
	}
	return r, f.end("rewritten")
}
