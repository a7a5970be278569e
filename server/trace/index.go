package trace

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"sort"

	"github.com/google/uuid"
)

var errIndex = errors.New("trace: corrupt index")

// index reads an index in place.
type index struct {
	r io.ReaderAt
	footer
}

// openIndex reads the footer of an index of that size.
func openIndex(r io.ReaderAt, size int64) (*index, error) {
	if size < footerSize {
		return nil, errIndex
	}
	b := make([]byte, footerSize)
	if _, err := r.ReadAt(b, size-footerSize); err != nil {
		return nil, err
	}
	sum := binary.LittleEndian.Uint32(b[footerSize-4:])
	if string(b[:4]) != magic || crc32.Checksum(b[:footerSize-4], castagnoli) != sum {
		return nil, errIndex
	}
	x := &index{r: r}
	for i, n := range [...]*int{&x.addresses, &x.uses, &x.transactions, &x.labels, &x.names} {
		*n = int(binary.LittleEndian.Uint32(b[4+4*i:]))
	}
	for i, n := range [...]*int64{&x.firstMs, &x.lastMs, &x.dataBytes} {
		*n = int64(binary.LittleEndian.Uint64(b[24+8*i:]))
	}
	if x.namesAt()+int64(x.names)+footerSize != size {
		return nil, errIndex
	}
	return x, nil
}

func (x *index) usesAt() int64         { return int64(x.addresses) * addressSize }
func (x *index) transactionsAt() int64 { return x.usesAt() + int64(x.uses)*useSize }
func (x *index) labelsAt() int64       { return x.transactionsAt() + int64(x.transactions)*transactionSize }
func (x *index) namesAt() int64        { return x.labelsAt() + int64(x.labels)*entrySize }

// search returns the first of n elements at an offset that begins with hash or a larger one.
func (x *index) search(at int64, n, size int, hash uint64) (int, error) {
	var b [8]byte
	var failed error
	i := sort.Search(n, func(i int) bool {
		if failed != nil {
			return true
		}
		_, failed = x.r.ReadAt(b[:], at+int64(i)*int64(size))
		return binary.LittleEndian.Uint64(b[:]) >= hash
	})
	return i, failed
}

// chunk is how many elements are read at a time.
const chunk = 256

// each reads n elements of a size, and calls fn with one after the other until it returns
// false. What it is given is gone with the next.
func (x *index) each(at int64, n, size int, fn func(element []byte) bool) error {
	b := make([]byte, min(n, chunk)*size)
	for n > 0 {
		part := b[:min(n, chunk)*size]
		if _, err := x.r.ReadAt(part, at); err != nil {
			return err
		}
		at += int64(len(part))
		n -= len(part) / size
		for ; len(part) > 0; part = part[size:] {
			if !fn(part[:size]) {
				return nil
			}
		}
	}
	return nil
}

// find returns where traces of an address may be, in order.
func (x *index) find(hash uint64) (at []uint32, err error) {
	i, err := x.search(0, x.addresses, addressSize, hash)
	if err != nil {
		return nil, err
	}
	err = x.each(int64(i)*addressSize, x.addresses-i, addressSize, func(b []byte) bool {
		if binary.LittleEndian.Uint64(b) != hash {
			return false
		}
		at = append(at, binary.LittleEndian.Uint32(b[8:]))
		return true
	})
	return at, err
}

// label returns the entry of a name, or one without uses.
func (x *index) label(key labelKey) (found entry, err error) {
	hash := nameHash(key.tenant, key.name)
	err = x.eachLabel(hash, hash, func(e *entry) {
		if e.tenant == key.tenant && e.text == key.name {
			found = *e
		}
	})
	return found, err
}

// eachLabel calls fn with the labels whose hashes lie between two, in order.
func (x *index) eachLabel(low, high uint64, fn func(*entry)) error {
	i, err := x.search(x.labelsAt(), x.labels, entrySize, low)
	if err != nil {
		return err
	}
	var bad error
	var entries []entry
	flush := func() {
		bad = errors.Join(bad, x.readNames(entries))
		for i := range entries {
			if bad == nil {
				fn(&entries[i])
			}
		}
		entries = entries[:0]
	}
	err = x.each(x.labelsAt()+int64(i)*entrySize, x.labels-i, entrySize, func(b []byte) bool {
		e := decodeEntry(b)
		if e.hash > high || !x.holds(&e) {
			return false
		}
		if entries = append(entries, e); len(entries) == chunk {
			flush()
		}
		return bad == nil
	})
	flush()
	return errors.Join(err, bad)
}

func decodeEntry(b []byte) (e entry) {
	e.hash = binary.LittleEndian.Uint64(b)
	copy(e.tenant[:], b[8:])
	e.lastMs = int64(binary.LittleEndian.Uint64(b[24:]))
	for i, n := range [...]*int{&e.name, &e.nameSize, &e.use, &e.uses, &e.transaction, &e.transactions} {
		*n = int(binary.LittleEndian.Uint32(b[32+4*i:]))
	}
	return e
}

// holds reports whether what e points to lies in the index.
func (x *index) holds(e *entry) bool {
	return e.name+e.nameSize <= x.names && e.use+e.uses <= x.uses && e.transaction+e.transactions <= x.transactions
}

// readNames reads the names of labels that stand behind one another.
func (x *index) readNames(entries []entry) error {
	if len(entries) == 0 {
		return nil
	}
	first, last := entries[0].name, entries[len(entries)-1]
	end := last.name + last.nameSize
	if end < first {
		return errIndex
	}
	b := make([]byte, end-first)
	if _, err := x.r.ReadAt(b, x.namesAt()+int64(first)); err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		if e.name < first || e.name+e.nameSize > end {
			return errIndex
		}
		e.text = string(b[e.name-first:][:e.nameSize])
	}
	return nil
}

// eachUse calls fn with the uses of a label, in order.
func (x *index) eachUse(e *entry, fn func(use)) error {
	return x.each(x.usesAt()+int64(e.use)*useSize, e.uses, useSize, func(b []byte) bool {
		fn(use{binary.LittleEndian.Uint32(b), uuid.UUID(b[4:useSize])})
		return true
	})
}

// hashes appends the hashes up to high of the transaction ids of a label.
func (x *index) hashes(dst []uint64, e *entry, high uint64) ([]uint64, error) {
	err := x.each(x.transactionsAt()+int64(e.transaction)*transactionSize, e.transactions, transactionSize, func(b []byte) bool {
		h := binary.LittleEndian.Uint64(b)
		if h <= high {
			dst = append(dst, h)
		}
		return h <= high
	})
	return dst, err
}
