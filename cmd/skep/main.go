package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// usageError is a command line that cannot be meant.
type usageError struct{ error }

// run executes one command line and returns its exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var exit exitError
	if errors.As(err, &exit) && exit.err == nil {
		return exit.status
	}
	fmt.Fprintf(stderr, "skep: %v\n", err)
	if exit.err != nil {
		return exit.status
	}
	var usage usageError
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "skep",
		Short:         "A durable message broker with very many ordered lanes",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newServeCommand(), newPushCommand(), newConsumeCommand(), newBackupCommand(), newRestoreCommand(),
		newVerifyCommand(), newRepairCommand(), newConfigCommand(), newHealthCommand(), newVersionCommand())
	return root
}

// noArguments refuses what stands on the command line beside flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s: unexpected argument %q", cmd.CommandPath(), args[0])}
	}
	return nil
}
