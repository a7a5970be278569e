package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/skepmq/skep/client"
)

const (
	// maxTail is how much of a command's standard error goes into the reason.
	maxTail = 2048
	// pipeGrace is how long output is read after the command has ended, in case it
	// left a process behind that keeps the pipe open.
	pipeGrace = 2 * time.Second
)

// runner runs a command for each message.
type runner struct {
	command string
	format  func(*bytes.Buffer, *client.Message)
	out     io.Writer // safe for concurrent use, as is diag
	diag    io.Writer
}

// handle runs the command for one message. It outlives the end of ctx, because a
// signal to us is none to the command, unless the lease is lost: then somebody else
// may be working on the message already.
func (r *runner) handle(ctx context.Context, msgs []client.Message) error {
	m := &msgs[0]
	running, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), client.ErrLeaseLost) {
			kill()
		}
	})
	defer stop()
	var input bytes.Buffer
	r.format(&input, m)
	input.WriteByte('\n')
	reason := &tail{}
	cmd := exec.CommandContext(running, "/bin/sh", "-c", r.command)
	cmd.Stdin = &input
	cmd.Stdout = r.out
	cmd.Stderr = io.MultiWriter(r.diag, reason)
	cmd.Env = append(os.Environ(), environment(m)...)
	cmd.WaitDelay = pipeGrace
	ownGroup(cmd)
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	if text := reason.String(); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

func environment(m *client.Message) []string {
	return []string{
		"SKEP_QUEUE=" + m.Queue,
		"SKEP_GROUP=" + m.Group,
		"SKEP_PARTITION=" + m.Partition,
		"SKEP_PARTITION_ID=" + m.PartitionID,
		"SKEP_MESSAGE_ID=" + m.ID,
		"SKEP_TRANSACTION_ID=" + m.TransactionID,
		"SKEP_CREATED_AT=" + stamp(m.CreatedAt),
		"SKEP_ATTEMPT=" + strconv.Itoa(m.Attempt),
	}
}

// tail keeps the end of what is written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > maxTail {
		p = p[n-maxTail:]
	}
	t.b = append(t.b, p...)
	if over := len(t.b) - maxTail; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return n, nil
}

func (t *tail) String() string { return strings.TrimSpace(strings.ToValidUTF8(string(t.b), "")) }
