package main

import "testing"

func TestConnsWithin(t *testing.T) {
	for _, tt := range []struct {
		limit uint64
		want  int
		got   int
	}{
		{0, 1000, 1000},
		{256, 1000, 128},
		{1024, 1000, 512},
		{1201, 1000, 601},
		{20_000, 262_144, 19_400},
		{20_000, 1000, 1000},
		{1 << 63, 262_144, 262_144},
	} {
		if got := connsWithin(tt.limit, tt.want); got != tt.got {
			t.Errorf("limit %d, wanted %d: got %d want %d", tt.limit, tt.want, got, tt.got)
		}
	}
}
