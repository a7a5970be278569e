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
