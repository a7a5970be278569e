package wal

import (
	"errors"
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// FuzzHome opens a home whose generation is any bytes: it is refused as damaged, or it is
// loaded, and takes changes and a rewrite.
func FuzzHome(f *testing.F) {
	seed := HomeOptions{FS: faultfs.New(), Dir: "/home", LogID: testID}
	h, l := openList(f, seed)
	must(f, l.add(h, "a", "b"))
	must(f, l.fold(h))
	must(f, l.add(h, "c"))
	must(f, h.Close())
	path := segmentPath(h.generation(h.number), 1)
	image := readFile(f, seed.FS, path)
	f.Add(image)
	f.Add(image[:len(image)-2])
	f.Add(image[:len(image)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		o := seed
		o.FS = faultfs.New()
		log := (&Home{o: o}).generation(h.number)
		plant(t, log, b)
		var found list
		home, err := OpenHome(o, found.load)
		if err != nil {
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) {
				t.Fatal(err)
			}
			return
		}
		must(t, found.add(home, "more"))
		must(t, home.Sync())
		must(t, found.fold(home))
		must(t, home.Close())
		_, again := openList(t, o)
		if len(again.words) != len(found.words) {
			t.Errorf("%d words, want %d", len(again.words), len(found.words))
		}
	})
}
