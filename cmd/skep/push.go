package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// pushOptions is the command line of push.
type pushOptions struct {
	connection
	lineFormat
	partition       string
	partitionSet    bool
	batch           int
	concurrency     int
	continueOnError bool
	printIDs        bool
}

func newPushCommand() *cobra.Command {
	var o pushOptions
	cmd := &cobra.Command{
		Use:   "push --queue NAME < events.ndjson",
		Short: "Push lines of JSON from standard input",
		Long: `Push one message a line. A line is one JSON value and becomes the payload, byte for
byte, without white space around it; blank lines are skipped.

Lines of one partition are pushed in order. With --id-field a repeated run stores
nothing twice, within the deduplication window of the queue.

With --print-ids every verdict of the broker is one line of JSON on standard output,
written as soon as it is known, with line, partition, id, transactionId and status.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.partitionSet = cmd.Flags().Changed("partition")
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.partition, "partition", "", "partition of every message (default Default)")
	f.StringVar(&o.partitionField, "partition-field", "", "top-level field, string or number, that names the partition")
	f.StringVar(&o.payloadField, "payload-field", "", "top-level field that is the payload (default the whole line)")
	f.StringVar(&o.idField, "id-field", "", "top-level field, string or number, that is the transaction id")
	f.IntVar(&o.batch, "batch", 100, "messages of one request, at most")
	f.IntVar(&o.concurrency, "concurrency", 4, "requests at a time")
	f.BoolVar(&o.continueOnError, "continue-on-error", false, "go on after a broken line or a refused message")
	f.BoolVar(&o.printIDs, "print-ids", false, "print the verdict on each message")
	return cmd
}

func (o *pushOptions) check() error {
	if o.partitionSet && o.partitionField != "" {
		return usageError{errors.New("--partition and --partition-field exclude each other")}
	}
	return errors.Join(positive("batch", o.batch), positive("concurrency", o.concurrency))
}

func (o *pushOptions) run(ctx context.Context, in io.Reader, out, diag io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	c, err := o.open(o.concurrency)
	if err != nil {
		return err
	}
	defer c.Close()
	queue := c.Queue(o.queue)
	if o.partitionSet {
		queue = queue.Partition(o.partition)
	}
	// The first signal ends the reading, and what is under way is finished; a second
	// one ends the process.
	ctx, restore := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer restore()
	context.AfterFunc(ctx, restore)

	p := newPusher(o, queue, out, diag)
	begun := time.Now()
	stop := showProgress(diag, func() string {
		n := p.counts()
		return fmt.Sprintf("%d pushed, %d msg/s", n.pushed, rate(n.pushed, begun))
	})
	err = p.run(ctx, in)
	stop()
	n := p.counts()
	fmt.Fprintf(diag, "skep push: %d pushed, %d duplicates, %d failed, %d msg/s\n",
		n.pushed, n.duplicates, n.failed, rate(n.pushed+n.duplicates, begun))
	if err == nil && n.failed > 0 {
		err = fmt.Errorf("push: %d messages failed", n.failed)
	}
	return err
}
