package history

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

func never() bool { return false }

// grainsOf lists the files of a log by their days and what they are made of.
func grainsOf(l *Log) (all []string) {
	for _, f := range l.files() {
		all = append(all, fmt.Sprint(f.startMs/dayMs, grains[f.grain].suffix))
	}
	return all
}

// daily makes a log with a record every ten minutes of each day, in which queue 1 stores one
// message, and queue 2 as well in the first of an hour.
func daily(t *testing.T, o Options, days int64) *Log {
	t.Helper()
	o.Retention = 90 * 24 * time.Hour
	l := New(o)
	for at := int64(0); at < days*dayMs; at += 10 * minuteMs {
		m := &Minute{StartMs: at, LengthMs: 10 * minuteMs}
		m.Totals[broker.PushedMessages] = at / minuteMs
		m.Traffic[broker.PushedMessages] = 1
		q := Queue{ID: uuid.UUID{1}, Name: "q"}
		q.Traffic[broker.PushedMessages] = 1
		m.Queues = []Queue{q}
		if at%hourMs == 0 {
			q.ID, q.Name = uuid.UUID{2}, "r"
			m.Queues = append(m.Queues, q)
		}
		l.Append(m)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l
}

// stored counts the messages that each queue has stored, by day.
func stored(l *Log) map[string]int64 {
	counts := map[string]int64{}
	for m := range l.Minutes(0, 1<<60) {
		for _, q := range m.Queues {
			counts[fmt.Sprint(m.StartMs/dayMs, q.Name)] += q.Traffic[broker.PushedMessages]
		}
	}
	return counts
}

// Files get coarser with age, one at a time, and nothing of them is lost.
func TestFold(t *testing.T) {
	l := daily(t, Options{FS: faultfs.New(), Dir: "/d/metrics", Logger: zerolog.Nop()}, 3)
	want := stored(l)
	if want["0q"] != 144 || want["2r"] != 24 || len(want) != 6 {
		t.Fatalf("stored %v", want)
	}
	for _, tt := range []struct {
		days  float64
		files string
		first int64 // the length of the first record
	}{
		{1.99, "0.minutes 1.minutes 2.minutes", 10},
		{2, "0.15m 1.minutes 2.minutes", 20},
		{3, "0.15m 1.15m 2.minutes", 20},
		{4, "0.15m 1.15m 2.15m", 20},
		{7.99, "0.15m 1.15m 2.15m", 20},
		{10, "0.60m 1.15m 2.15m", 60},
		{10, "0.60m 1.60m 2.15m", 60},
		{31, "0.360m 1.60m 2.15m", 360},
		{40, "0.360m 1.360m 2.15m", 360},
		{40, "0.360m 1.360m 2.360m", 360},
		{99, "0.360m 1.360m 2.360m", 360},
	} {
		l.Fold(int64(tt.days*dayMs), never)
		if got := strings.Join(grainsOf(l), " "); got != tt.files {
			t.Errorf("after %v days %s, want %s", tt.days, got, tt.files)
		}
		if got := stored(l); !maps.Equal(got, want) {
			t.Errorf("after %v days %v, want %v", tt.days, got, want)
		}
		for m := range l.Minutes(0, 1<<60) {
			if m.StartMs != 0 || m.LengthMs != tt.first*minuteMs || len(m.Queues) != 2 {
				t.Errorf("after %v days the first record is %+v", tt.days, m)
			}
			break
		}
		if m, ok := New(l.o).Newest(0); !ok || m.Totals[broker.PushedMessages] != 3*dayMs/minuteMs-10 {
			t.Errorf("after %v days: %v %v", tt.days, ok, m.Totals)
		}
	}
	names, err := l.o.FS.List(l.o.Dir)
	if err != nil || len(names) != 3 {
		t.Errorf("files left: %v %v", names, err)
	}
	// Who has listed files before they were folded still finds them.
	var failed error
	records := 0
	for range l.walk(file{}, 0, dayMs, &failed) {
		records++
	}
	if failed != nil || records != 4 {
		t.Errorf("by its old name a file has %d records, %v", records, failed)
	}
	if got := []int64{l.Grain(0, dayMs), l.Grain(3*dayMs, 9*dayMs), l.Grain(-dayMs, 0)}; !slices.Equal(got, []int64{6 * hourMs, 0, 0}) {
		t.Errorf("grains %v", got)
	}
}

// Counters add up, what is a mean stays one, and names and numbers are the latest.
func TestFoldedRecord(t *testing.T) {
	sum := folding{ms: 15 * minuteMs}
	first := minute(15 * minuteMs)
	first.Process = Process{RSS: 100, Virtual: 1000, UserNs: 1, SystemNs: 2, UptimeMs: 3, SchedLagUs: 40, SyncUs: 9, StoreBytes: 5, Segments: 1}
	last := minute(16 * minuteMs)
	last.LengthMs *= 3
	last.Process = Process{RSS: 500, Virtual: 5000, UserNs: 10, SystemNs: 20, UptimeMs: 30, SchedLagUs: 80, SyncUs: 8, StoreBytes: 4, Segments: 2}
	last.Queues[0].Namespace, last.Queues[0].Partitions, last.Queues[0].MaxLagMs = "new", 3, 500
	last.Queues[0].Parked = 0 // for three of four minutes
	last.Queues = last.Queues[:1]
	sum.add(first)
	for _, at := range []int64{0, 14*minuteMs + 59_999, 30 * minuteMs} {
		if sum.takes(minute(at)) {
			t.Errorf("a minute at %d is taken", at)
		}
	}
	if !sum.takes(last) {
		t.Fatal("the next minute is not taken")
	}
	sum.add(last)
	want := minute(15 * minuteMs)
	want.LengthMs = 4 * minuteMs
	want.Totals[broker.PushedMessages] = 16 * minuteMs
	want.Traffic[broker.AckedMessages] = -2
	want.Process = Process{RSS: 400, Virtual: 4000, UserNs: 11, SystemNs: 22, UptimeMs: 30, SchedLagUs: 70, SyncUs: 9, StoreBytes: 4, Segments: 2}
	q := &want.Queues[0]
	q.Namespace, q.Partitions = "new", 3
	q.Traffic[broker.PoppedMessages] = 24
	if got := sum.end(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !sum.empty() || sum.takes(last) {
		t.Error("the sum goes on")
	}
	sum.add(minute(0))
	if got := sum.end(); !reflect.DeepEqual(got, minute(0)) {
		t.Errorf("behind it: %+v", got)
	}
}

// syncAll makes the first day durable.
func syncAll(t *testing.T, fs *faultfs.FS) {
	t.Helper()
	f, err := fs.OpenReadWrite("/d/metrics/" + name(file{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close(), fs.SyncDir("/"), fs.SyncDir("/d"), fs.SyncDir("/d/metrics")); err != nil {
		t.Fatal(err)
	}
}

// Whatever fails, and whenever the power goes, each message counts once.
func TestFaultsOfFold(t *testing.T) {
	for _, kinds := range []faultfs.Kinds{faultfs.Mutating, faultfs.Read, faultfs.Open} {
		for n := 0; ; n++ {
			fs := faultfs.New()
			o := Options{FS: fs, Dir: "/d/metrics", Logger: zerolog.Nop()}
			l := daily(t, o, 1)
			syncAll(t, fs)
			want := stored(l)
			before := fs.CallsOf(kinds)
			fs.FailAt(before+n, faultfs.Fault{Kinds: kinds, Sticky: true})
			l.Fold(2*dayMs, never)
			failed := fs.CallsOf(kinds)-before > n
			crashed := fs.CrashStrict()
			fs.FailAt(-1, faultfs.Fault{})
			if got := stored(l); !maps.Equal(got, want) {
				t.Errorf("call %d fails: %v, want %v", n, got, want)
			}
			o.FS = crashed
			again := New(o)
			if got := stored(again); !maps.Equal(got, want) {
				t.Errorf("power fails at call %d: %v, want %v", n, got, want)
			}
			again.Fold(2*dayMs, never)
			if got := stored(again); !maps.Equal(got, want) || len(again.files()) != 1 || again.files()[0].grain != 1 {
				t.Errorf("folded after a power cut at call %d: %v of %v, %v", n, got, want, grainsOf(again))
			}
			again.Fold(9*dayMs, never)
			names, err := crashed.List("/d/metrics")
			if got := stored(again); !maps.Equal(got, want) || err != nil || len(names) != 1 {
				t.Errorf("folded again after a power cut at call %d: %v of %v, %v %v", n, got, want, names, err)
			}
			if !failed {
				break
			}
		}
	}
}

// A power cut behind a fold finds the old file or the new one.
func TestPowerCutBehindFold(t *testing.T) {
	for seed := range uint64(50) {
		fs := faultfs.New()
		l := daily(t, Options{FS: fs, Dir: "/d/metrics", Logger: zerolog.Nop()}, 1)
		syncAll(t, fs)
		want := stored(l)
		l.Fold(2*dayMs, never)
		again := New(Options{FS: fs.Crash(rand.New(rand.NewPCG(seed, 1))), Dir: "/d/metrics", Logger: zerolog.Nop()})
		if got := stored(again); !maps.Equal(got, want) {
			t.Errorf("seed %d: %v, want %v", seed, got, want)
		}
	}
}

// A server that stops does not wait for a fold, and the file that is written is not folded.
func TestFoldIsPatient(t *testing.T) {
	o := Options{FS: faultfs.New(), Dir: "/d/metrics", Logger: zerolog.Nop()}
	l := daily(t, o, 1)
	looks := 0
	l.Fold(2*dayMs, func() bool { looks++; return looks > 3 })
	if got := grainsOf(l); looks != 4 || !slices.Equal(got, []string{"0.minutes"}) {
		t.Errorf("%d looks, %v", looks, got)
	}
	if names, err := o.FS.List(o.Dir); err != nil || len(names) != 1 {
		t.Errorf("files left: %v %v", names, err)
	}
	l.Append(minute(dayMs))
	l.Fold(9*dayMs, never)
	l.Fold(9*dayMs, never)
	if got := grainsOf(l); !slices.Equal(got, []string{"0.60m", "1.minutes"}) {
		t.Errorf("files %v", got)
	}
}

// There is a bound on all files: half for old days, the oldest of which go, half for the day
// that runs, which goes on without queues.
func TestBytesAreBounded(t *testing.T) {
	dir := t.TempDir()
	l := daily(t, Options{Dir: dir, Logger: zerolog.Nop()}, 3)
	var size int64
	for _, f := range l.files() {
		n, err := vfs.OS.Size(l.pathOf(f))
		if err != nil {
			t.Fatal(err)
		}
		size = max(size, n)
	}
	o := Options{Dir: dir, MaxBytes: 4 * size, Logger: zerolog.Nop(), Retention: 90 * 24 * time.Hour}
	l = New(o)
	l.Fold(3*dayMs/2, never)
	if got := grainsOf(l); !slices.Equal(got, []string{"1.minutes", "2.minutes"}) {
		t.Errorf("old days: %v", got)
	}
	minutes := 0
	for at := int64(3 * dayMs); at < 4*dayMs; at += minuteMs {
		l.Append(minute(at))
		l.Fold(at, never)
		minutes++
	}
	n, err := vfs.OS.Size(filepath.Join(dir, name(file{startMs: 3 * dayMs})))
	if rest := int64(minutes * 70); err != nil || n < o.MaxBytes/2 || n > o.MaxBytes/2+rest {
		t.Errorf("the day that runs has %d bytes, %v, want %d and what totals take", n, err, o.MaxBytes/2)
	}
	var records, withQueues int
	for m := range l.Minutes(3*dayMs, 4*dayMs) {
		records++
		if len(m.Queues) > 0 {
			withQueues++
		}
	}
	if records != minutes || withQueues == 0 || withQueues == records {
		t.Errorf("%d records of %d, %d with queues", records, minutes, withQueues)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	l = New(Options{Dir: dir, Logger: zerolog.Nop()})
	l.Fold(3*dayMs/2, never)
	if got := grainsOf(l); len(got) != 3 {
		t.Errorf("without a bound %v are left", got)
	}
}

// What is held is neither folded nor removed.
func TestHold(t *testing.T) {
	fs := faultfs.New()
	l := New(Options{FS: fs, Dir: "/d/metrics", Retention: time.Hour, MaxBytes: 1, Logger: zerolog.Nop()})
	if paths, release := New(Options{}).Hold(); len(paths) > 0 {
		t.Errorf("without a directory: %v", paths)
	} else {
		release()
	}
	l.Append(minute(0))
	paths, release := l.Hold()
	l.Append(minute(60 * dayMs)) // which would remove the first
	l.Fold(60*dayMs, func() bool { return false })
	for _, path := range paths {
		if _, err := fs.Size(path); err != nil {
			t.Error(err)
		}
	}
	if len(paths) != 1 {
		t.Errorf("held %v", paths)
	}
	release()
	if l.Fold(60*dayMs, func() bool { return false }); len(l.files()) != 1 {
		t.Errorf("released, there are %v", l.files())
	}
}
