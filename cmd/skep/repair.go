package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skepmq/skep/log/fsck"
)

func newRepairCommand() *cobra.Command {
	var yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "repair DIR",
		Short: "Repair the data directory of a stopped broker",
		Long: `Make a damaged data directory such that skep verify finds nothing and the broker serves
what is left. Without --yes nothing is changed: it says what it would do, and what would be
lost.

Messages that cannot be read are marked as lost, and consumers pass over them. A journal is
cut where it cannot be read, with everything that follows. Indexes are built again. Every byte
that is replaced or taken away is kept in DIR/repairs, with a report. A catalogue or the places
of consumer groups cannot be repaired: restore a backup. A backup is better than a repair
wherever there is one: copy the directory first.

The exit status is 0 when the directory is clean afterwards, 1 when it is not or when there
is something to do and --yes was not given, and 2 when it could not be repaired at all.`,
		Args: oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			return repair(args[0], yes, asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "change the directory")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

func repair(dir string, yes, asJSON bool, out, diag io.Writer) error {
	report, err := fsck.Repair(fsckOptions(dir, diag), yes)
	if err != nil {
		return uncheckable(errors.Join(err, printDone(out, report, asJSON)))
	}
	if asJSON {
		err = printJSON(out, report)
	} else {
		err = printRepair(out, report)
	}
	if err != nil {
		return err
	}
	if report.Clean() {
		return nil
	}
	return exitError{status: 1}
}

// printDone prints how far a repair has come that could not go on; nil: nowhere.
func printDone(out io.Writer, r *fsck.RepairReport, asJSON bool) error {
	switch {
	case r == nil || len(r.Steps) == 0:
		return nil
	case asJSON:
		return printJSON(out, r)
	}
	printSteps(out, r)
	_, err := fmt.Fprintln(out, "could not go on; repair again when the cause is removed")
	return err
}

// printSteps prints what was done and lost, for people.
func printSteps(out io.Writer, r *fsck.RepairReport) {
	for i := range r.Steps {
		s := &r.Steps[i]
		fmt.Fprintf(out, "%s at %d: %s", s.File, s.Position, s.What)
		if s.Kept != "" {
			fmt.Fprintf(out, "; %d bytes kept as %s", s.Bytes, s.Kept)
		}
		fmt.Fprintln(out)
	}
	for i := range r.Losses {
		l := &r.Losses[i]
		fmt.Fprintf(out, "LOST %d messages: queue %q, partition %q, offsets %d to %d, %s\n",
			l.Messages, l.Queue, l.Partition, l.Offsets.From, l.Offsets.To-1, l.Why)
	}
	for _, text := range r.Other {
		fmt.Fprintf(out, "LOST %s\n", text)
	}
}

// printRepair prints a repair that came to its end, and what is left to do.
func printRepair(out io.Writer, r *fsck.RepairReport) error {
	printSteps(out, r)
	var err error
	switch {
	case r.Before.Clean:
		_, err = fmt.Fprintln(out, "nothing to repair")
	case !r.Applied && len(r.Steps) > 0:
		_, err = fmt.Fprintf(out, "nothing was changed. With --yes: %d steps as above, and what they bring to light\n", len(r.Steps))
	case r.Clean():
		_, err = fmt.Fprintf(out, "repaired in %d steps, %d messages lost; the directory is clean\n", len(r.Steps), r.Lost)
	default:
		report := r.After
		if report == nil {
			report = r.Before
		}
		err = printReport(out, report)
	}
	return err
}
