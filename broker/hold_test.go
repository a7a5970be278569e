package broker

import (
	"slices"
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// TestCrowd checks who is woken by work that comes.
func TestCrowd(t *testing.T) {
	for name, tt := range map[string]struct {
		eager, patient int
		holder         bool
		wakes          int
		want           []string // woken, sorted
	}{
		"nobody":             {0, 0, false, 3, nil},
		"one after another":  {2, 0, false, 1, []string{"eager0"}},
		"in turns":           {2, 2, false, 2, []string{"eager0", "patient0"}},
		"each once":          {1, 2, false, 9, []string{"eager0", "patient0", "patient1"}},
		"holder alone":       {0, 2, true, 3, []string{"holder"}},
		"holder and takers":  {2, 2, true, 1, []string{"eager0", "holder"}},
		"takers in order":    {2, 2, true, 2, []string{"eager0", "eager1", "holder"}},
		"only patient ones":  {0, 2, false, 1, []string{"patient0"}},
		"turns are not lost": {0, 3, false, 3, []string{"patient0", "patient1", "patient2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var r ready
			waiting := map[string]*waiter{}
			add := func(name string, into func(w *waiter)) {
				waiting[name] = newWaiter()
				into(waiting[name])
			}
			if tt.holder {
				add("holder", func(w *waiter) { r.waitPatiently(w, true) })
			}
			for i := range tt.eager {
				add("eager"+string(rune('0'+i)), r.wait)
			}
			for i := range tt.patient {
				// With a holder there, to want to hold is to wait behind it.
				add("patient"+string(rune('0'+i)), func(w *waiter) { r.waitPatiently(w, tt.holder) })
			}
			for range tt.wakes {
				r.waiters.wakeFirst()
			}
			if got := wokenOf(waiting); !slices.Equal(got, tt.want) {
				t.Errorf("woken %v, want %v", got, tt.want)
			}
			r.wakeAll()
			if got := wokenOf(waiting); len(got)+len(tt.want) < len(waiting) {
				t.Errorf("wakeAll woke %v after %v", got, tt.want)
			}
			if r.waiters.wakeFirst() && !tt.holder {
				t.Error("somebody is left")
			}
		})
	}
}

// TestHolderGivesWay checks that the wake-up of a pop that is then held goes on to one
// that takes what there is, and that the place of the holder is free when it lets go.
func TestHolderGivesWay(t *testing.T) {
	var r ready
	eager, first, second := newWaiter(), newWaiter(), newWaiter()
	r.wait(eager)
	r.waitPatiently(first, true)
	r.waitPatiently(second, true)
	if got := wokenOf(map[string]*waiter{"eager": eager, "first": first, "second": second}); !slices.Equal(got, []string{"eager"}) {
		t.Errorf("woken %v", got)
	}
	r.letGo(second) // is not the holder
	r.offer(0)
	if got := wokenOf(map[string]*waiter{"first": first, "second": second}); !slices.Equal(got, []string{"first"}) {
		t.Errorf("woken %v", got)
	}
	r.letGo(first)
	r.offer(1)
	if got := wokenOf(map[string]*waiter{"first": first, "second": second}); !slices.Equal(got, []string{"second"}) {
		t.Errorf("woken %v", got)
	}
}

func TestCandidates(t *testing.T) {
	var r ready
	r.scan = 3
	r.offer(2)
	r.offer(0)
	list, all := r.candidates(make([]uint32, 0, 4), 5)
	if !all || !slices.Equal(list, []uint32{2, 0, 3, 4}) {
		t.Errorf("candidates %v, all %t", list, all)
	}
	if list, all = r.candidates(make([]uint32, 0, 3), 5); all || len(list) != 0 {
		t.Errorf("candidates %v, all %t, without room", list, all)
	}
}

// wokenOf returns the names of those who were woken, and forgets that they were.
func wokenOf(waiting map[string]*waiter) (names []string) {
	for name, w := range waiting {
		select {
		case <-w.C:
			names = append(names, name)
		default:
		}
	}
	slices.Sort(names)
	return names
}

// A queue that is deleted while a pop counts what is ready there has nothing.
func TestCountingInADeletedQueue(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	if err := pushOne(b, "p", "x"); err != nil {
		t.Fatal(err)
	}
	g := b.ensureGroup(b.queue(DefaultTenant, "q"), "g")
	if n, _ := b.countReady(g, 10, false, b.clock.stamp()); n != 1 {
		t.Fatalf("counted %d", n)
	}
	if _, err := b.DeleteQueue(DefaultTenant, "q"); err != nil {
		t.Fatal(err)
	}
	if n, _ := b.countReady(g, 10, false, b.clock.stamp()); n != 0 {
		t.Fatalf("counted %d", n)
	}
}
