package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/cmd/skep/config"
)

// G-813, G-960: what cannot work ends the start, and the message names the variable but no
// secret. skep config says so without a start.
func TestG813Boot(t *testing.T) {
	for name, tt := range map[string]struct {
		env    []string
		args   []string
		status int
		want   string
	}{
		"no key":            {[]string{"JWT_ENABLED", "true"}, nil, 1, "JWT_SECRET"},
		"no public key":     {[]string{"JWT_ENABLED", "yes", "JWT_ALGORITHM", "RS256", "JWT_SECRET", "hunter2"}, nil, 1, "JWT_PUBLIC_KEY"},
		"unknown algorithm": {[]string{"JWT_ENABLED", "1", "JWT_ALGORITHM", "ES256"}, nil, 1, "`EdDSA`, `auto`"},
		"no PEM":            {[]string{"JWT_ENABLED", "on", "JWT_ALGORITHM", "EdDSA", "JWT_PUBLIC_KEY", "hunter2"}, nil, 1, "JWT_PUBLIC_KEY"},
		"no URL":            {[]string{"JWT_ENABLED", "on", "JWT_ALGORITHM", "RS256", "JWT_JWKS_URL", "://hunter2"}, nil, 1, "JWT_JWKS_URL"},
		"no truth value":    {[]string{"JWT_ENABLED", "maybe"}, nil, 1, "JWT_ENABLED"},
		"no number":         {[]string{"JWT_CLOCK_SKEW", "-1"}, nil, 1, "JWT_CLOCK_SKEW"},
		"no pause":          {[]string{"JWT_JWKS_REFRESH_INTERVAL", "0"}, nil, 1, "JWT_JWKS_REFRESH_INTERVAL"},
		"no path":           {[]string{"JWT_SKIP_PATHS", "health"}, nil, 1, "JWT_SKIP_PATHS"},
		"address with port": {[]string{"QUEEN_BIND_ADDR", "0.0.0.0:80"}, nil, 1, "QUEEN_BIND_ADDR"},
		"URL, not host":     {[]string{"SKEP_ALLOWED_HOSTS", "a.example,https://b.example"}, nil, 1, "SKEP_ALLOWED_HOSTS"},
		"half of TLS":       {nil, []string{"--tls-cert", "x"}, 1, "--tls-key"},
		"other half":        {[]string{"SKEP_TLS_KEY", "x"}, nil, 1, "SKEP_TLS_CERT"},
		"no such file":      {nil, []string{"--tls-cert", "/nope", "--tls-key", "/nope"}, 1, "--tls-cert"},
	} {
		t.Run(name, func(t *testing.T) {
			for i := 0; i < len(tt.env); i += 2 {
				t.Setenv(tt.env[i], tt.env[i+1])
			}
			var stderr bytes.Buffer
			args := append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir()}, tt.args...)
			status := run(t.Context(), args, nil, &stderr, &stderr)
			if status != tt.status || !strings.Contains(stderr.String(), tt.want) || strings.Contains(stderr.String(), "hunter2") {
				t.Errorf("status %d: %s", status, &stderr)
			}
			if name == "no such file" {
				return
			}
			stderr.Reset()
			args[0] = "config"
			status = run(t.Context(), args, nil, io.Discard, &stderr)
			if status != tt.status || !strings.Contains(stderr.String(), tt.want) || strings.Contains(stderr.String(), "hunter2") {
				t.Errorf("skep config: status %d: %s", status, &stderr)
			}
		})
	}
}

// G-960: who listens for everybody, and lets everybody do everything, is told.
func TestG960Warning(t *testing.T) {
	loopback, everywhere := &net.TCPAddr{IP: net.IPv6loopback}, &net.TCPAddr{IP: net.IPv4zero}
	for _, tt := range []struct {
		addr    net.Addr
		enabled bool
		want    int
	}{{loopback, false, 0}, {everywhere, false, 1}, {everywhere, true, 0}, {loopback, true, 0}} {
		var out bytes.Buffer
		logger := zerolog.New(&out)
		logBoot(&config.Config{Fsync: "group", AuthEnabled: tt.enabled}, &logger, tt.addr)
		if got := strings.Count(out.String(), `"warn"`); got != tt.want {
			t.Errorf("%s, %t: %d warnings: %s", tt.addr, tt.enabled, got, &out)
		}
		if tt.want == 1 && !(strings.Contains(out.String(), "QUEEN_BIND_ADDR") && strings.Contains(out.String(), "JWT_ENABLED")) {
			t.Errorf("the settings are not named: %s", &out)
		}
	}
}

func TestAllowedHosts(t *testing.T) {
	for _, tt := range []struct {
		said, listen, addr string
		any                bool
		want               string
	}{
		{"-", "127.0.0.1:1", "127.0.0.1", false, "127.0.0.1|127.0.0.1"},
		{"-", "me.example:1", "127.0.1.1", false, "me.example|127.0.1.1"},
		{"-", "0.0.0.0:1", "0.0.0.0", true, ""},
		{"-", "10.0.0.1:1", "10.0.0.1", true, ""},
		{"a, b", "127.0.0.1:1", "127.0.0.1", false, "a|b|127.0.0.1|127.0.0.1"},
		{"a", "0.0.0.0:1", "0.0.0.0", false, "a"},
		{"a", ":1", "::", false, "a"},
		{"a", "[fe80::1%lo]:1", "fe80::1", false, "a|fe80::1%lo|fe80::1"},
		{"a", "me.example:1", "10.0.0.1", false, "a|me.example|10.0.0.1"},
	} {
		var environ []string
		if tt.said != "-" {
			environ = append(environ, "SKEP_ALLOWED_HOSTS="+tt.said)
		}
		c, err := config.Load(nil, environ)
		if err != nil {
			t.Fatal(err)
		}
		c.Listen = tt.listen
		limitHosts(c, &net.TCPAddr{IP: net.ParseIP(tt.addr)})
		if got := c.Server.AllowedHosts; (got == nil) != tt.any || strings.Join(got, "|") != tt.want {
			t.Errorf("%q on %s: %q", tt.said, tt.listen, got)
		}
	}
}

// writeCertificate writes a certificate of serial number n, and its key.
func writeCertificate(t *testing.T, certFile, keyFile string, n int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(n), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600),
	); err != nil {
		t.Fatal(err)
	}
}

// logLines hands over what is logged, line by line.
type logLines chan string

func (w logLines) Write(p []byte) (int, error) { w <- string(p); return len(p), nil }

// SIGHUP takes a new certificate, and keeps the old one if the new is none.
func TestCertificateReload(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, certFile, keyFile, 1)
	c, err := loadCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(logLines, 1)
	logger := zerolog.New(lines)
	signals := make(chan os.Signal)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { c.reload(ctx, signals, &logger) })
	serial := func() int64 {
		got, err := c.config().GetCertificate(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Leaf.SerialNumber.Int64()
	}
	hangUp := func(level string, want int64) {
		t.Helper()
		signals <- syscall.SIGHUP
		if line := <-lines; !strings.Contains(line, `"level":"`+level+`"`) {
			t.Errorf("logged %s", line)
		}
		if got := serial(); got != want {
			t.Errorf("certificate %d, want %d", got, want)
		}
	}
	writeCertificate(t, certFile, keyFile, 2)
	if got := serial(); got != 1 {
		t.Errorf("certificate %d before the signal", got)
	}
	hangUp("info", 2)
	writeCertificate(t, certFile, filepath.Join(dir, "other.pem"), 3) // not that of the key
	hangUp("error", 2)
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	hangUp("error", 2)
	writeCertificate(t, certFile, keyFile, 4)
	hangUp("info", 4)
	stop()
	wg.Wait()
}

// SIGHUP, which ends a process that does not ask for it, leaves a broker without TLS alone.
func TestHangUpWithoutCertificate(t *testing.T) {
	lines := make(logLines, 1)
	logger := zerolog.New(lines)
	stop, err := secure(&config.Config{}, &logger)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if line := <-lines; !strings.Contains(line, "SIGHUP has no effect") {
		t.Errorf("logged %s", line)
	}
}
