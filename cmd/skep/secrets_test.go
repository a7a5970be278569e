package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/skepmq/skep/cmd/skep/config"
)

// transcript keeps all that anybody may read, and signals lines that are waited for.
type transcript struct {
	mu     sync.Mutex
	text   bytes.Buffer
	readyC chan string // the address, once
	ratesC chan struct{}
}

var (
	readyLine = regexp.MustCompile(`"listen":"([^"]+)".*"message":"ready"`)
	ratesLine = regexp.MustCompile(`"push_requests_per_s":[0-9.]*[1-9].*"message":"rates"`)
)

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := readyLine.FindSubmatch(p); m != nil {
		w.readyC <- string(m[1])
	}
	if ratesLine.Match(p) {
		select {
		case w.ratesC <- struct{}{}:
		default:
		}
	}
	return w.text.Write(p)
}

// G-421: no secret is in a line of log, however much is logged, in an answer, in the metrics or
// in what skep config prints. Nor is a payload in a line of log.
func TestG421SecretsStaySecret(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, certFile, keyFile, 1)
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	const hidden = "hunter2"
	secret := strings.Repeat(hidden, 6)
	levels := "trace"
	for _, target := range config.Targets() {
		levels += "," + target + "=trace"
	}
	environ := []string{
		"SKEP_DATA_DIR=" + filepath.Join(dir, "data"), "PORT=0", "QUEEN_LOG_JSON=true", "LOG_LEVEL=" + levels, "QUEEN_LOG_RATES_MS=5",
		"SKEP_TLS_CERT=" + certFile, "SKEP_TLS_KEY=" + keyFile,
		"JWT_ENABLED=true", "JWT_ALGORITHM=auto", "JWT_SECRET=" + secret, "JWT_JWKS_URL=http://user:" + hidden + "@127.0.0.1:1/" + hidden,
		// Those that mean nothing here are secrets too, and so is what was misspelled.
		"PG_PASSWORD=" + hidden, "QUEEN_SYNC_SECRET=" + hidden, "JWT_SECRTE=" + hidden, "SKEP_TOKEN=" + hidden,
	}
	c, err := config.Load(nil, environ)
	if err != nil {
		t.Fatal(err)
	}
	out := &transcript{readyC: make(chan string, 1), ratesC: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, c, out) }()
	var addr string
	select {
	case addr = <-out.readyC:
	case err := <-served:
		t.Fatalf("not served: %v", err)
	}
	good, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"role": "admin", "sub": "me", "exp": time.Now().Add(time.Hour).Unix()}).
		SignedString([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	bad := good[:strings.LastIndexByte(good, '.')+1] + hidden
	expired, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"role": hidden, "exp": 1}).SignedString([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	// The second part of a token holds no key, and is in every one of its kind.
	secrets := []string{hidden, good[strings.IndexByte(good, '.'):], expired[strings.IndexByte(expired, '.'):]}
	secrets = append(secrets, strings.Split(strings.TrimSpace(string(key)), "\n")[1:]...)

	answers := &bytes.Buffer{}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for _, token := range []string{"", "Bearer " + good, "Bearer " + bad, "Bearer " + expired, "Basic " + hidden, "Bearer " + hidden + " " + hidden, hidden} {
		for _, r := range [][3]string{
			{"POST", "/api/v1/push", `{"items":[{"queue":"q","payload":"` + hidden + `"}]}`},
			{"POST", "/api/v1/push", `{"items":[{"queue":"q","payload":"` + hidden},
			{"GET", "/api/v1/pop/queue/q?consumerGroup=" + hidden + "&batch=x", ""},
			{"GET", "/api/v1/nothing?token=" + hidden, ""},
			{"GET", "/metrics", ""}, {"GET", "/metrics/prometheus", ""}, {"GET", "/health", ""},
		} {
			req, err := http.NewRequest(r[0], "https://"+addr+r[1], strings.NewReader(r[2]))
			if err != nil {
				t.Fatal(err)
			}
			if token != "" {
				req.Header.Set("Authorization", token)
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(answers, res.Body); err != nil {
				t.Fatal(err)
			}
			if err := res.Body.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + hidden + "\r\nbroken " + hidden + "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + hidden + strings.Repeat("x", 9000) + "\r\n\r\n",
		hidden + "\r\n\r\n",
		"POST /api/v1/push HTTP/1.1\r\nHost: x\r\nAuthorization: " + hidden + "\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, text)
		_, _ = io.Copy(answers, conn) // until it is closed, however
		conn.Close()
	}
	plain, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(plain, "GET / HTTP/1.1\r\nAuthorization: Bearer "+hidden+"\r\n\r\n") // no TLS
	_, _ = io.Copy(answers, plain)
	plain.Close()
	<-out.ratesC
	stop()
	if err := <-served; err != nil {
		t.Fatal(err)
	}

	printed := &bytes.Buffer{}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	for _, args := range [][]string{{"config"}, {"config", "--json"}} {
		if status := run(t.Context(), args, nil, printed, printed); status != 0 {
			t.Errorf("%v: %d", args, status)
		}
	}
	t.Setenv("SKEP_TLS_KEY", certFile)
	if status := run(t.Context(), []string{"serve"}, nil, printed, printed); status != 1 {
		t.Errorf("a certificate for a key: %d", status)
	}
	broken := filepath.Join(dir, "broken.pem")
	if err := os.WriteFile(broken, []byte(hidden+"\n"+string(key[:80])), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SKEP_TLS_KEY", broken)
	if status := run(t.Context(), []string{"serve"}, nil, printed, printed); status != 1 {
		t.Errorf("a key that is none: %d", status)
	}

	for name, text := range map[string]string{"log": out.text.String(), "answers": answers.String(), "printed": printed.String()} {
		for _, s := range secrets {
			if i := strings.Index(text, s); i >= 0 && s != "" {
				t.Errorf("%s: %q in %q", name, s, text[max(0, i-300):min(len(text), i+100)])
			}
		}
	}
	for _, want := range []string{`"target":"push"`, `"status":401`, `"message":"http connection"`, `"message":"keys not fetched"`, `"message":"sizes"`} {
		if !strings.Contains(out.text.String(), want) {
			t.Errorf("no %s in the log", want)
		}
	}
}
