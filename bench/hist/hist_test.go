package hist

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	values := []uint64{0, 1, 62, 63, 64, 65, 126, 127, 128, 129, 130, 255, 256, 1e6, 1e9, 1 << 40, 1<<40 - 1, math.MaxInt64}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		values = append(values, rng.Uint64()>>(1+rng.IntN(63)))
	}
	slices.Sort(values)
	last := 0
	for _, v := range values {
		i := bucketOf(v)
		if i < last || i >= buckets {
			t.Fatalf("%d: bucket %d after %d of %d", v, i, last, buckets)
		}
		last = i
		high := upperBound(i)
		if high < v || float64(high-v) > float64(v)/(1<<subBits) {
			t.Fatalf("%d: got the bound %d", v, high)
		}
		if i > 0 && upperBound(i-1) >= v {
			t.Fatalf("%d: lies in bucket %d too", v, i-1)
		}
	}
}

func TestQuantile(t *testing.T) {
	upTo := func(n int) (list []time.Duration) {
		for i := range n {
			list = append(list, time.Duration(i+1)*time.Microsecond)
		}
		return list
	}
	for _, tt := range []struct {
		name   string
		values []time.Duration
		q      float64
		want   time.Duration
	}{
		{"empty", nil, 0.5, 0},
		{"one", upTo(1), 0.99, time.Microsecond},
		{"negative counts as zero", []time.Duration{-5}, 0.5, 0},
		{"lowest", upTo(1000), 0, time.Microsecond},
		{"median", upTo(1000), 0.5, 500 * time.Microsecond},
		{"p99", upTo(1000), 0.99, 990 * time.Microsecond},
		{"p99.9", upTo(1000), 0.999, 999 * time.Microsecond},
		{"all", upTo(1000), 1, 1000 * time.Microsecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h Histogram
			for _, v := range tt.values {
				h.Record(v)
			}
			got := h.Quantile(tt.q)
			if got < tt.want || float64(got) > float64(tt.want)*(1+1.0/(1<<subBits)) {
				t.Errorf("got %v want %v", got, tt.want)
			}
			if got > h.Max() {
				t.Errorf("got %v above the longest, %v", got, h.Max())
			}
		})
	}
}

func TestMerge(t *testing.T) {
	var one, two, both Histogram
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 2000 {
		d := time.Duration(rng.IntN(int(time.Second)))
		if i%3 == 0 {
			one.Record(d)
		} else {
			two.RecordN(d, 2)
			both.Record(d)
		}
		both.Record(d)
	}
	one.Merge(&two)
	if one.counts != both.counts || one.Count() != both.Count() || one.Max() != both.Max() {
		t.Errorf("got %d records up to %v want %d up to %v", one.Count(), one.Max(), both.Count(), both.Max())
	}
	if off := one.Mean() - both.Mean(); off.Abs() > 1 {
		t.Errorf("got mean %v want %v", one.Mean(), both.Mean())
	}
	if new(Histogram).Mean() != 0 {
		t.Error("an empty histogram has a mean")
	}
}
