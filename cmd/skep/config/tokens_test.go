package config

import (
	"strings"
	"testing"
	"time"
)

// G-805, G-960: which values are taken as they are, and which as unset.
func TestG805Values(t *testing.T) {
	for name, tt := range map[string]struct {
		env    []string
		secret string
		skip   string
		skew   time.Duration
	}{
		"nothing": {nil, "", "/health,/metrics/prometheus,/metrics,/", 30 * time.Second},
		"blank":   {[]string{"JWT_SECRET=  ", "JWT_CLOCK_SKEW= "}, "", "/health,/metrics/prometheus,/metrics,/", 30 * time.Second},
		"given":   {[]string{"JWT_SECRET= s ", "JWT_SKIP_PATHS= /a , /b/,", "JWT_CLOCK_SKEW=0"}, " s ", "/a,/b/", 0},
		"cleared": {[]string{"JWT_SKIP_PATHS="}, "", "", 30 * time.Second},
	} {
		c, err := Load(nil, tt.env)
		if err != nil {
			t.Fatal(err)
		}
		o := c.Auth
		if string(o.Secret) != tt.secret || strings.Join(o.SkipPaths, ",") != tt.skip || o.Skew != tt.skew {
			t.Errorf("%s: %q %q %s", name, o.Secret, o.SkipPaths, o.Skew)
		}
	}
}
