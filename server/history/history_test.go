package history

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/segment/vfs"
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
	path := filepath.Join("testdata", "counters19.golden")
	golden, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(golden, b) {
		t.Errorf("%s differs, %v: files that exist could not be read", path, err)
	}
	golden, err = os.ReadFile(filepath.Join("testdata", "minute.golden")) // of 18 counters
	if err != nil {
		t.Fatal(err)
	}
	if got, n, err = DecodeMinute(golden); err != nil || n != len(golden) || !reflect.DeepEqual(&got, want) {
		t.Errorf("of fewer counters: %d of %d bytes, %v: %+v, want %+v", n, len(golden), err, got, want)
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
	for m := range l.Minutes(from, to) {
		found = append(found, m.StartMs)
	}
	return found
}

const day = 24 * 60 * 60 * 1000

// Each process has files of its own, a day in each, and what is too old goes.
func TestLog(t *testing.T) {
	o := Options{FS: faultfs.New(), Dir: "/d/metrics", Retention: 48 * time.Hour, Logger: zerolog.Nop()}
	l := New(o)
	if _, ok := l.Newest(day); ok || starts(l, 0, 1<<60) != nil {
		t.Fatal("minutes of nothing")
	}
	for _, at := range []int64{0, 60_000, day - 1, day} {
		l.Append(minute(at))
	}
	again := New(o)
	again.Append(minute(day)) // the name of the other's file
	again.Append(minute(day + 60_000))
	if m, ok := again.Newest(day); !ok || m.StartMs != day+60_000 {
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
	path := filepath.Join(dir, name(file{startMs: day}))
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
		if m, ok := New(o).Newest(day); !ok || m.StartMs != tt.newest {
			t.Errorf("%d of %d bytes: newest %d, want %d", tt.cut, len(whole), m.StartMs, tt.newest)
		}
	}
}

// Minutes of another time are passed over unread, damaged ones too.
func TestOtherMinutesArePassedOver(t *testing.T) {
	dir := t.TempDir()
	l := New(Options{Dir: dir, Logger: zerolog.Nop()})
	for i := range int64(3) {
		l.Append(minute(i * 60_000))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name(file{}))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(AppendMinute(nil, minute(0)))-1] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := starts(l, 60_000, 120_000); !reflect.DeepEqual(got, []int64{60_000}) {
		t.Errorf("minutes %v", got)
	}
	if got := starts(l, 0, day); got != nil {
		t.Errorf("behind a damaged one: %v", got)
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

// Totals never go back, not even when the clock does, before or after a restart.
func TestNewestAfterClockWasSetBack(t *testing.T) {
	for _, back := range []int64{60_000, 3 * day} {
		o := Options{FS: faultfs.New(), Dir: "/d/metrics", Retention: 48 * time.Hour, Logger: zerolog.Nop()}
		early, late := minute(5*day), minute(5*day-back)
		early.Totals[broker.PushedMessages], late.Totals[broker.PushedMessages] = 10, 20
		for _, m := range []*Minute{early, late} {
			l := New(o)
			l.Append(m)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if m, ok := New(o).Newest(late.StartMs); !ok || m.Totals[broker.PushedMessages] != 20 {
			t.Errorf("clock set back by %d ms: total %d, want 20", back, m.Totals[broker.PushedMessages])
		}
	}
}

// What cannot be removed keeps no minute out.
func TestOldFileStays(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, name(file{}), "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := New(Options{Dir: dir, Retention: 48 * time.Hour, Logger: zerolog.Nop()})
	l.Append(minute(9 * day))
	if got := starts(l, 0, 10*day); !reflect.DeepEqual(got, []int64{9 * day}) {
		t.Errorf("minutes %v", got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// fullFS makes files that take no byte.
type fullFS struct{ vfs.FS }

type fullFile struct{ vfs.File }

func (fs fullFS) Create(name string) (vfs.File, error) {
	f, err := fs.FS.Create(name)
	return fullFile{f}, err
}

func (fullFile) WriteAt([]byte, int64) (int, error) { return 0, syscall.ENOSPC }

// A full disk gets no file for every minute that it does not take.
func TestFullDiskLeavesNoFiles(t *testing.T) {
	dir := t.TempDir()
	l := New(Options{FS: fullFS{vfs.OS}, Dir: dir, Retention: 48 * time.Hour, Logger: zerolog.Nop()})
	for i := range int64(3) {
		l.Append(minute(i * 60_000))
	}
	if names, err := vfs.OS.List(dir); err != nil || len(names) > 0 {
		t.Errorf("%v %v, want none", names, err)
	}
}
