package config

import (
	"testing"
	"time"

	"github.com/skepmq/skep/broker"
)

func TestRetentionConfig(t *testing.T) {
	const day = 24 * time.Hour
	for name, row := range map[string]struct {
		env  map[string]string
		want broker.Options // of the two fields
		bad  bool
	}{
		"defaults":         {map[string]string{}, broker.Options{RetentionInterval: broker.DefaultRetentionInterval, CleanupAge: broker.DefaultCleanupAge}, false},
		"both":             {map[string]string{"RETENTION_INTERVAL": "250", "PARTITION_CLEANUP_DAYS": "7"}, broker.Options{RetentionInterval: 250 * time.Millisecond, CleanupAge: 7 * day}, false},
		"floor":            {map[string]string{"PARTITION_CLEANUP_DAYS": "0"}, broker.Options{RetentionInterval: broker.DefaultRetentionInterval, CleanupAge: day}, false},
		"below the floor":  {map[string]string{"PARTITION_CLEANUP_DAYS": "-4"}, broker.Options{RetentionInterval: broker.DefaultRetentionInterval, CleanupAge: day}, false},
		"off wins":         {map[string]string{"PARTITION_CLEANUP_DAYS": "7", "QUEEN_PARTITION_CLEANUP_ENABLED": "no"}, broker.Options{RetentionInterval: broker.DefaultRetentionInterval, CleanupAge: -1}, false},
		"on":               {map[string]string{"PARTITION_CLEANUP_DAYS": "7", "QUEEN_PARTITION_CLEANUP_ENABLED": "1"}, broker.Options{RetentionInterval: broker.DefaultRetentionInterval, CleanupAge: 7 * day}, false},
		"no interval":      {map[string]string{"RETENTION_INTERVAL": "0"}, broker.Options{}, true},
		"no number":        {map[string]string{"PARTITION_CLEANUP_DAYS": "x"}, broker.Options{}, true},
		"beyond a century": {map[string]string{"PARTITION_CLEANUP_DAYS": "40000"}, broker.Options{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var environ []string
			for name, value := range row.env {
				environ = append(environ, name+"="+value)
			}
			c, err := Load(nil, environ)
			if (err != nil) != row.bad {
				t.Fatalf("error %v", err)
			}
			if row.bad {
				return
			}
			if got := c.Broker; got.RetentionInterval != row.want.RetentionInterval || got.CleanupAge != row.want.CleanupAge {
				t.Errorf("got %v and %v", got.RetentionInterval, got.CleanupAge)
			}
		})
	}
}
