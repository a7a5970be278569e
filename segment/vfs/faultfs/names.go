package faultfs

import "slices"

// nameOp is one creation, removal or rename: it reaches the disk whole or not at all.
type nameOp []edit

// edit binds a name in a directory to a node, or removes it.
type edit struct {
	dir  *node
	name string
	node *node // nil removes
}

func (e edit) apply(names map[string]*node) {
	if e.node == nil {
		delete(names, e.name)
		return
	}
	names[e.name] = e.node
}

// change changes names for every process at once, and for the disk some day.
func (f *FS) change(edits ...edit) {
	for _, e := range edits {
		e.apply(e.dir.names)
	}
	f.pending = append(f.pending, edits)
}

// commitNames makes every pending change of a directory durable.
func (f *FS) commitNames(dir *node) {
	var rest []nameOp
	for _, op := range f.pending {
		if !slices.ContainsFunc(op, func(e edit) bool { return e.dir == dir }) {
			rest = append(rest, op)
			continue
		}
		for _, e := range op {
			e.apply(e.dir.synced)
			if e.dir != dir {
				rest = superseded(rest, e)
			}
		}
	}
	f.pending = rest
}

// superseded drops from earlier changes what a durable one has decided since: the
// other half of a rename between directories reaches into a directory not synced.
func superseded(ops []nameOp, by edit) []nameOp {
	for i := range ops {
		ops[i] = slices.DeleteFunc(ops[i], func(e edit) bool { return e.dir == by.dir && e.name == by.name })
	}
	return ops
}
