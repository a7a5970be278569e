package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the release build with -ldflags "-X main.version=… -X main.commit=…".
var (
	version string
	commit  string
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version and commit",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

// versionLine describes this build.
func versionLine() string {
	info, _ := debug.ReadBuildInfo()
	return versionText(version, commit, info)
}

// buildVersion is the version alone, as /health names it.
func buildVersion() string {
	info, _ := debug.ReadBuildInfo()
	return versionName(version, info)
}

// versionName is what the linker has set, or else what the compiler recorded.
func versionName(version string, info *debug.BuildInfo) string {
	if version == "" && info != nil {
		version = info.Main.Version
	}
	if version == "" || version == "(devel)" {
		return "dev"
	}
	return version
}

// buildCommit is the commit that was built.
func buildCommit() string {
	info, _ := debug.ReadBuildInfo()
	return commitName(commit, info)
}

// commitName is what the linker has set, or else what the compiler recorded.
func commitName(commit string, info *debug.BuildInfo) string {
	if commit != "" {
		return commit
	}
	commit, dirty := "unknown", false
	if info != nil {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.modified":
				dirty = s.Value == "true"
			}
		}
	}
	if dirty {
		commit += " with changes"
	}
	return commit
}

// versionText fills what the linker did not set from what the compiler recorded.
func versionText(version, commit string, info *debug.BuildInfo) string {
	return fmt.Sprintf("skep %s, commit %s, %s %s/%s", versionName(version, info), commitName(commit, info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
