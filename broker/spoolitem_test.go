package broker

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/uuid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func spoolItems() []spoolItem {
	id := func(b byte) (v uuid.UUID) {
		for i := range v {
			v[i] = b + byte(i)
		}
		return v
	}
	return []spoolItem{
		{DefaultTenant, id(1), []byte("orders.created"), []byte("customer-42"), []byte("order-8891"), []byte("shop"), []byte(`{"n":1}`), false},
		{id(9), id(2), []byte("q"), []byte{}, nil, nil, []byte("null"), false},
		{DefaultTenant, id(3), []byte{}, bytes.Repeat([]byte("p"), 200), nil, []byte{}, []byte{}, false},
		{DefaultTenant, id(4), []byte("q"), []byte("p"), []byte("k"), []byte("s"), []byte(`{"encrypted":"","iv":"","authTag":""}`), true},
	}
}

func TestSpoolItem(t *testing.T) {
	var all []byte
	for i, want := range spoolItems() {
		b := appendSpoolItem(nil, &want)
		all = append(all, b...)
		got, err := decodeSpoolItem(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("item %d: got %+v, %v; want %+v", i, got, err, want)
		}
		for n := range len(b) - len(want.payload) {
			if _, err := decodeSpoolItem(b[:n]); !errors.Is(err, errSpoolItem) {
				t.Fatalf("item %d cut to %d bytes: %v", i, n, err)
			}
		}
	}
	path := filepath.Join("testdata", "spoolitem.golden")
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, all, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(all, want) {
		t.Fatal("the encoding differs from testdata/spoolitem.golden: a changed item needs a new version")
	}
}

// FuzzSpoolItem holds that nothing makes the decoder panic, and that what decodes encodes
// to the same bytes.
func FuzzSpoolItem(f *testing.F) {
	for _, it := range spoolItems() {
		f.Add(appendSpoolItem(nil, &it))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		it, err := decodeSpoolItem(b)
		if err != nil {
			return
		}
		if again := appendSpoolItem(nil, &it); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, it, again)
		}
	})
}
