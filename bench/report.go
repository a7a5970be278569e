package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// row is what one scenario measured. Times are in nanoseconds in JSON.
type row struct {
	Name     string  `json:"name"`
	Messages int64   `json:"messages"`
	Requests int64   `json:"requests"`
	Seconds  float64 `json:"seconds"`

	MessagesPerSec  float64 `json:"messagesPerSec"`
	RequestsPerSec  float64 `json:"requestsPerSec"`
	PayloadMBPerSec float64 `json:"payloadMBPerSec"`

	P50  time.Duration `json:"p50"`
	P99  time.Duration `json:"p99"`
	P999 time.Duration `json:"p999"`
	Max  time.Duration `json:"max"`

	CeilingPerSec float64 `json:"ceilingRequestsPerSec,omitempty"`
	Ratio         float64 `json:"ratioToCeiling,omitempty"`

	CPUMicrosPerMessage float64 `json:"brokerCPUMicrosPerMessage"`
	GeneratorCPU        float64 `json:"generatorCPU"` // processors kept busy
	OtherCPU            float64 `json:"otherCPU"`     // by neither of us

	Facts []fact `json:"facts,omitempty"`
}

// fact is a number that has no column.
type fact struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

func (r *row) fact(name string, value float64, unit string) {
	r.Facts = append(r.Facts, fact{name, value, unit})
}

// value returns the fact of that name.
func (r *row) value(name string) (float64, bool) {
	for _, f := range r.Facts {
		if f.Name == name {
			return f.Value, true
		}
	}
	return 0, false
}

// rates fills in what follows from counts and time.
func (r *row) rates(u usage) {
	r.MessagesPerSec = float64(r.Messages) / r.Seconds
	r.RequestsPerSec = float64(r.Requests) / r.Seconds
	r.PayloadMBPerSec = r.MessagesPerSec * payloadSize / 1e6
	if r.Messages > 0 {
		r.CPUMicrosPerMessage = float64(u.broker.Microseconds()) / float64(r.Messages)
	}
	r.GeneratorCPU = u.generator.Seconds() / r.Seconds
	r.OtherCPU = max(u.machine-u.broker-u.generator, 0).Seconds() / r.Seconds
}

// report collects the rows and prints each as it comes.
type report struct {
	Host   host    `json:"host"`
	Rows   []*row  `json:"rows"`
	Floors []floor `json:"floors"`
}

func (r *report) begin(w io.Writer) {
	h := r.Host
	fmt.Fprintf(w, "%s, %d processors, %s, %s, load %s before we began\n", h.System, h.CPUs, h.FileSystem, h.Go, h.Load)
	fmt.Fprintf(w, "payloads of %d bytes; every answered write is synced; us/msg is processor time of the broker\n\n", payloadSize)
	fmt.Fprintf(w, "%-42s %9s %9s %7s %8s %8s %8s %8s %9s %6s %7s %5s %5s\n", "row",
		"msg/s", "req/s", "MB/s", "p50", "p99", "p99.9", "max", "ceiling/s", "ratio", "us/msg", "gen", "other")
}

func (r *report) add(w io.Writer, row *row) {
	r.Rows = append(r.Rows, row)
	fmt.Fprintf(w, "%-42s", row.Name)
	if row.Requests > 0 {
		fmt.Fprintf(w, " %9.0f %9.0f %7.1f %8s %8s %8s %8s", row.MessagesPerSec, row.RequestsPerSec, row.PayloadMBPerSec,
			short(row.P50), short(row.P99), short(row.P999), short(row.Max))
		if row.CeilingPerSec > 0 {
			fmt.Fprintf(w, " %9.0f %5.0f%%", row.CeilingPerSec, 100*row.Ratio)
		} else {
			fmt.Fprintf(w, " %9s %6s", "-", "-")
		}
		fmt.Fprintf(w, " %7.2f %5.2f %5.2f", row.CPUMicrosPerMessage, row.GeneratorCPU, row.OtherCPU)
	}
	fmt.Fprintln(w)
	for _, f := range row.Facts {
		fmt.Fprintf(w, "    %-46s %12s %s\n", f.Name, number(f.Value), f.Unit)
	}
}

// finish prints the floors.
func (r *report) finish(w io.Writer) {
	r.Floors = r.judge()
	fmt.Fprintf(w, "\n%-58s %14s  %14s\n", "floor", "measured", "wanted")
	for _, f := range r.Floors {
		fmt.Fprintf(w, "%-58s %14s  %14s  %s\n", f.Name, f.measured(), f.wanted(), f.verdict())
	}
}

func (r *report) writeJSON(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// short renders d in three digits.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.0fus", float64(d)/1e3)
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.2fms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.0fms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}

// number renders v without digits that nobody needs.
func number(v float64) string {
	if v >= 100 || v == float64(int64(v)) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
