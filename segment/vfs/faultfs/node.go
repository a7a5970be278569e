package faultfs

import "slices"

// An unsynced write reaches the disk or does not in units of the page cache, of the disk,
// or of a few bytes.
const (
	blockSize  = 4096
	sectorSize = 512
)

// node is a file or a directory, whatever its names.
type node struct {
	names  map[string]*node // of a directory, as processes see it; nil for a file
	synced map[string]*node // of a directory, as on the disk

	data  []byte   // of a file, as processes see it
	disk  []byte   // as on the disk before writes
	later []change // what disk lacks of data, in order
}

type changeState int

const (
	dirty  changeState = iota
	lost               // its sync has failed: the disk may have it or not, for ever
	synced             // behind a lost one, so it cannot be folded into disk yet
)

// change is a write or a truncation of a file.
type change struct {
	pos      int64 // of a truncation, the new size
	data     []byte
	truncate bool
	state    changeState
}

func newDir() *node {
	return &node{names: map[string]*node{}, synced: map[string]*node{}}
}

func (n *node) isDir() bool { return n.names != nil }

func (n *node) write(p []byte, pos int64) {
	if len(p) == 0 {
		return
	}
	n.apply(change{pos: pos, data: slices.Clone(p)})
}

func (n *node) truncate(size int64) {
	n.apply(change{pos: size, truncate: true})
}

func (n *node) apply(c change) {
	n.data = c.applyTo(n.data)
	n.later = append(n.later, c)
}

// sync makes every dirty change durable.
func (n *node) sync() {
	for i := range n.later {
		if n.later[i].state == dirty {
			n.later[i].state = synced
		}
	}
	for len(n.later) > 0 && n.later[0].state == synced {
		n.disk = n.later[0].applyTo(n.disk)
		n.later = n.later[1:]
	}
}

// failSync leaves every dirty change in doubt.
func (n *node) failSync() {
	for i := range n.later {
		if n.later[i].state == dirty {
			n.later[i].state = lost
		}
	}
}

// crashed returns what a power cut leaves of a file.
func (n *node) crashed(ch *chance) []byte {
	out := slices.Clone(n.disk)
	for _, c := range n.later {
		switch {
		case c.state == synced:
			out = c.applyTo(out)
		case c.truncate:
			if ch.keep() {
				out = c.applyTo(out)
			}
		default:
			out = c.applyUnits(out, ch)
		}
	}
	return out
}

func (c change) applyTo(b []byte) []byte {
	if c.truncate {
		return resize(b, c.pos)
	}
	if end := c.pos + int64(len(c.data)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[c.pos:], c.data)
	return b
}

// applyUnits applies those units of a write that reached the disk. The length may get
// there without the bytes.
func (c change) applyUnits(b []byte, ch *chance) []byte {
	for pos, data := c.pos, c.data; len(data) > 0; {
		n := min(int64(len(data)), ch.unit-pos%ch.unit)
		end := pos + n
		switch {
		case ch.keep():
			b = change{pos: pos, data: data[:n]}.applyTo(b)
		case end > int64(len(b)) && ch.keep():
			b = resize(b, end)
		}
		pos, data = end, data[n:]
	}
	return b
}

// resize cuts b or extends it with zeros.
func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size]
	}
	old := len(b)
	b = slices.Grow(b, int(size)-old)[:size]
	clear(b[old:]) // what a truncation has left there
	return b
}
