package trace

import (
	"bytes"
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/google/uuid"
)

// Name is what there is of a name.
type Name struct {
	Name     string
	Traces   int
	Messages int // different transaction ids
	LastMs   int64
}

const (
	// MaxNames is how far a list of names can be looked into.
	MaxNames = 100_000
	// sliceLabels is about how many labels of all files are added up together.
	sliceLabels = 128 << 10
	// maxHashes is how many transaction ids are compared for a page.
	maxHashes = 4 << 20
)

// Names returns a page of a tenant's names, those used last first, and how many there are.
// It ends at MaxNames.
//
// No file knows the whole of a name. So they are all looked at in slices: the labels whose
// hashes lie between two, of all files, are added up in memory, and of the sums only those
// that may be on the page are kept.
func (l *Log) Names(tenant uuid.UUID, offset, limit int) (page []Name, total int, err error) {
	parts, err := l.parts((*memory).allLabels)
	if err != nil {
		return nil, 0, err
	}
	labels := 0
	for i := range parts {
		p := &parts[i]
		if p.memory != nil {
			p.encoded = p.memory.encode(0)
		}
		l.indexOf(p, func(x *index) error { labels += x.labels; return nil })
	}
	top := newest{most: min(offset+limit, MaxNames)}
	count := uint64(labels/l.o.sliceLabels + 1)
	for i := range count {
		low, high := i*(math.MaxUint64/count), (i+1)*(math.MaxUint64/count)-1
		if i == count-1 {
			high = math.MaxUint64
		}
		sums := l.sums(parts, tenant, low, high)
		total += len(sums)
		for _, n := range sums {
			top.add(n)
		}
	}
	slices.SortFunc(top.names, func(x, y *Name) int { return compareNames(y, x) })
	for _, n := range top.names[min(offset, len(top.names)):] {
		page = append(page, *n)
	}
	l.countMessages(parts, tenant, page)
	return page, total, nil
}

// indexOf calls fn with the index of a part, on the disk or in memory.
func (l *Log) indexOf(p *part, fn func(*index) error) {
	if p.encoded == nil {
		l.index(p.number, fn)
		return
	}
	x, err := openIndex(bytes.NewReader(p.encoded), int64(len(p.encoded)))
	if err == nil {
		err = fn(x)
	}
	if err != nil {
		panic("BUG: an index in memory cannot be read: " + err.Error())
	}
}

// sums adds up the labels of a tenant whose hashes lie between two.
func (l *Log) sums(parts []part, tenant uuid.UUID, low, high uint64) map[string]*Name {
	sums := map[string]*Name{}
	for i := range parts {
		l.indexOf(&parts[i], func(x *index) error {
			return x.eachLabel(low, high, func(e *entry) {
				if e.tenant != tenant {
					return
				}
				n := sums[e.text]
				if n == nil {
					n = &Name{Name: e.text, LastMs: e.lastMs}
					sums[e.text] = n
				}
				n.Traces += e.uses
				n.LastMs = max(n.LastMs, e.lastMs)
			})
		})
	}
	return sums
}

// countMessages counts the transaction ids of names. The same id may be in several files, so
// they are compared, by their hashes. Where those are too many, only the ids up to a hash
// are counted, and tell how many there are: a hash says nothing about its id.
func (l *Log) countMessages(parts []part, tenant uuid.UUID, page []Name) {
	if len(page) == 0 {
		return
	}
	found := make([]entry, len(parts)*len(page))
	all := make([]int, len(page))
	for i := range parts {
		l.indexOf(&parts[i], func(x *index) (err error) {
			for j := range page {
				e := &found[i*len(page)+j]
				if *e, err = x.label(labelKey{tenant, page[j].Name}); err != nil {
					*e = entry{}
					return err
				}
				all[j] += e.transactions
			}
			return nil
		})
	}
	hashes, share := make([][]uint64, len(page)), make([]int, len(page))
	for j := range page {
		share[j] = 1 + all[j]/max(l.o.maxHashes/len(page), 1)
	}
	for i := range parts {
		l.indexOf(&parts[i], func(x *index) (err error) {
			for j := range page {
				if e := &found[i*len(page)+j]; e.transactions > 0 {
					if hashes[j], err = x.hashes(hashes[j], e, math.MaxUint64/uint64(share[j])); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	for j := range page {
		slices.Sort(hashes[j])
		page[j].Messages = len(slices.Compact(hashes[j])) * share[j]
	}
}

// newest keeps those names that were used last, in a heap with the oldest of them on top.
type newest struct {
	names []*Name
	most  int
}

func (h *newest) add(n *Name) {
	switch {
	case len(h.names) < h.most:
		heap.Push(h, n)
	case h.most > 0 && compareNames(n, h.names[0]) > 0:
		h.names[0] = n
		heap.Fix(h, 0)
	}
}

// compareNames orders names by their last use, and those of one instant against the alphabet:
// a list runs backwards.
func compareNames(x, y *Name) int {
	return cmp.Or(cmp.Compare(x.LastMs, y.LastMs), cmp.Compare(y.Name, x.Name))
}

func (h *newest) Len() int           { return len(h.names) }
func (h *newest) Less(i, j int) bool { return compareNames(h.names[i], h.names[j]) < 0 }
func (h *newest) Swap(i, j int)      { h.names[i], h.names[j] = h.names[j], h.names[i] }
func (h *newest) Push(n any)         { h.names = append(h.names, n.(*Name)) }
func (h *newest) Pop() any {
	last := h.names[len(h.names)-1]
	h.names = h.names[:len(h.names)-1]
	return last
}
