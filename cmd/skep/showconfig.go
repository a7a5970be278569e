package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/skepmq/skep/cmd/skep/config"
)

func newConfigCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print what skep serve would be configured with",
		Long: `Print every setting of skep serve as its environment and these flags have it, and where
the value is from. Secrets are shown by their length alone. Nothing is started.

The exit status is 1 when a value is not allowed, or not beside the others; skep serve would
not start with it. Files are not looked at.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), effective(c))
			} else {
				printRemarks(cmd.ErrOrStderr(), &c.Remarks)
				err = printValues(cmd.OutOrStdout(), c.Values)
			}
			return errors.Join(err, checkTogether(c))
		},
	}
	config.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

// effective is what is in force, for programs.
func effective(c *config.Config) any {
	return struct {
		Settings []config.Value `json:"settings"`
		config.Remarks
	}{c.Values, c.Remarks}
}

// checkTogether refuses what is allowed by itself and not with the rest. The files are
// for the user of the service to read, perhaps for nobody else.
func checkTogether(c *config.Config) error {
	silent := zerolog.Nop()
	if _, err := verifier(c, &silent); err != nil {
		return err
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errHalfTLS
	}
	if c.EncryptionKey != nil && c.EncryptionKeyFile != "" {
		return errTwoKeys
	}
	return nil
}

func printValues(out io.Writer, values []config.Value) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, v := range values {
		source := v.Source
		if v.From != "" && v.From != v.Name {
			source += " " + v.From
		}
		value := v.Value
		if value == "" {
			value = v.Absent
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", v.Name, value, source)
	}
	return table.Flush()
}

// printRemarks says what has no effect, on standard error.
func printRemarks(diag io.Writer, r *config.Remarks) {
	for _, u := range r.Unknown {
		fmt.Fprintf(diag, "unknown, without effect: %s\n", u)
	}
	if len(r.Ignored) > 0 {
		fmt.Fprintf(diag, "of other brokers, without effect: %s\n", strings.Join(r.Ignored, ", "))
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(diag, "warning: %s\n", text)
	}
}
