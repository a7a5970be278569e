package testkit

import "bytes"

// kind is what calls have in common that a Contract sees no difference in.
type kind struct {
	operation       *described
	status          int
	request, answer shape
}

// manyAlike is how many calls of one kind Sample looks at.
const manyAlike = 50

// Sample is Check for tests that make very many calls: of those of one kind it looks at the
// first.
func (c *Contract) Sample(method, target, body string, a Answer) error {
	k := kind{c.find(method, target), a.Status, shapeOf([]byte(body)), shapeOf(a.Body)}
	c.mu.Lock()
	c.seen[k]++
	n := c.seen[k]
	c.mu.Unlock()
	if n > manyAlike {
		return nil
	}
	return c.Check(method, target, body, a)
}

// shape is a set of the members in a JSON text, each with the kind of its value: a bit for each,
// which some of them share.
type shape [4]uint64

func shapeOf(text []byte) (s shape) {
	for {
		begin := bytes.IndexByte(text, '"')
		if begin < 0 {
			return s
		}
		text = text[begin+1:]
		end := 0
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		if end+2 >= len(text) {
			return s
		}
		if text[end+1] == ':' {
			hash := uint32(2166136261) // FNV-1a
			for _, b := range text[:end] {
				hash = (hash ^ uint32(b)) * 16777619
			}
			first := text[end+2]
			if first >= '1' && first <= '9' {
				first = '0'
			}
			hash = (hash ^ uint32(first)) * 16777619
			hash ^= hash >> 16
			s[hash>>6&3] |= 1 << (hash & 63)
		}
		text = text[end+1:]
	}
}
