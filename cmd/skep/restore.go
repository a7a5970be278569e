package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/skepmq/skep/log/backup"
	"github.com/skepmq/skep/segment/vfs"
)

func newRestoreCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "restore BACKUP|- --data-dir DIR",
		Short: "Make a data directory of a backup",
		Long: `Copy a backup, a directory, a tar or a tar on standard input, into a data directory that
is missing or empty, and check every byte of it on the way. The directory is complete, and
on disk, when the exit status is 0. Otherwise what was made is removed again; if the command
itself was killed, a broker refuses to start on what is left.

It may be run as the user that the broker runs as, who then owns the files.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := onePlace(cmd, args); err != nil {
				return err
			}
			if dir == "" {
				return usageError{errors.New("--data-dir is required")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			began := time.Now()
			m, err := restore(args[0], dir, cmd.InOrStdin())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "skep restore: %d files, %d bytes, as of %s, made by skep %s, in %v\n", len(m.Files), m.Bytes(),
				m.CreatedAt.Format(time.RFC3339Nano), m.Version, time.Since(began).Round(time.Millisecond))
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "directory to make (required)")
	return cmd
}

// restore makes a data directory of what from is.
func restore(from, dir string, stdin io.Reader) (m *backup.Manifest, err error) {
	if from == toStream {
		return backup.Restore(vfs.OS, dir, stdin)
	}
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return backup.RestoreDir(vfs.OS, dir, from)
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return backup.Restore(vfs.OS, dir, f)
}
