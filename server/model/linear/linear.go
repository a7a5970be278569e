package linear

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sort"
	"strings"
)

// State is the sequential specification in a state. Fingerprints are equal where two
// states allow the same from there on.
type State[S any] interface {
	Clone() S
	Fingerprint() string
}

// Step is what one decision of the broker was asked and answered.
type Step[S State[S]] struct {
	Text   string
	Call   int64 // before the request was sent, nanoseconds
	Return int64 // after it was answered; of a lost one, nothing
	Epoch  int   // crashes before it was sent
	Lost   bool  // nobody knows the answer: it happened before the next crash, or never
	Crash  bool
	// Idle says that a step with this answer changes nothing, whenever it comes.
	Idle bool
	// Do does it to a state, which it may change, and returns what may come of it; or why
	// the answer is none that the rules allow.
	Do func(S) ([]S, error)
}

// Verdict is what a search found.
type Verdict struct {
	Linearizable bool
	Undecided    bool
	States       int
	Report       string // of one that is not: how far it goes
}

// Check searches for an order in which the steps make sense, from a state on. A history
// that needs more than limit states is undecided.
func Check[S State[S]](from S, steps []Step[S], limit int) Verdict {
	s, ok := run(from, steps, limit)
	v := Verdict{Linearizable: ok, Undecided: !ok && len(s.dead) >= limit, States: len(s.dead)}
	if !ok && !v.Undecided {
		v.Report = culprit(from, steps, limit)
	}
	return v
}

func run[S State[S]](from S, steps []Step[S], limit int) (s *search[S], ok bool) {
	slices.SortStableFunc(steps, func(a, b Step[S]) int { return cmp.Compare(a.Call, b.Call) })
	s = &search[S]{steps: steps, done: make([]bool, len(steps)), dead: map[node]bool{}, seed: maphash.MakeSeed(), limit: limit}
	return s, s.from(from, from.Fingerprint(), 0)
}

// culprit finds the first answer by which a history stops being linearizable, and reports
// what came until then.
func culprit[S State[S]](from S, steps []Step[S], limit int) string {
	var returns []int64
	for i := range steps {
		if !steps[i].Lost {
			returns = append(returns, steps[i].Return)
		}
	}
	slices.Sort(returns)
	n := sort.Search(len(returns), func(n int) bool {
		s, ok := run(from, until(steps, returns[n]), limit)
		return !ok && len(s.dead) < limit
	})
	s, _ := run(from, until(steps, returns[min(n, len(returns)-1)]), limit)
	return s.report()
}

// until returns the steps that were answered by then, and as lost what was under way.
func until[S State[S]](steps []Step[S], then int64) (some []Step[S]) {
	for _, step := range steps {
		switch {
		case !step.Lost && step.Return <= then:
		case step.Crash || step.Call >= then:
			continue
		default:
			step.Lost = true
		}
		some = append(some, step)
	}
	return some
}

// search is one search in progress.
type search[S State[S]] struct {
	steps []Step[S]
	done  []bool
	path  []int
	dead  map[node]bool
	seed  maphash.Seed
	limit int

	best    []int    // the longest order so far
	against []string // why nothing fits behind it
}

// node is a set of done steps and the state then.
type node struct {
	done  string
	state uint64
}

// from goes on from a state after which epoch crashes are done.
func (s *search[S]) from(state S, fingerprint string, epoch int) bool {
	at := node{s.set(epoch), maphash.String(s.seed, fingerprint)}
	if s.dead[at] || len(s.dead) >= s.limit {
		return false
	}
	candidates, finished := s.candidates(epoch)
	if finished {
		return true
	}
	if i, ok := s.idle(state, candidates); ok {
		return s.enter(i, state, fingerprint, epoch, at)
	}
	var against []string
	for _, i := range candidates {
		step := &s.steps[i]
		next, err := step.Do(state.Clone())
		if err != nil {
			against = append(against, fmt.Sprintf("%s: %v", step.Text, err))
		}
		s.done[i] = true
		s.path = append(s.path, i)
		for _, to := range next {
			after := epoch
			if step.Crash {
				after++
			}
			reached := to.Fingerprint()
			if step.Lost && reached == fingerprint {
				continue // as good as never
			}
			if s.from(to, reached, after) {
				return true
			}
		}
		s.done[i] = false
		s.path = s.path[:len(s.path)-1]
	}
	if len(s.path) > len(s.best) {
		s.best, s.against = slices.Clone(s.path), against
	}
	s.dead[at] = true
	return false
}

// idle finds an idle step that may come next. Where it can come now it need not come later.
func (s *search[S]) idle(state S, candidates []int) (i int, ok bool) {
	for _, i := range candidates {
		if step := &s.steps[i]; step.Idle && !step.Lost {
			if _, err := step.Do(state.Clone()); err == nil {
				return i, true
			}
		}
	}
	return 0, false
}

// enter goes on behind an idle step, and nowhere else.
func (s *search[S]) enter(i int, state S, fingerprint string, epoch int, at node) bool {
	s.done[i] = true
	s.path = append(s.path, i)
	if s.from(state, fingerprint, epoch) {
		return true
	}
	s.done[i] = false
	s.path = s.path[:len(s.path)-1]
	s.dead[at] = true
	return false
}

// candidates are the steps that may come next: those that were sent before any other that
// is left was answered. What was lost comes last, and only before the crash. finished says
// that all that was answered is done.
func (s *search[S]) candidates(epoch int) (list []int, finished bool) {
	first := int64(math.MaxInt64)
	for i := range s.steps {
		if step := &s.steps[i]; !s.done[i] && !step.Lost {
			first = min(first, step.Return)
		}
	}
	var lost []int
	for i := range s.steps {
		step := &s.steps[i]
		if step.Call > first {
			break
		}
		switch {
		case s.done[i]:
		case !step.Lost:
			list = append(list, i)
		case step.Epoch == epoch:
			lost = append(lost, i)
		}
	}
	return append(list, lost...), first == math.MaxInt64
}

// set spells the done steps. What was lost before a crash that is done counts as done: it
// makes no difference any more.
func (s *search[S]) set(epoch int) string {
	b := make([]byte, 0, len(s.done)/8+8)
	var word uint64
	for i, done := range s.done {
		if done || s.steps[i].Lost && s.steps[i].Epoch < epoch {
			word |= 1 << (i % 64)
		}
		if i%64 == 63 || i == len(s.done)-1 {
			b, word = binary.LittleEndian.AppendUint64(b, word), 0
		}
	}
	return string(b)
}

func (s *search[S]) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the longest order, %d of %d steps:\n", len(s.best), len(s.steps))
	in := map[int]bool{}
	for _, i := range s.best {
		in[i] = true
		fmt.Fprintf(&b, "  %s\n", s.steps[i].line())
	}
	b.WriteString("nothing fits behind it:\n")
	for _, text := range s.against {
		fmt.Fprintf(&b, "  %s\n", text)
	}
	b.WriteString("what is left:\n")
	for i := range s.steps {
		if !in[i] {
			fmt.Fprintf(&b, "  %s\n", s.steps[i].line())
		}
	}
	return b.String()
}

func (s *Step[S]) line() string {
	until := "lost"
	if !s.Lost {
		until = fmt.Sprintf("%.3f", float64(s.Return)/1e6)
	}
	return fmt.Sprintf("%9.3f-%-9s %s", float64(s.Call)/1e6, until, s.Text)
}
