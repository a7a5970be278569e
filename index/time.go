package index

import "sort"

// FindTime returns the place in chain, the entries of one partition in the order of
// their offsets, of the first extent with a batch appended at timestampMs or later;
// len(chain) if there is none. Timestamps never decrease within a partition.
func FindTime(chain []Located, timestampMs int64) int {
	return sort.Search(len(chain), func(i int) bool { return chain[i].LastTimestampMs >= timestampMs })
}
