package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/segment/vfs"
)

// exitError ends the process with a status of its own.
type exitError struct {
	status int
	err    error // nil: all is said
}

func (e exitError) Error() string { return fmt.Sprint(e.err) }

func newVerifyCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check the data directory of a stopped broker",
		Long: `Read every byte of the data directory of a stopped broker, check it, and say what is
wrong: where, what it means and what to do. Nothing is changed on disk.

What any crash leaves behind, like the torn end of a log, is a note: the next start of the
broker clears it away. The exit status is 0 when there are no errors and no warnings, 1 when
there are, and 2 when the directory could not be checked: because a broker serves it, it is
not there, or cannot be read.`,
		Args: oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			return verify(args[0], asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

func oneDirectory(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s: one data directory is wanted, not %d", cmd.CommandPath(), len(args))}
	}
	return nil
}

func verify(dir string, asJSON bool, out, diag io.Writer) error {
	report, err := fsck.Verify(fsckOptions(dir, diag))
	if err != nil {
		return uncheckable(err)
	}
	if asJSON {
		err = printJSON(out, report)
	} else {
		err = printReport(out, report)
	}
	if err != nil {
		return err
	}
	if !report.Clean {
		return exitError{status: 1}
	}
	return nil
}

// uncheckable says why a directory could not be looked at.
func uncheckable(err error) error {
	if errors.Is(err, vfs.ErrLocked) {
		err = fmt.Errorf("%w: stop the broker that serves this directory first", err)
	}
	return exitError{2, err}
}

// fsckOptions shows progress on a terminal, and there alone.
func fsckOptions(dir string, diag io.Writer) fsck.Options {
	o := fsck.Options{Dir: dir}
	if terminal(diag) {
		last := time.Now()
		o.Progress = func(done, total int64) {
			if time.Since(last) < time.Second && done < total {
				return
			}
			last = time.Now()
			fmt.Fprintf(diag, "\r%d of %d MB of segments ", done>>20, total>>20)
			if done == total {
				fmt.Fprint(diag, "\r\x1b[K")
			}
		}
	}
	return o
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printReport prints a report for people: findings, what there is, and the verdict last.
func printReport(out io.Writer, r *fsck.Report) error {
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(out, "%-7s %s at %d%s: %s\n", f.Severity, f.File, f.Position, place(f), f.Problem)
		if f.Severity != fsck.Note {
			fmt.Fprintf(out, "        %s. %s: %s\n", f.Code, f.Meaning, f.Action)
		}
	}
	if r.Omitted > 0 {
		fmt.Fprintf(out, "        … and %d more\n", r.Omitted)
	}
	s := &r.Summary
	fmt.Fprintf(out, "%d queues, %d partitions, %d groups, %d messages, %d cursors, %d dead letters, %d transaction ids\n",
		s.Queues, s.Partitions, s.Groups, s.Messages, s.Cursors, s.DeadLetters, s.IDs)
	fmt.Fprintf(out, "%d segments of %d bytes, %d extents, %d batches; %d journal generations of %d bytes; %d bytes checked\n",
		s.Segments, s.SegmentBytes, s.Extents, s.Batches, s.Generations, s.JournalBytes, s.Bytes)
	if s.Lost > 0 {
		fmt.Fprintf(out, "%d messages have been marked as lost by a repair\n", s.Lost)
	}
	verdict := "clean"
	if !r.Clean {
		verdict = "NOT clean"
	}
	_, err := fmt.Fprintf(out, "%s: %d errors, %d warnings, %d notes\n", verdict, r.Errors, r.Warnings, r.Notes)
	return err
}

// place says which messages a finding is about.
func place(f *fsck.Finding) string {
	text := ""
	if f.Queue != "" {
		text += fmt.Sprintf(", queue %q", f.Queue)
	}
	if f.Partition != "" {
		text += fmt.Sprintf(", partition %q", f.Partition)
	}
	if f.Offsets != nil {
		text += fmt.Sprintf(", offsets %d to %d", f.Offsets.From, f.Offsets.To-1)
	}
	return text
}
