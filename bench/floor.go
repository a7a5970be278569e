package main

import "fmt"

// floor is a line that the broker must not fall below, or above where less is better.
type floor struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Want   float64 `json:"want"`
	AtMost bool    `json:"atMost"`
	Got    float64 `json:"got"`
	Run    bool    `json:"run"`
	Met    bool    `json:"met"`

	rows []string // the worst of them counts
	of   func(r *row) (float64, bool)
}

func floors() []floor {
	return []floor{
		{Name: "push batch 1, 64 connections, share of the ceiling", Unit: "%", Want: 50,
			rows: []string{"push/batch=1/conns=64/partitions=1", "push/batch=1/conns=64/partitions=1000"},
			of:   func(r *row) (float64, bool) { return 100 * r.Ratio, true }},
		{Name: "push batch 100, 16 connections", Unit: "msg/s", Want: 400_000,
			rows: []string{"push/batch=100/conns=16/partitions=1", "push/batch=100/conns=16/partitions=1000"}, of: messagesPerSec},
		{Name: "end to end, batch 100", Unit: "msg/s", Want: 150_000, rows: []string{endToEndFloor}, of: messagesPerSec},
		{Name: "idle push p50 / p50 of append + fdatasync of 4 KiB", Unit: "x", Want: 2, AtMost: true, rows: []string{idleName}, of: named(factIdleRatio)},
		{Name: "memory with 10,000 parked polls", Unit: "MB", Want: 200, AtMost: true, rows: []string{parkedName}, of: named(factParkedRSS)},
		{Name: "processor time with 10,000 parked polls", Unit: "% of one", Want: 0.5, AtMost: true, rows: []string{parkedName}, of: named(factParkedCPU)},
		{Name: "new partitions", Unit: "1/s", Want: 50_000, rows: []string{newPartitionsName}, of: named(factNewPartitions)},
		{Name: "transactions, 64 connections, share of plain pushes", Unit: "%", Want: 50, rows: []string{transactionsName(64)}, of: named(factTransactions)},
		{Name: "slowest admin operation on 100,000 partitions", Unit: "ms", Want: 1000, AtMost: true, rows: []string{adminName}, of: named(factAdminSlowest)},
		{Name: "longest stall of a push or pop beside one", Unit: "ms", Want: 50, AtMost: true, rows: []string{adminName}, of: named(factAdminStall)},
		{Name: "memory with 1,000,000 partitions", Unit: "MB", Want: 600, AtMost: true, rows: []string{cardinalityName}, of: named(factCardinalityRSS)},
		{Name: "files of 1,000,000 partitions", Unit: "", Want: 199, AtMost: true, rows: []string{cardinalityName}, of: named(factCardinalityFiles)},
		{Name: "ready after kill -9 with 1,000,000 partitions", Unit: "s", Want: 15, AtMost: true, rows: []string{cardinalityName}, of: named(factRestart)},
		{Name: "on disk, 30 s after all but one of 1,000 partitions were consumed", Unit: "MB", Want: 60, AtMost: true, rows: []string{reclaimName(1)}, of: named(factReclaimed)},
		{Name: "processor time of 10 s after that", Unit: "ms", Want: 100, AtMost: true, rows: []string{reclaimName(1)}, of: named(factIdleCPU)},
		{Name: "ready with 1,000,000 partitions, 10,000,000 ids, journal", Unit: "s", Want: 15, AtMost: true, rows: []string{startupName}, of: named(factStartup)},
		{Name: "ready after kill -9 with a backlog of large messages", Unit: "s", Want: 15, AtMost: true, rows: []string{backlogName}, of: named(factStartup)},
		{Name: "first answer of a broker that starts", Unit: "ms", Want: 2000, AtMost: true, rows: []string{startupName, backlogName}, of: named(factStartupAnswer)},
		{Name: "memory until ready / steady before", Unit: "x", Want: 1.5, AtMost: true, rows: []string{startupName, backlogName}, of: named(factStartupMemory)},
	}
}

func messagesPerSec(r *row) (float64, bool) { return r.MessagesPerSec, true }

func named(fact string) func(r *row) (float64, bool) {
	return func(r *row) (float64, bool) { return r.value(fact) }
}

// judge holds the rows against the floors.
func (r *report) judge() []floor {
	all := floors()
	for i := range all {
		f := &all[i]
		for _, row := range r.Rows {
			for _, name := range f.rows {
				if v, ok := f.of(row); ok && row.Name == name && (!f.Run || f.worse(v)) {
					f.Got, f.Run = v, true
				}
			}
		}
		f.Met = f.Run && !(f.AtMost && f.Got > f.Want || !f.AtMost && f.Got < f.Want)
	}
	return all
}

func (f *floor) worse(v float64) bool { return f.AtMost == (v > f.Got) }

func (f *floor) measured() string {
	if !f.Run {
		return "-"
	}
	return number(f.Got) + " " + f.Unit
}

func (f *floor) wanted() string {
	sign := ">= "
	if f.AtMost {
		sign = "<= "
	}
	return fmt.Sprint(sign, number(f.Want), " ", f.Unit)
}

func (f *floor) verdict() string {
	switch {
	case !f.Run:
		return "not run"
	case f.Met:
		return "met"
	}
	return "NOT met"
}
