package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skepmq/skep/bench/rig"
)

// damages are what happens to a file.
var damages = []struct {
	name string
	do   func(e *env, path string, info fs.FileInfo) error
}{
	{"flip", func(e *env, path string, info fs.FileInfo) error {
		return edit(path, e.rng.Int64N(info.Size()), 1, func(b []byte) { b[0] ^= 1 << e.rng.IntN(8) })
	}},
	{"truncate", func(e *env, path string, info fs.FileInfo) error {
		return os.Truncate(path, e.rng.Int64N(info.Size()))
	}},
	{"zero", func(e *env, path string, info fs.FileInfo) error {
		const page = 4096
		from := e.rng.Int64N((info.Size()+page-1)/page) * page
		return edit(path, from, min(page, info.Size()-from), func(b []byte) { clear(b) })
	}},
	{"delete", func(_ *env, path string, _ fs.FileInfo) error { return os.Remove(path) }},
}

func edit(path string, at, n int64, change func([]byte)) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	change(b)
	_, err = f.WriteAt(b, at)
	return err
}

// rot damages one file after the other of a stopped broker: a bit flips, the end is gone,
// a page is zeros, the file is gone, or two have changed places. Then the broker either
// refuses to start and names a file, or it serves: correct bytes in order, all of every
// queue that has no part in the damage, and the damage stands in the log. Whatever it does,
// files that are not damaged stay.
func rot(e *env) error {
	images, err := e.rotImages()
	if err != nil {
		return err
	}
	for n := 0; e.more(n); n++ {
		im := images[n%len(images)]
		if err := e.rotOnce(n, im); err != nil {
			return err
		}
		e.counts.add("rounds", 1)
	}
	return nil
}

// image is a data directory with everything in it.
type image struct {
	name  string
	dir   string
	tally *tally
	files []string // relative
}

// rotImages makes two: one of a broker that was stopped, one of a broker that was killed,
// with more in its journal than anywhere else.
func (e *env) rotImages() (images []*image, err error) {
	for _, name := range []string{"stopped", "killed"} {
		im := &image{name: name, dir: filepath.Join(e.dir, name), tally: newTally(e.rng.Uint64(), 100, 1500)}
		if err := e.fillImage(im); err != nil {
			return nil, err
		}
		err := filepath.WalkDir(im.dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name() != "LOCK" {
				im.files = append(im.files, strings.TrimPrefix(path, im.dir+"/"))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		images = append(images, im)
	}
	return images, nil
}

const rotQueues, rotPartitions = 20, 50

func (e *env) fillImage(im *image) (err error) {
	a, b := newAPI(), e.brokers("SKEP_CHECKPOINT_BYTES=300000")
	if im.name == "killed" {
		b.Env = append(b.Env, "SKEP_CHECKPOINT_BYTES=1500000")
	}
	p, err := e.start(b, im.dir, a)
	if err != nil {
		return err
	}
	defer func() { p.Kill() }()
	t := im.tally
	push := func(q, partition, count int) {
		t.push(e.ctx, a, t.lane(fmt.Sprintf("queue-%d", q), fmt.Sprint(partition)), count)
	}
	for round := range 2 {
		for q := range rotQueues {
			for partition := range rotPartitions {
				push(q, partition, 1+(q+partition+round)%2)
			}
		}
		push(0, 0, 1000) // large enough for segments of its own
		for q := range rotQueues / 2 {
			for range 5 {
				if _, err := t.work(e.ctx, a, fmt.Sprintf("queue-%d", q)); err != nil {
					return err
				}
			}
		}
	}
	if err := e.deadLetters(a, t); err != nil {
		return err
	}
	if t.unknown+t.refused > 0 {
		return fmt.Errorf("%d messages could not be pushed", t.unknown+t.refused)
	}
	if im.name == "killed" {
		return t.err()
	}
	return errors.Join(t.err(), p.Stop())
}

// deadLetters sets some messages aside, for a group that nobody looks at afterwards.
func (e *env) deadLetters(a *api, t *tally) error {
	for q := range 3 {
		queue := fmt.Sprintf("queue-%d", q)
		answer, err := a.must(e.ctx, http.MethodGet, popPath(queue, "undertaker", "batch=1&partitions=1&leaseSeconds=60"), nil, http.StatusOK)
		if err != nil {
			return err
		}
		messages, err := decodePop(http.StatusOK, answer)
		if err != nil {
			return err
		}
		m := &messages[0]
		body := fmt.Appendf(nil, `{"transactionId":%q,"partitionId":%q,"leaseId":%q,"consumerGroup":"undertaker","status":"dlq"}`, m.TransactionID, m.PartitionID, m.LeaseID)
		if _, err := a.must(e.ctx, http.MethodPost, "/api/v1/ack", body, http.StatusOK); err != nil {
			return err
		}
	}
	return t.err()
}

// rotOnce damages a copy of an image and sees what comes of it.
func (e *env) rotOnce(n int, im *image) (err error) {
	root := filepath.Join(e.dir, fmt.Sprintf("round-%d", n))
	dir := filepath.Join(root, "data")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(im.dir)); err != nil {
		return err
	}
	hurt, what, err := e.damage(dir, im)
	if err != nil || hurt == nil {
		return errors.Join(err, os.RemoveAll(root))
	}
	fmt.Fprintf(e.log, "round %d: %s: %s\n", n, im.name, what)
	before, err := sums(dir)
	if err != nil {
		return err
	}
	a, b := newAPI(), e.brokers()
	e.rotFound(b, dir, hurt, what)
	p, err := b.Start(dir)
	if err != nil {
		return err
	}
	defer func() { p.Kill() }()
	if err := p.Ready(e.ctx); err != nil {
		if !errors.Is(err, rig.ErrNotReady) {
			return err
		}
		e.counts.add("starts refused", 1)
		p.Kill()
		if !named(b.Words(p), dir, hurt) {
			return violated("damage", "%s: the start is refused, and the file is not named\n%s", what, b.LastWords(p))
		}
		return errors.Join(untouched(what, dir, hurt, before, true), os.RemoveAll(root))
	}
	a.moveTo(p.Address)
	e.counts.add("starts", 1)
	if err := e.rotServes(im, a, b, p, dir, hurt); err != nil {
		return fmt.Errorf("%s: %w\n%s", what, err, b.LastWords(p))
	}
	p.Kill()
	return errors.Join(untouched(what, dir, hurt, before, false), os.RemoveAll(root))
}

// damage damages a file, or two; hurt is nil if that file cannot be.
func (e *env) damage(dir string, im *image) (hurt []string, what string, err error) {
	// The kinds of files first, then one of that kind: there are many of some.
	kinds := map[string][]string{}
	for _, f := range im.files {
		kind, _, _ := strings.Cut(f, "/")
		kinds[kind+filepath.Ext(f)] = append(kinds[kind+filepath.Ext(f)], f)
	}
	var names []string
	for k := range kinds {
		names = append(names, k)
	}
	slices.Sort(names)
	of := kinds[names[e.rng.IntN(len(names))]]
	file := of[e.rng.IntN(len(of))]
	path := filepath.Join(dir, file)
	if pick := e.rng.IntN(len(damages) + 1); pick < len(damages) {
		d := damages[pick]
		info, err := os.Stat(path)
		if err != nil || info.Size() == 0 {
			return nil, "", err
		}
		old, err := os.ReadFile(path)
		if err != nil {
			return nil, "", err
		}
		if err := d.do(e, path, info); err != nil {
			return nil, "", err
		}
		if now, err := os.ReadFile(path); err == nil && bytes.Equal(old, now) {
			return nil, "", nil // the page was zeros before
		}
		e.counts.add(d.name, 1)
		return []string{file}, d.name + " of " + file, nil
	}
	other := of[e.rng.IntN(len(of))]
	if other == file {
		return nil, "", nil
	}
	e.counts.add("swap", 1)
	aside := filepath.Join(dir, "aside")
	err = errors.Join(os.Rename(path, aside), os.Rename(filepath.Join(dir, other), path), os.Rename(aside, filepath.Join(dir, other)))
	return []string{file, other}, "swap of " + file + " and " + other, err
}

// rotFound asks the broker's own check, if it has one. That some damage cannot be told is
// counted, not complained about: the end of a log may be torn as well.
func (e *env) rotFound(b *rig.Brokers, dir string, hurt []string, what string) {
	if !b.CanVerify() {
		return
	}
	said, err := b.Verify(dir)
	if errors.Is(err, rig.ErrFindings) && named(said, dir, hurt) {
		e.counts.add("found by verify", 1)
	} else {
		kind, _, _ := strings.Cut(what, "/")
		e.counts.add("not found by verify ("+kind+")", 1)
		fmt.Fprintf(e.log, "not found by verify: %v\n%s\n", err, said)
	}
}

// named reports whether text names one of the files, or the directory of one in which it
// is missing.
func named(text, dir string, hurt []string) bool {
	for _, f := range hurt {
		for f != "." && f != "journal" && f != "segments" {
			if strings.Contains(text, f) {
				return true
			}
			f = filepath.Dir(f)
		}
	}
	// A generation of a log that is not there has no path to be named by.
	return strings.Contains(text, "is missing") && strings.Contains(text, dir)
}

// rotServes checks what a broker over a damaged directory delivers.
func (e *env) rotServes(im *image, a *api, b *rig.Brokers, p *rig.Process, dir string, hurt []string) error {
	group := fmt.Sprintf("audit-%d", e.rng.Uint64())
	t := im.tally
	t.begin(group)
	for _, q := range t.queues() {
		if err := t.drainQueue(e.ctx, a, q, group, drainOptions{damaged: true}); err != nil {
			return err
		}
	}
	if p.Ended() {
		return violated("damage", "the broker has ended: %v", p.Exit)
	}
	lost := t.lostIn(group)
	if len(lost) == 0 {
		e.counts.add("served everything", 1)
		return nil
	}
	e.counts.add("served the rest", 1)
	switch part, _, _ := strings.Cut(hurt[0], "/"); part {
	case "segments": // each belongs to one queue
		if len(lost) > len(hurt) {
			return violated("damage", "messages of %d queues are gone", len(lost))
		}
	case "journal": // its end cannot be told from a torn one; each lane has lost its end, or the drain had complained
	default:
		return violated("damage", "messages of %d queues are gone", len(lost))
	}
	if words := b.Words(p); !named(words, dir, hurt) || !strings.Contains(words, "ERR") && !strings.Contains(words, "WRN") {
		return violated("damage", "%d messages are gone, and nothing in the log says so", t.lostAll(group))
	}
	return nil
}

// lostIn returns the queues of which a drain did not bring everything.
func (t *tally) lostIn(group string) map[string]bool {
	lost := map[string]bool{}
	for _, q := range t.queues() {
		if n, _ := t.missing(group, func(l *lane) bool { return l.queue == q }); n > 0 {
			lost[q] = true
		}
	}
	return lost
}

func (t *tally) lostAll(group string) int {
	n, _ := t.missing(group, nil)
	return n
}

// sums returns a checksum of each file.
func sums(dir string) (map[string][sha256.Size]byte, error) {
	all := map[string][sha256.Size]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir+"/")] = sha256.Sum256(b)
		return err
	})
	return all, err
}

// untouched checks that the files that were not damaged are as they were: all of them, or
// after a start those with messages, which only retention may remove.
func untouched(what, dir string, hurt []string, before map[string][sha256.Size]byte, all bool) error {
	after, err := sums(dir)
	if err != nil {
		return err
	}
	for f, sum := range before {
		if slices.Contains(hurt, f) || !all && !strings.HasPrefix(f, "segments/") || f == "LOCK" {
			continue
		}
		now, there := after[f]
		if !there || all && now != sum {
			return violated("damage", "%s: %s was changed or is gone", what, f)
		}
	}
	return nil
}
