package linear

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// register is a number that is written and read.
type register int

func (r register) Clone() register     { return r }
func (r register) Fingerprint() string { return strconv.Itoa(int(r)) }

func write(call, ret int64, v int) Step[register] {
	return Step[register]{Text: "write " + strconv.Itoa(v), Call: call, Return: ret, Do: func(register) ([]register, error) {
		return []register{register(v)}, nil
	}}
}

func read(call, ret int64, v int) Step[register] {
	return Step[register]{Text: "read " + strconv.Itoa(v), Call: call, Return: ret, Idle: true, Do: func(r register) ([]register, error) {
		if int(r) != v {
			return nil, errors.New("it is " + r.Fingerprint())
		}
		return []register{r}, nil
	}}
}

// choose leaves one of two values, and does not tell which.
func choose(call, ret int64, a, b int) Step[register] {
	return Step[register]{Text: "choose", Call: call, Return: ret, Do: func(register) ([]register, error) {
		return []register{register(a), register(b)}, nil
	}}
}

func lost(s Step[register]) Step[register] { s.Lost = true; return s }

func later(s Step[register]) Step[register] { s.Epoch = 1; return s }

func crash(call, ret int64) Step[register] {
	return Step[register]{Text: "crash", Call: call, Return: ret, Crash: true, Do: func(r register) ([]register, error) {
		return []register{r}, nil
	}}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		steps []Step[register]
		ok    bool
	}{
		"nothing":                            {nil, true},
		"one after the other":                {[]Step[register]{write(1, 2, 7), read(3, 4, 7)}, true},
		"an old value":                       {[]Step[register]{write(1, 2, 7), read(3, 4, 0)}, false},
		"a value from nowhere":               {[]Step[register]{read(1, 2, 9)}, false},
		"beside a write, before it":          {[]Step[register]{write(1, 4, 7), read(2, 3, 0)}, true},
		"beside a write, after it":           {[]Step[register]{write(1, 4, 7), read(2, 3, 7)}, true},
		"there and back":                     {[]Step[register]{write(1, 9, 7), read(2, 3, 7), read(4, 5, 0)}, false},
		"two writes in either order":         {[]Step[register]{write(1, 4, 7), write(1, 4, 8), read(5, 6, 7)}, true},
		"two writes seen in both orders":     {[]Step[register]{write(1, 4, 7), write(1, 4, 8), read(5, 6, 7), read(7, 8, 8)}, false},
		"a lost write is seen":               {[]Step[register]{lost(write(1, 2, 7)), read(3, 4, 7)}, true},
		"a lost write is not seen":           {[]Step[register]{lost(write(1, 2, 7)), read(3, 4, 0)}, true},
		"a lost write comes and goes":        {[]Step[register]{lost(write(1, 2, 7)), read(3, 4, 7), read(5, 6, 0)}, false},
		"a lost write before the crash":      {[]Step[register]{lost(write(1, 2, 7)), crash(3, 4), later(read(5, 6, 7))}, true},
		"a lost write after the crash":       {[]Step[register]{lost(write(1, 2, 7)), crash(3, 4), later(read(5, 6, 0)), later(read(7, 8, 7))}, false},
		"one that was answered is not lost":  {[]Step[register]{write(1, 2, 7), crash(3, 4), later(read(5, 6, 0))}, false},
		"a choice":                           {[]Step[register]{choose(1, 2, 3, 4), read(3, 4, 4)}, true},
		"a choice is made once":              {[]Step[register]{choose(1, 2, 3, 4), read(3, 4, 4), read(5, 6, 3)}, false},
		"an idle step waits for what it saw": {[]Step[register]{read(1, 9, 7), write(2, 3, 7), write(4, 5, 8)}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if v := Check(register(0), slices.Clone(tt.steps), 1000); v.Linearizable != tt.ok || v.Undecided {
					t.Fatalf("got %+v, want %t", v, tt.ok)
				}
				slices.Reverse(tt.steps) // the order they are given in means nothing
			}
		})
	}
}

// The report ends with the first answer that nothing explains.
func TestReportNamesTheCulprit(t *testing.T) {
	steps := []Step[register]{write(1, 2, 7), read(3, 4, 0), write(5, 6, 8), read(7, 8, 8)}
	report := Check(register(0), steps, 1000).Report
	if !strings.Contains(report, "read 0: it is 7") || strings.Contains(report, "write 8") {
		t.Errorf("got %s", report)
	}
}

func TestUndecided(t *testing.T) {
	var steps []Step[register]
	for i := range 12 {
		steps = append(steps, write(1, 2, i))
	}
	steps = append(steps, read(3, 4, 99))
	if v := Check(register(0), steps, 50); !v.Undecided || v.Linearizable || v.Report != "" {
		t.Errorf("got %+v", v)
	}
}
