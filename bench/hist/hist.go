package hist

import (
	"math"
	"math/bits"
	"time"
)

// Each power of two is divided into 1<<subBits buckets of equal width; values below
// 1<<subBits nanoseconds have a bucket each.
const (
	subBits = 6
	buckets = (64 - subBits) << subBits
)

// Histogram counts durations. The zero value is empty and ready. Not safe for concurrent
// use. It is 29 KiB: hold it by pointer.
type Histogram struct {
	counts [buckets]uint64
	count  uint64
	sum    float64 // of nanoseconds
	max    time.Duration
}

// Record counts d; a negative d counts as zero.
func (h *Histogram) Record(d time.Duration) { h.RecordN(d, 1) }

// RecordN counts d n times.
func (h *Histogram) RecordN(d time.Duration, n int) {
	d = max(d, 0)
	h.counts[bucketOf(uint64(d))] += uint64(n)
	h.count += uint64(n)
	h.sum += float64(d) * float64(n)
	h.max = max(h.max, d)
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Max returns the longest duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the average, exactly but for rounding; 0 when empty.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.count))
}

// Quantile returns the duration that a share q of all records does not exceed, rounded up
// to the end of its bucket and never above Max. q is from 0 to 1. It is 0 when empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := max(uint64(math.Ceil(q*float64(h.count))), 1)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(time.Duration(upperBound(i)), h.max)
		}
	}
	return h.max
}

// bucketOf returns the bucket of v. From 1<<subBits on, the top subBits+1 bits of v, the
// first of which is always set, number it within its power of two.
func bucketOf(v uint64) int {
	shift := bits.Len64(v>>subBits) - 1
	if shift < 0 {
		return int(v)
	}
	return shift<<subBits + int(v>>shift)
}

// upperBound returns the largest value of bucket i.
func upperBound(i int) uint64 {
	if i < 1<<(subBits+1) {
		return uint64(i)
	}
	shift := i>>subBits - 1
	top := uint64(i&(1<<subBits-1) | 1<<subBits)
	return (top+1)<<shift - 1
}
