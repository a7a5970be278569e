package history

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

func minute(at int64) *Minute {
	m := &Minute{StartMs: at, LengthMs: 60_000, Process: Process{RSS: 1 << 30, UserNs: 5, Segments: 3}}
	m.Totals[broker.PushedMessages], m.Traffic[broker.AckedMessages] = at, -1
	q := Queue{ID: uuid.UUID{1, 2}, Name: "q", Namespace: "é", Partitions: 7, Parked: 1, MaxLagMs: 1000}
	q.Traffic[broker.PoppedMessages] = 12
	m.Queues = []Queue{q, {Name: "", Task: "t"}}
	return m
}

func TestRoundTrip(t *testing.T) {
	want := minute(1234)
	b := AppendMinute([]byte("before"), want)[len("before"):]
	got, n, err := DecodeMinute(append(b, "behind"...))
	if err != nil || n != len(b) || !reflect.DeepEqual(&got, want) {
		t.Fatalf("%d of %d bytes, %v: %+v, want %+v", n, len(b), err, got, want)
	}
	path := filepath.Join("testdata", "minute.golden")
	golden, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(golden, b) {
		t.Errorf("%s differs, %v: files that exist could not be read", path, err)
	}
}

// No cut and no flipped bit makes up a minute.
func TestDamagedFrames(t *testing.T) {
	b := AppendMinute(nil, minute(1))
	for n := range b {
		if _, _, err := DecodeMinute(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for a minute", n, len(b))
		}
	}
	for bit := range 8 * len(b) {
		flipped := bytes.Clone(b)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, _, err := DecodeMinute(flipped); err == nil {
			t.Errorf("bit %d flipped is not noticed", bit)
		}
	}
}

func FuzzDecodeMinute(f *testing.F) {
	f.Add(AppendMinute(nil, minute(1)))
	f.Add(AppendMinute(nil, &Minute{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, n, err := DecodeMinute(b)
		if err != nil {
			return
		}
		again, _, err := DecodeMinute(AppendMinute(nil, &m))
		if err != nil || n > len(b) || !reflect.DeepEqual(again, m) {
			t.Errorf("%+v becomes %+v, %v", m, again, err)
		}
	})
}

// starts lists the minutes that a log has.
func starts(l *Log, from, to int64) (found []int64) {
	l.Each(from, to, func(m *Minute) { found = append(found, m.StartMs) })
	return found
}

const day = 24 * 60 * 60 * 1000

// Each process has files of its own, a day in each, and what is too old goes.
func TestLog(t *testing.T) {
	o := Options{FS: faultfs.New(), Dir: "/d/metrics", Retention: 48 * time.Hour, Logger: zerolog.Nop()}
	l := New(o)
	if _, ok := l.Newest(); ok || starts(l, 0, 1<<60) != nil {
		t.Fatal("minutes of nothing")
	}
	for _, at := range []int64{0, 60_000, day - 1, day} {
		l.Append(minute(at))
	}
	again := New(o)
	again.Append(minute(day)) // the name of the other's file
	again.Append(minute(day + 60_000))
	if m, ok := again.Newest(); !ok || m.StartMs != day+60_000 {
		t.Errorf("newest: %v %+v", ok, m)
	}
	if got, want := starts(again, 60_000, day+1), []int64{60_000, day - 1, day, day}; !reflect.DeepEqual(got, want) {
		t.Errorf("minutes %v, want %v", got, want)
	}
	again.Append(minute(4 * day))
	if got, want := starts(again, 0, 5*day), []int64{day, day, day + 60_000, 4 * day}; !reflect.DeepEqual(got, want) {
		t.Errorf("after four days %v, want %v", got, want)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// A file counts up to where it is damaged, and those before it say what the newest minute is.
func TestDamagedLog(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, Retention: 48 * time.Hour, Logger: zerolog.Nop()}
	for _, at := range []int64{0, day} {
		l := New(o)
		l.Append(minute(at))
		l.Append(minute(at + 60_000))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, name(day))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cut    int
		newest int64
	}{{len(whole), day + 60_000}, {len(whole) - 1, day}, {len(whole)/2 + 4, day}, {len(whole)/2 - 1, 60_000}, {0, 60_000}} {
		if err := os.WriteFile(path, whole[:tt.cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if m, ok := New(o).Newest(); !ok || m.StartMs != tt.newest {
			t.Errorf("%d of %d bytes: newest %d, want %d", tt.cut, len(whole), m.StartMs, tt.newest)
		}
	}
}

// A minute that cannot be written is lost, and no other.
func TestFailedAppend(t *testing.T) {
	for n := 0; ; n++ {
		fs := faultfs.New()
		o := Options{FS: fs, Dir: "/d/metrics", Retention: 48 * time.Hour, Logger: zerolog.Nop()}
		l := New(o)
		l.Append(minute(0))
		before := fs.Calls()
		fs.FailAt(before+n, faultfs.Fault{Short: true})
		l.Append(minute(day))
		failed := fs.Calls()-before > n
		fs.FailAt(-1, faultfs.Fault{})
		l.Append(minute(day + 60_000))
		l.Append(minute(day + 120_000))
		got := starts(New(o), 0, 2*day)
		if want := []int64{0, day + 60_000, day + 120_000}; !reflect.DeepEqual(got, want) && !reflect.DeepEqual(got, []int64{0, day, day + 60_000, day + 120_000}) {
			t.Errorf("call %d fails: %v, want %v at least", n, got, want)
		}
		if !failed {
			return
		}
	}
}
