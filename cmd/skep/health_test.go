package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		status int
		stdout string
		stderr string
	}{
		"healthy":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"status":"healthy"}`) }, 0, "{\"status\":\"healthy\"}\n", ""},
		"recovering": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"recovering":true}`, 503) }, 1, "", `answers 503: {"recovering":true}`},
		"silent":     {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 1, "", "deadline exceeded"},
		"another":    {http.NotFound, 1, "", "answers 404"},
		"elsewhere":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/status", http.StatusFound) }, 1, "", "answers 302"},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("GET /health", row.answer)
			mux.HandleFunc("GET /status", func(http.ResponseWriter, *http.Request) {})
			s := httptest.NewServer(mux)
			defer s.Close()
			timeout := "1m"
			if name == "silent" {
				timeout = "10ms"
			}
			for _, address := range []string{s.URL, s.URL + "/", s.Listener.Addr().String()} {
				var out, diag bytes.Buffer
				status := run(t.Context(), []string{"health", "--address", address, "--timeout", timeout}, nil, &out, &diag)
				if status != row.status || out.String() != row.stdout || !strings.Contains(diag.String(), row.stderr) {
					t.Errorf("%s: got %d, %q, %q", address, status, out.String(), diag.String())
				}
			}
		})
	}
}

// TestHealthFollowsTheEnvironment asks where skep serve would be.
func TestHealthFollowsTheEnvironment(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PORT", port)
	t.Setenv("QUEEN_BIND_ADDR", "0.0.0.0")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	if status := run(t.Context(), []string{"health"}, nil, io.Discard, t.Output()); status != 0 {
		t.Errorf("status %d", status)
	}
	for listen, want := range map[string]string{
		":80": "127.0.0.1:80", "0.0.0.0:80": "127.0.0.1:80", "[::]:80": "[::1]:80", "10.0.0.1:80": "10.0.0.1:80", "db.local:80": "db.local:80",
	} {
		if got := reachable(listen); got != want {
			t.Errorf("%s: got %s want %s", listen, got, want)
		}
	}
}

func TestHealthUsage(t *testing.T) {
	for _, args := range [][]string{{"health", "x"}, {"health", "--timeout", "0s"}, {"health", "--address", "a b"}} {
		if status := run(t.Context(), args, nil, io.Discard, io.Discard); status != 2 {
			t.Errorf("%v: status %d", args, status)
		}
	}
}
