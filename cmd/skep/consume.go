package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/skepmq/skep/client"
)

// consumeOptions is the command line of consume.
type consumeOptions struct {
	connection
	group        string
	partition    string
	partitionSet bool
	batch        int
	limit        int
	untilEmpty   bool
	wait         time.Duration
	waitSet      bool
	concurrency  int
	partitions   int
	leaseSeconds int
	mode         string
	command      string
	format       string
}

func newConsumeCommand() *cobra.Command {
	var o consumeOptions
	cmd := &cobra.Command{
		Use:   "consume --queue NAME --group NAME",
		Short: "Write messages to standard output, or run a command for each",
		Long: `Consume messages and acknowledge them.

Without --exec every message becomes one line on standard output: its payload, or with
--format json an object with id, transactionId, queue, partition, partitionId, group,
createdAt and data. Line breaks between the tokens of a payload become spaces. A batch
is written before it is acknowledged, so a crash in between repeats lines and loses none.

With --exec the command is run by /bin/sh once a message, with what --format says on
its standard input and SKEP_QUEUE, SKEP_GROUP, SKEP_PARTITION, SKEP_PARTITION_ID,
SKEP_MESSAGE_ID, SKEP_TRANSACTION_ID, SKEP_CREATED_AT and SKEP_ATTEMPT in its
environment. Exit status 0 acknowledges the message. Anything else fails it, with the
end of standard error as the reason: it comes again, before everything behind it, until
the queue's retry limit makes it a dead letter. The lease is renewed while the command
runs. If the lease is lost all the same, the command is killed.

SIGINT and SIGTERM end it: what is under way is finished and acknowledged, what has not
been begun is given back, and the exit status is 0.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.partitionSet = cmd.Flags().Changed("partition")
			o.waitSet = cmd.Flags().Changed("wait")
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.group, "group", "", "consumer group (default the queue mode, one cursor shared by all that name none)")
	f.StringVar(&o.partition, "partition", "", "consume this partition alone")
	f.IntVar(&o.batch, "batch", 100, "messages of one request, at most")
	f.IntVar(&o.limit, "limit", 0, "end after this many messages (default never)")
	f.BoolVar(&o.untilEmpty, "until-empty", false, "end when there is nothing to deliver")
	f.DurationVar(&o.wait, "wait", 30*time.Second, "how long a request waits for messages; with --until-empty 0s unless given")
	f.IntVar(&o.concurrency, "concurrency", 1, "requests, and commands, at a time")
	f.IntVar(&o.partitions, "partitions", 1, "partitions of one request, at most")
	f.IntVar(&o.leaseSeconds, "lease-seconds", 0, "lease of what is delivered, renewed at half time (default the queue's)")
	f.StringVar(&o.mode, "subscription-mode", "", "where a new group begins, all or new (default the broker's)")
	f.StringVar(&o.command, "exec", "", "command to run for each message")
	f.StringVar(&o.format, "format", "payload", "payload or json")
	return cmd
}

func (o *consumeOptions) check() error {
	if o.format != "payload" && o.format != "json" {
		return usageError{fmt.Errorf("--format: got %q, want payload or json", o.format)}
	}
	if o.mode != "" && o.mode != "all" && o.mode != "new" {
		return usageError{fmt.Errorf("--subscription-mode: got %q, want all or new", o.mode)}
	}
	if o.limit < 0 || o.wait < 0 || o.leaseSeconds < 0 {
		return usageError{errors.New("--limit, --wait and --lease-seconds cannot be negative")}
	}
	return errors.Join(positive("batch", o.batch), positive("concurrency", o.concurrency), positive("partitions", o.partitions))
}

// request describes what is polled.
func (o *consumeOptions) request(c *client.Client) client.Queue {
	q := c.Queue(o.queue).Group(o.group).Batch(o.batch).Partitions(o.partitions).
		LeaseSeconds(o.leaseSeconds).SubscriptionMode(o.mode).
		Concurrency(o.concurrency).Limit(o.limit)
	if o.partitionSet {
		q = q.Partition(o.partition)
	}
	if o.untilEmpty {
		q = q.UntilEmpty()
	}
	if !o.untilEmpty || o.waitSet {
		q = q.Wait(o.wait)
	}
	if o.command != "" {
		q = q.Each()
	}
	return q
}

func (o *consumeOptions) run(ctx context.Context, out, diag io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	c, err := o.open(3 * o.concurrency) // a poll, an ack and a renewal
	if err != nil {
		return err
	}
	defer c.Close()
	locked := &lockedWriter{w: diag}
	ctx, restore := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer restore()
	context.AfterFunc(ctx, restore) // a second signal ends the process
	inner, broken := context.WithCancelCause(ctx)
	defer broken(nil)

	var handled, failed atomic.Int64
	handle := counted(o.handler(out, locked, broken), &handled, &failed)
	begun := time.Now()
	stop := showProgress(diagTerminal(locked, out), func() string {
		return fmt.Sprintf("%d consumed, %d msg/s", handled.Load(), rate(handled.Load(), begun))
	})
	err = o.request(c).
		OnError(func(err error) { fmt.Fprintf(locked, "skep consume: %v\n", err) }).
		Consume(inner, handle)
	stop()
	fmt.Fprintf(locked, "skep consume: %d consumed, %d failed, %d msg/s\n", handled.Load(), failed.Load(), rate(handled.Load(), begun))
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return nil // a signal: as asked
	case inner.Err() != nil:
		return context.Cause(inner)
	}
	return err
}

// diagTerminal is where progress may be shown: not where the messages go as well.
func diagTerminal(diag *lockedWriter, out io.Writer) io.Writer {
	if terminal(out) {
		return io.Discard
	}
	return diag.w
}

// handler is what happens to messages. broken ends the command.
func (o *consumeOptions) handler(out, diag io.Writer, broken context.CancelCauseFunc) client.Handler {
	write := formatPayload
	if o.format == "json" {
		write = formatJSON
	}
	if o.command != "" {
		r := &runner{command: o.command, format: write, out: &lockedWriter{w: out}, diag: diag}
		return r.handle
	}
	w := &lineWriter{format: write, out: out, broken: broken}
	return w.handle
}

// counted counts what h does.
func counted(h client.Handler, handled, failed *atomic.Int64) client.Handler {
	return func(ctx context.Context, msgs []client.Message) error {
		err := h(ctx, msgs)
		if err != nil {
			failed.Add(int64(len(msgs)))
		} else {
			handled.Add(int64(len(msgs)))
		}
		return err
	}
}
