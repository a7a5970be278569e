package partition

import "github.com/skepmq/skep/index"

const (
	// largeExtent is from when on an extent is large. Those of small batches are closed long
	// before; one that is larger is a single batch, as large as a request may be.
	largeExtent = 1 << 20
	// largeReads is how many large extents are read at a time. What was read the caller
	// can count, and refuse; what is being read he does not know of.
	largeReads = 2
)

// admitted is extent, when it is its turn.
func (s *Store) admitted(e *index.Located) ([]byte, error) {
	if e.Length > largeExtent {
		s.large <- struct{}{}
		defer func() { <-s.large }()
	}
	return s.extent(e)
}
