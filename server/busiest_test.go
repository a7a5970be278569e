package server

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// What has most is kept, and told in order.
func TestMost(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		m := most[int]{n: random.IntN(9)}
		var all []ranked[int]
		for i := range random.IntN(40) {
			has := int64(random.IntN(12))
			all = append(all, ranked[int]{has, i})
			if m.takes(has) {
				m.add(has, i)
			}
		}
		slices.SortStableFunc(all, func(x, y ranked[int]) int { return cmp.Compare(y.has, x.has) })
		got, want := m.all(), all[:min(m.n, len(all))]
		if len(got) != len(want) {
			t.Fatalf("%d kept, want %d", len(got), len(want))
		}
		for i := range want {
			if got[i].has != want[i].has {
				t.Fatalf("kept %v of %v, want %v", got, all, want)
			}
		}
	}
}

// Who asks for the metrics while they are read gets those read next, together with all others,
// so they are never older than the request and there is one reader at a time.
func TestScrapesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scrapes{turn: make(chan struct{}, 1)}
		goOnC := make(chan struct{})
		reads := 0
		write := func() []byte {
			reads++
			text := fmt.Append(nil, "read ", reads)
			<-goOnC
			return text
		}
		var wg sync.WaitGroup
		ask := func(want string) {
			wg.Go(func() {
				if got := s.read(write); string(got) != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
			synctest.Wait()
		}
		ask("read 1")
		for range 3 {
			ask("read 2")
		}
		goOnC <- struct{}{}
		synctest.Wait()
		ask("read 3") // that of the others has begun
		goOnC <- struct{}{}
		goOnC <- struct{}{}
		wg.Wait()
		if reads != 3 {
			t.Errorf("%d reads, want 3", reads)
		}
	})
}
