package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// placeModel knows what every group is owed, message by message, whatever is stored of
// cursors and whatever follows from subscriptions.
type placeModel struct {
	*keeper
	t     *testing.T
	rng   *rand.Rand
	fsys  *faultfs.FS
	step  string
	owed  map[string]map[string]bool // by group, by id
	count int
}

// stored is a message that is kept.
type stored struct {
	partition string
	ms        int64
}

const modelCleanup = 150 * time.Second

func (m *placeModel) openBroker(fsys *faultfs.FS) {
	m.t.Helper()
	b, err := Open(Options{
		FS: fsys, Dir: "data", Logger: zerolog.Nop(), Now: m.now, RetentionInterval: time.Hour, CleanupAge: modelCleanup,
		CheckpointBytes: 1 << 40, CheckpointEvery: 24 * time.Hour, DiskHighPercent: 100, SegmentBytes: 4 << 10,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.fsys, m.b = fsys, b
}

func (m *placeModel) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatalf("%s: %v", m.step, err)
	}
}

// messages reads what is kept.
func (m *placeModel) messages() map[string]stored {
	kept := map[string]stored{}
	q := m.b.queue(DefaultTenant, "q")
	for _, p := range q.snapshot() {
		p.mu.Lock()
		v := p.viewLocked()
		p.mu.Unlock()
		err := m.b.batches(v, v.start, func(h *segment.Header, batch []byte) bool {
			s, err := newSpan(h, batch, v.start, int(h.Count))
			m.must(err)
			for msg := range s.messages() {
				kept[string(msg.TransactionID)] = stored{p.name, msg.CreatedAtMs}
			}
			return true
		})
		m.must(err)
	}
	return kept
}

func (m *placeModel) groups() (names []string) {
	for name := range m.owed {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// instant returns one in the past: the time of a message, or about there.
func (m *placeModel) instant() int64 {
	now := m.b.clock.stamp()
	if m.rng.IntN(5) == 0 {
		return 0
	}
	return now - m.rng.Int64N(130_000)
}

// place makes g owe what is kept of a partition, or of all, from an instant on.
func (m *placeModel) place(g, partition string, from int64) {
	for id, s := range m.messages() {
		if partition == "" || s.partition == partition {
			m.owed[g][id] = s.ms >= from
		}
	}
}

func (m *placeModel) register(g, mode, from string) {
	gr := m.b.ensureGroup(m.b.queue(DefaultTenant, "q"), g)
	m.must(m.b.register(gr, mode, from, false).Wait())
}

func (m *placeModel) partition() string { return fmt.Sprint("p", m.rng.IntN(4)) }

func (m *placeModel) act() {
	groups := m.groups()
	g := groups[m.rng.IntN(len(groups))]
	switch m.rng.IntN(16) {
	case 0, 1, 2, 3:
		id, p := fmt.Sprint("m", m.count), m.partition()
		m.count++
		m.step = "push " + id + " to " + p
		m.must(m.push(p, id)())
		for _, g := range groups {
			m.owed[g][id] = true
		}
	case 4, 5:
		d := time.Duration(m.rng.Int64N(int64(40 * time.Second)))
		m.step = fmt.Sprint("advance ", d)
		m.ahead.Add(int64(d))
	case 6:
		m.step = "retain"
		m.b.cleanup.lastMs = 0
		m.must(m.retain())
	case 7:
		m.step = "checkpoint"
		m.must(m.checkpoint())
	case 8:
		m.step = "restart"
		m.must(m.b.journal.Flush())
		next := m.fsys.CrashStrict()
		closeBroker(m.t, m.b)
		m.openBroker(next)
	case 9:
		at := m.instant()
		m.step = fmt.Sprint("seek ", g, " to ", at)
		if _, err := m.b.Seek(DefaultTenant, g, "q", SeekTarget{TimestampMs: at}); err == nil {
			m.place(g, "", at)
		}
	case 10:
		m.step = "seek " + g + " to the end"
		if _, err := m.b.Seek(DefaultTenant, g, "q", SeekTarget{ToEnd: true}); err == nil {
			m.owed[g] = map[string]bool{}
		}
	case 11:
		at, p := m.instant(), m.partition()
		m.step = fmt.Sprint("seek ", g, " in ", p, " to ", at)
		if err := m.b.SeekPartition(DefaultTenant, g, "q", p, SeekTarget{TimestampMs: at}); err == nil {
			m.place(g, p, at)
		}
	case 12:
		at := m.instant()
		m.step = fmt.Sprint("move ", g, " to ", at)
		_, err := m.b.MoveSubscription(DefaultTenant, g, at)
		m.must(err)
	case 13:
		m.step = "delete " + g + " and keep its subscription"
		_, err := m.b.DeleteGroups(DefaultTenant, g, true)
		m.must(err)
		m.register(g, "new", "")
		m.place(g, "", m.b.queue(DefaultTenant, "q").group(g).sub.Load().instantMs)
	case 14:
		m.step = "rewrite"
		m.b.checkpointMu.Lock()
		m.must(errors.Join(m.b.rewriteCatalog(), m.b.rewriteOffsets()))
		m.b.checkpointMu.Unlock()
	case 15:
		m.step = "pop " + g
		auto := m.rng.IntN(2) == 0
		ids, res := popAll(m.t, m.b, PopRequest{Group: g, Batch: 1 + m.rng.IntN(3), Partitions: 2, AutoAck: auto})
		for _, id := range ids {
			if !m.owed[g][id] {
				m.t.Fatalf("%s: got %s", m.step, id)
			}
			if auto {
				delete(m.owed[g], id)
			}
		}
		if !auto {
			m.b.Release(res.LeaseID)
		}
	}
}

func (m *placeModel) check() {
	m.t.Helper()
	kept := m.messages()
	for _, name := range m.groups() {
		want := int64(0)
		for id, owed := range m.owed[name] {
			if _, ok := kept[id]; ok && owed {
				want++
			} else if owed && time.Duration(m.ahead.Load())-m.pushed[id] <= keeperWindow {
				m.t.Fatalf("after %s: %s is gone, and %s owes it", m.step, id, name)
			}
		}
		if got := m.b.groupInfo(m.b.queue(DefaultTenant, "q").group(name)).Lag; got != want {
			m.t.Fatalf("after %s: %s owes %d, want %d", m.step, name, got, want)
		}
	}
}

// Where groups stand is what it was, whatever happens to the partitions around them:
// retention moves starts, partitions go and come back, a checkpoint files, a crash takes
// what was in memory alone.
func TestPlacesModel(t *testing.T) {
	for seed := range uint64(40) {
		m := &placeModel{keeper: newKeeper(), t: t, rng: rand.New(rand.NewPCG(seed, 1)), owed: map[string]map[string]bool{}}
		m.openBroker(faultfs.New())
		m.must(m.configure())
		if seed%2 == 0 {
			_, err := m.b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
				o.RetentionEnabled, o.CompletedRetentionSeconds = true, 20
				return o, nil
			})
			m.must(err)
		}
		for _, g := range []struct{ name, mode, from string }{
			{"all", "all", ""}, {"new", "new", ""}, {"at", "", m.start.UTC().Format(time.RFC3339)},
		} {
			m.owed[g.name] = map[string]bool{}
			m.register(g.name, g.mode, g.from)
		}
		for range 150 {
			m.act()
			m.check()
		}
		m.check()
		closeBroker(t, m.b)
	}
}
