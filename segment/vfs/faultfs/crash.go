package faultfs

import (
	"maps"
	"math/rand/v2"
)

// Crash returns the file system as it may come back after a power cut now: every
// synced byte and name, and of the rest what rng decides. The clone has no handles, no
// locks, no fault and counts calls from 0. f itself goes on undisturbed.
func (f *FS) Crash(rng *rand.Rand) *FS {
	return f.crash(&chance{rng: rng})
}

// CrashStrict is a Crash that keeps nothing but what was synced.
func (f *FS) CrashStrict() *FS {
	return f.crash(&chance{unit: blockSize})
}

// chance decides how much survives. Its odds change from file to file, for the losses
// that matter are often the extreme ones: all of one file and nothing of another. So does
// the unit in which writes are torn. Without a generator nothing survives.
type chance struct {
	rng  *rand.Rand
	p    float64
	unit int64
}

func (c *chance) keep() bool { return c.rng != nil && c.rng.Float64() < c.p }

func (c *chance) shuffle() {
	if c.rng == nil {
		return
	}
	c.p = []float64{0, 0.5, 0.9, 1}[c.rng.IntN(4)]
	c.unit = []int64{blockSize, sectorSize, 1 + c.rng.Int64N(sectorSize)}[c.rng.IntN(3)]
}

func (f *FS) crash(c *chance) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := map[*node]map[string]*node{} // what changed since the last SyncDir
	c.shuffle()
	for _, op := range f.pending {
		if !c.keep() {
			continue
		}
		for _, e := range op {
			if names[e.dir] == nil {
				names[e.dir] = maps.Clone(e.dir.synced)
			}
			e.apply(names[e.dir])
		}
	}
	cl := cloner{names: names, done: map[*node]*node{}, chance: c}
	out := New()
	out.root = cl.clone(f.root)
	out.free, out.total = f.free, f.total
	return out
}

// cloner copies the tree that survives. Names are visited in order, so that one seed
// gives one result.
type cloner struct {
	names map[*node]map[string]*node
	done  map[*node]*node
	*chance
}

func (c *cloner) clone(n *node) *node {
	if out := c.done[n]; out != nil {
		return out // two names of one file: half a rename, undone by another change
	}
	if !n.isDir() {
		c.shuffle()
		disk := n.crashed(c.chance)
		out := &node{disk: disk, data: append([]byte(nil), disk...)}
		c.done[n] = out
		return out
	}
	out := newDir()
	c.done[n] = out
	names, ok := c.names[n]
	if !ok {
		names = n.synced
	}
	for _, name := range sortedNames(names) {
		child := c.clone(names[name])
		out.names[name], out.synced[name] = child, child
	}
	return out
}
