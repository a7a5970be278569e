// Package hist counts durations in buckets whose width grows with the value, so that a
// percentile is wrong by less than 1.6 % whether it is a microsecond or a minute.
//
// A connection records into a Histogram of its own, without locks or allocations; at the
// end they are merged into one and asked for quantiles. After HdrHistogram.
package hist
