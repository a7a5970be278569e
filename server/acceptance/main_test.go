package acceptance

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are processors: most of their time
// they wait, for the disk or for a lease to end. In the process that TestM904Kill kills
// it serves.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		fmt.Fprintln(os.Stderr, serveChild(dir))
		os.Exit(1)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
