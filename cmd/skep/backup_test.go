package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server"
	"github.com/skepmq/skep/server/testkit"
)

// backupWorld is a broker that is served, with a message in it, and what a whole backup is.
func backupWorld(t *testing.T) (url string, archive []byte) {
	t.Helper()
	_, b := storedDirectory(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := testkit.Serve(server.New(server.Options{Broker: b, Version: "v7", Logger: zerolog.Nop()}), ln)
	t.Cleanup(func() {
		if err := stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	url = "http://" + ln.Addr().String()
	status, out, diag := command("backup", "--url", url, "-")
	if status != 0 || !strings.HasPrefix(diag, "skep backup: ") {
		t.Fatalf("backup: %d %s", status, diag)
	}
	return url, []byte(out)
}

// G-904: a running broker becomes a directory or a stream, and either of them a data directory
// that is in order and has what was stored.
func TestBackup(t *testing.T) {
	url, archive := backupWorld(t)
	dir := t.TempDir()
	kept, tar := filepath.Join(dir, "kept"), filepath.Join(dir, "skep.tar")
	if status, out, diag := command("backup", "--url", url+"/", "--rate", "1000", kept); status != 0 || out != "" || !strings.Contains(diag, " files, ") {
		t.Fatalf("into a directory: %d %s %s", status, out, diag)
	}
	if err := os.WriteFile(tar, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, diag := command("verify", kept); status != 0 {
		t.Errorf("verify the backup: %d %s", status, diag)
	}
	for name, restore := range map[string]func(to string) (int, string){
		"directory": func(to string) (int, string) {
			status, _, diag := command("restore", kept, "--data-dir", to)
			return status, diag
		},
		"tar": func(to string) (int, string) {
			status, _, diag := command("restore", tar, "--data-dir", to)
			return status, diag
		},
		"stream": func(to string) (int, string) {
			var out, diag bytes.Buffer
			status := run(context.Background(), []string{"restore", "-", "--data-dir", to}, bytes.NewReader(archive), &out, &diag)
			return status, diag.String()
		},
	} {
		to := filepath.Join(dir, "of", name)
		if status, diag := restore(to); status != 0 || !strings.Contains(diag, "made by skep v7") {
			t.Errorf("%s: %d %s", name, status, diag)
			continue
		}
		status, out, _ := command("verify", to)
		if status != 0 || !strings.HasSuffix(out, "clean: 0 errors, 0 warnings, 0 notes\n") || !strings.HasPrefix(out, "1 queues, 1 partitions, 0 groups, 1 messages,") {
			t.Errorf("%s: verify %d %s", name, status, out)
		}
		if status, diag := restore(to); status != 1 || !strings.Contains(diag, "not empty") {
			t.Errorf("%s, over what is there: %d %s", name, status, diag)
		}
		b, err := broker.Open(broker.Options{Dir: to, Logger: zerolog.Nop()})
		if err != nil {
			t.Errorf("%s: open: %v", name, err)
			continue
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What ends a backup or a restore, with which status, and that nothing is left of it.
func TestBackupFails(t *testing.T) {
	t.Setenv("SKEP_TOKEN", "secret")
	_, archive := backupWorld(t)
	answer := func(status int, body []byte, length int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.Path != "/api/v1/system/snapshot" || r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("asked for %s %s with %v", r.Method, r.URL, r.Header)
			}
			w.Header().Set("Content-Length", strconv.Itoa(length))
			w.WriteHeader(status)
			w.Write(body)
		}
	}
	half := archive[:len(archive)/2]
	flipped := bytes.Clone(archive)
	flipped[512] ^= 1
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		args    []string
		status  int
		want    string
	}{
		{"refused", answer(403, []byte(`{"error":"Insufficient permissions"}`), 36), nil, 1, "answers 403: {\"error\":\"Insufficient permissions\"}"},
		{"older", answer(404, []byte(`{}`), 2), nil, 1, "an older broker?"},
		{"another is running", answer(409, []byte(`{}`), 2), nil, 1, "answers 409"},
		{"cut", answer(200, half, len(archive)), nil, 1, "its end is missing"},
		{"cut, and nobody says so", answer(200, half, len(half)), nil, 1, "its end is missing"},
		{"damaged", answer(200, flipped, len(archive)), nil, 1, "damaged"},
		{"silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, []string{"--timeout", "20ms"}, 1, "has sent nothing for 20ms"},
		{"no address", nil, []string{"--url", "somewhere"}, 2, "want http://host:port"},
		{"no time", nil, []string{"--timeout", "0s"}, 2, "--timeout"},
		{"backwards", nil, []string{"--rate", "-1"}, 2, "--rate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(tt.handler)
			defer s.Close()
			dir := filepath.Join(t.TempDir(), "b")
			for _, to := range []string{dir, "-"} {
				args := append([]string{"backup", "--url", s.URL}, tt.args...)
				status, _, diag := command(append(args, to)...)
				if status != tt.status || !strings.Contains(diag, tt.want) {
					t.Errorf("to %s: %d %s", filepath.Base(to), status, diag)
				}
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"backup"}, {"backup", dir, dir}, {"restore", dir}, {"restore", "--data-dir", dir}, {"restore", dir, dir, "--data-dir", dir},
	} {
		if status, _, diag := command(args...); status != 2 || diag == "" {
			t.Errorf("%v: %d %s", args, status, diag)
		}
	}
	for _, from := range []string{filepath.Join(dir, "none"), dir} {
		if status, _, diag := command("restore", from, "--data-dir", filepath.Join(dir, "to")); status != 1 || diag == "" {
			t.Errorf("restore %s: %d %s", from, status, diag)
		}
	}
}

// A signal ends a backup, and nothing is left of it.
func TestBackupInterrupted(t *testing.T) {
	_, archive := backupWorld(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(archive[:len(archive)/2])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	dir := filepath.Join(t.TempDir(), "b")
	var out, diag bytes.Buffer
	var status int
	var running sync.WaitGroup
	running.Go(func() {
		status = run(ctx, []string{"backup", "--url", s.URL, dir}, strings.NewReader(""), &out, &diag)
	})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for names, _ := os.ReadDir(dir); len(names) == 0; names, _ = os.ReadDir(dir) {
		<-tick.C
	}
	cancel()
	running.Wait()
	if left, err := os.ReadDir(dir); status != 1 || err != nil || len(left) > 0 {
		t.Errorf("%d %s, left %v, %v", status, diag.String(), left, err)
	}
}

// What is to come no faster than a rate waits for its time.
func TestBackupRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			rate float64
			done int64
			want time.Duration
		}{{0, 1e9, 0}, {2, 5e6, 2500 * time.Millisecond}, {0.5, 1e6, 2 * time.Second}} {
			began := time.Now()
			o := backupOptions{rate: tt.rate}
			if err := o.pace(t.Context(), tt.done, began); err != nil || time.Since(began) != tt.want {
				t.Errorf("%d bytes at %v MB/s: %v after %v, want %v", tt.done, tt.rate, err, time.Since(began), tt.want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		o := backupOptions{rate: 1}
		if err := o.pace(ctx, 1e9, time.Now()); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v", err)
		}
	})
}
