package faultfs

import (
	"maps"
	"math/rand/v2"
)

// Crash returns the file system as it may come back after a power cut now: every
// synced byte and name, and of the rest what rng decides. The clone has no handles, no
// locks, no fault and counts calls from 0. f itself goes on undisturbed.
func (f *FS) Crash(rng *rand.Rand) *FS {
	c := &chance{rng: rng}
	return f.crash(c.keep, c.shuffle)
}

// CrashStrict is a Crash that keeps nothing but what was synced.
func (f *FS) CrashStrict() *FS {
	return f.crash(func() bool { return false }, func() {})
}

// chance decides how much survives. Its odds change from file to file, for the losses
// that matter are often the extreme ones: all of one file and nothing of another.
type chance struct {
	rng *rand.Rand
	p   float64
}

func (c *chance) keep() bool { return c.rng.Float64() < c.p }

func (c *chance) shuffle() { c.p = []float64{0, 0.5, 0.9, 1}[c.rng.IntN(4)] }

func (f *FS) crash(keep func() bool, shuffle func()) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := map[*node]map[string]*node{} // what changed since the last SyncDir
	shuffle()
	for _, op := range f.pending {
		if !keep() {
			continue
		}
		for _, e := range op {
			if names[e.dir] == nil {
				names[e.dir] = maps.Clone(e.dir.synced)
			}
			e.apply(names[e.dir])
		}
	}
	cl := cloner{names: names, done: map[*node]*node{}, keep: keep, shuffle: shuffle}
	out := New()
	out.root = cl.clone(f.root)
	out.free, out.total = f.free, f.total
	return out
}

// cloner copies the tree that survives. Names are visited in order, so that one seed
// gives one result.
type cloner struct {
	names   map[*node]map[string]*node
	done    map[*node]*node
	keep    func() bool
	shuffle func()
}

func (c *cloner) clone(n *node) *node {
	if out := c.done[n]; out != nil {
		return out // two names of one file: half a rename, undone by another change
	}
	if !n.isDir() {
		c.shuffle()
		disk := n.crashed(c.keep)
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
