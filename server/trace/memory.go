package trace

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
)

// memory finds the traces of a file that has no index yet. What stands in its slices never
// changes, so a copy of the slices is a copy of all.
type memory struct {
	addresses       []address // by position
	labels          map[labelKey]*label
	uses            int // of labels
	firstMs, lastMs int64
}

// address says where a trace of a message is.
type address struct {
	hash uint64
	at   uint32
}

type labelKey struct {
	tenant uuid.UUID
	name   string
}

// label is the traces with a name.
type label struct {
	uses         []use    // by position
	transactions []uint64 // hashes of their transaction ids
	lastMs       int64
}

type use struct {
	at        uint32
	partition uuid.UUID
}

func (m *memory) add(at uint32, t *Trace) {
	if len(m.addresses) == 0 {
		m.firstMs, m.lastMs = t.CreatedMs, t.CreatedMs
	}
	m.firstMs, m.lastMs = min(m.firstMs, t.CreatedMs), max(m.lastMs, t.CreatedMs)
	m.addresses = append(m.addresses, address{addressHash(t.Tenant, t.PartitionID, t.TransactionID), at})
	if m.labels == nil {
		m.labels = map[labelKey]*label{}
	}
	for _, name := range t.Names {
		l := m.labels[labelKey{t.Tenant, string(name)}]
		if l == nil {
			l = &label{lastMs: t.CreatedMs}
			m.labels[labelKey{t.Tenant, string(name)}] = l
		}
		l.uses = append(l.uses, use{at, t.PartitionID})
		l.transactions = append(l.transactions, xxhash.Sum64(t.TransactionID))
		l.lastMs = max(l.lastMs, t.CreatedMs)
		m.uses++
	}
}

// full reports whether an index of m is as large as one may be. It bounds what a file of
// short traces takes in memory.
func (m *memory) full() bool { return len(m.addresses) >= maxTraces || m.uses >= maxUses }

// find returns where traces of an address may be.
func (m *memory) find(hash uint64) (at []uint32) {
	for _, a := range m.addresses {
		if a.hash == hash {
			at = append(at, a.at)
		}
	}
	return at
}

// label returns a copy of m with one label and nothing else.
func (m *memory) label(key labelKey) *memory {
	one := &memory{labels: map[labelKey]*label{}}
	if l := m.labels[key]; l != nil {
		held := *l
		one.labels[key] = &held
	}
	return one
}

// allLabels returns a copy of m without its addresses.
func (m *memory) allLabels() *memory {
	all := &memory{labels: make(map[labelKey]*label, len(m.labels))}
	held := make([]label, 0, len(m.labels))
	for key, l := range m.labels {
		held = append(held, *l)
		all.labels[key] = &held[len(held)-1]
	}
	return all
}

// An index is
//
//	addresses     hash uint64, position uint32; by hash and position
//	uses          position uint32, partition in 16 bytes; label by label, by position
//	transactions  uint64, hashes of transaction ids; label by label, ascending, each once
//	labels        see type entry; by hash, tenant and name
//	names         bytes, label by label
//	footer        what its fields say
//
// Integers are little-endian. testdata/trace.index.golden pins the bytes.
const (
	addressSize     = 8 + 4
	useSize         = 4 + 16
	transactionSize = 8
	entrySize       = 8 + 16 + 8 + 6*4
	footerSize      = 4 + 5*4 + 3*8 + 4
)

// entry is a label in an index. Starts are numbers of entries, but for the name's.
type entry struct {
	hash         uint64
	tenant       uuid.UUID
	lastMs       int64
	name         int // where it starts
	nameSize     int
	use, uses    int
	transaction  int
	transactions int
	text         string // the name; not part of the entry
}

func appendEntry(b []byte, e *entry) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.hash)
	b = append(b, e.tenant[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.lastMs))
	for _, n := range [...]int{e.name, e.nameSize, e.use, e.uses, e.transaction, e.transactions} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// footer ends an index: 4 bytes of magic, the counts, the times, and a CRC-32C of that.
type footer struct {
	addresses, uses, transactions, labels, names int // names in bytes
	firstMs, lastMs, dataBytes                   int64
}

const magic = "STX1"

func appendFooter(b []byte, f *footer) []byte {
	start := len(b)
	b = append(b, magic...)
	for _, n := range [...]int{f.addresses, f.uses, f.transactions, f.labels, f.names} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	for _, n := range [...]int64{f.firstMs, f.lastMs, f.dataBytes} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// encode writes m as an index of a file of that size.
func (m *memory) encode(dataBytes int64) []byte {
	f := footer{addresses: len(m.addresses), uses: m.uses, labels: len(m.labels), firstMs: m.firstMs, lastMs: m.lastMs, dataBytes: dataBytes}
	b := make([]byte, 0, f.addresses*addressSize+f.uses*(useSize+transactionSize)+f.labels*(entrySize+32)+footerSize)
	sorted := slices.Clone(m.addresses)
	slices.SortFunc(sorted, func(x, y address) int { return cmp.Or(cmp.Compare(x.hash, y.hash), cmp.Compare(x.at, y.at)) })
	for _, a := range sorted {
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, a.hash), a.at)
	}
	entries := m.entries()
	f.uses = 0
	for i := range entries {
		e := &entries[i]
		e.use = f.uses
		for _, u := range m.labels[labelKey{e.tenant, e.text}].uses {
			b = append(binary.LittleEndian.AppendUint32(b, u.at), u.partition[:]...)
			e.uses++
		}
		f.uses += e.uses
	}
	for i := range entries {
		e := &entries[i]
		hashes := slices.Clone(m.labels[labelKey{e.tenant, e.text}].transactions)
		slices.Sort(hashes)
		e.transaction = f.transactions
		for _, h := range slices.Compact(hashes) {
			b = binary.LittleEndian.AppendUint64(b, h)
			e.transactions++
		}
		f.transactions += e.transactions
	}
	for i := range entries {
		e := &entries[i]
		e.name, e.nameSize = f.names, len(e.text)
		f.names += e.nameSize
		b = appendEntry(b, e)
	}
	for i := range entries {
		b = append(b, entries[i].text...)
	}
	return appendFooter(b, &f)
}

// entries returns the labels in the order of an index, without what they point to.
func (m *memory) entries() []entry {
	all := make([]entry, 0, len(m.labels))
	for key, l := range m.labels {
		all = append(all, entry{hash: nameHash(key.tenant, key.name), tenant: key.tenant, lastMs: l.lastMs, text: key.name})
	}
	slices.SortFunc(all, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.hash, y.hash), bytes.Compare(x.tenant[:], y.tenant[:]), cmp.Compare(x.text, y.text))
	})
	return all
}
