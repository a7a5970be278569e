package broker

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// M-904: the power is cut at every call of a recovery, which itself follows a power cut.
// The next one finds all that was answered.
func TestPowerCutDuringRecovery(t *testing.T) {
	t.Parallel()
	fsys := faultfs.New()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	w := newWitness(b)
	if err := script(w); err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	for n := 0; ; n++ {
		met := false
		for seed := range uint64(2) {
			crashed := fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n))))
			base := crashed.Calls()
			crashed.FailAt(base+n, faultfs.Fault{Err: faultfs.EIO, Sticky: true})
			half, err := openOn(crashed)
			met = crashed.Calls() > base+n
			again := crashed.Crash(rand.New(rand.NewPCG(seed, uint64(n)+1)))
			if err == nil {
				closeBroker(t, half)
			} else if !met {
				t.Fatalf("no fault and yet: %v", err)
			}
			w.checkRecovery(t, fmt.Sprintf("call %d seed %d", n, seed), again)
		}
		if !met {
			return
		}
	}
}
