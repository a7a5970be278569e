//go:build !race

package wal

import "testing"

// TestAppendAllocations: an append allocates nothing of its own. What is left is
// tidwall's buffer, which doubles now and then.
func TestAppendAllocations(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		l, _, _ := reopen(t, o)
		buf := make([]byte, Headroom+1000)
		for what, call := range map[string]func() error{
			"AppendFramed": func() error { _, err := l.AppendFramed(buf); return err },
			"Append":       func() error { _, err := l.Append(buf); return err },
		} {
			allocs := testing.AllocsPerRun(1000, func() { must(t, call()) })
			if _, tidwall := l.app.(*tidwallAppender); tidwall && allocs >= 1 {
				t.Errorf("%s: %v allocations", what, allocs)
			}
		}
		must(t, l.Close())
	})
}
