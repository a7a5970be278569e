package record

// AppendSegmentDropped appends a frame: id u32. No start of a partition reaches back into
// the segment any more, and its file goes once this is on disk.
func AppendSegmentDropped(dst []byte, id uint32) []byte {
	start := len(dst)
	dst = appendU32(BeginFrame(dst, KindSegmentDropped), id)
	return EndFrame(dst, start)
}

// DecodeSegmentDropped decodes the body of a KindSegmentDropped frame.
func DecodeSegmentDropped(body []byte) (id uint32, err error) {
	f := fields{b: body}
	id = f.u32()
	return id, f.end("segment dropped")
}

// Cut says that a partition has lost its oldest messages to the rules of its queue.
type Cut struct {
	Partition uint64
	Start     int64 // first offset that is left
	StartMs   int64 // append time there, or of the last message where nothing is left
}

// AppendCut appends c as a frame, the fields in the order of the struct.
func AppendCut(dst []byte, c *Cut) []byte {
	start := len(dst)
	dst = BeginFrame(dst, KindCut)
	dst = appendU64(dst, c.Partition)
	dst = appendI64(dst, c.Start)
	dst = appendI64(dst, c.StartMs)
	return EndFrame(dst, start)
}

// DecodeCut decodes the body of a KindCut frame.
func DecodeCut(body []byte) (Cut, error) {
	f := fields{b: body}
	c := Cut{Partition: f.u64(), Start: f.i64(), StartMs: f.i64()}
	return c, f.end("cut")
}
