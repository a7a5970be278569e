package packaging_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skepmq/skep/cmd/skep/config"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestConfigurationIsOfDefaults wants every setting of skep.env to exist, and what stands
// behind a # to be its default.
func TestConfigurationIsOfDefaults(t *testing.T) {
	defaults, err := config.Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^#([A-Z_]+=.*)$`).FindAllStringSubmatch(read(t, "skep.env"), -1)
	if len(lines) < 5 {
		t.Fatalf("%d settings", len(lines))
	}
	for _, line := range lines {
		c, err := config.Load(nil, []string{line[1]})
		if err != nil {
			t.Error(err)
			continue
		}
		name, _, _ := strings.Cut(line[1], "=")
		if !slices.Contains(config.Names(), name) {
			t.Errorf("%s is no setting", name)
		}
		for i, v := range c.Values {
			if v.Value != defaults.Values[i].Value {
				t.Errorf("%s: the default is %s", line[1], defaults.Values[i].Value)
			}
		}
	}
	if set := regexp.MustCompile(`(?m)^[A-Z_]+=`).FindString(read(t, "skep.env")); set != "" {
		t.Errorf("%s is set where a default would do", set)
	}
}

// TestVariablesAreKnown wants the unit and the image to set nothing that has no effect.
func TestVariablesAreKnown(t *testing.T) {
	for path, pattern := range map[string]string{
		"skep.service":                    `(?m)^Environment=(\w+)=`,
		filepath.Join("..", "Dockerfile"): `(?m)^ENV (\w+)=`,
	} {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, path), -1)
		if len(found) == 0 {
			t.Errorf("%s: no variables", path)
		}
		for _, m := range found {
			if !slices.Contains(config.Names(), m[1]) {
				t.Errorf("%s: %s is no setting", path, m[1])
			}
		}
	}
}

// TestPackageIsComplete wants the sources that nfpm is told of to be there.
func TestPackageIsComplete(t *testing.T) {
	text := read(t, "nfpm.yaml")
	paths := regexp.MustCompile(`(?m)(?:src|postinstall|preremove|postremove): (\S+)$`).FindAllStringSubmatch(text, -1)
	if len(paths) < 8 {
		t.Fatalf("%d files", len(paths))
	}
	for _, m := range paths {
		if m[1] == "bin/skep" {
			continue // is built
		}
		if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
			t.Error(err)
		}
	}
}

// TestDataDirectoryOfRPM wants an rpm not to own the data directory, since it would set
// owner and mode anew with each upgrade, and its script to make it.
func TestDataDirectoryOfRPM(t *testing.T) {
	entry := regexp.MustCompile(`(?s)dst: /var/lib/skep\n.*?\n\n`).FindString(read(t, "nfpm.yaml"))
	if !strings.Contains(entry, "packager: deb\n") {
		t.Errorf("an rpm holds the data directory: %q", entry)
	}
	if !strings.Contains(read(t, "postinstall.sh"), "mkdir -m 0750 /var/lib/skep") {
		t.Error("nothing makes the data directory of an rpm")
	}
}
