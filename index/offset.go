package index

import "sort"

// FindOffset returns the place in chain, the entries of one partition in the order
// of their offsets, of the extent that holds offset or else of the first one after
// it; len(chain) if all lie before it.
func FindOffset(chain []Located, offset int64) int {
	return sort.Search(len(chain), func(i int) bool { return chain[i].EndOffset() > offset })
}
