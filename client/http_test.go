package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func readAll(r *http.Request) string {
	if r.Body == nil {
		return ""
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return "unreadable: " + err.Error()
	}
	return string(b)
}

func (f *fakeBroker) fakeSleep() {
	f.sleep = func(ctx context.Context, d time.Duration) error {
		f.mu.Lock()
		f.pauses = append(f.pauses, d)
		f.mu.Unlock()
		return ctx.Err()
	}
}

func TestNew(t *testing.T) {
	for _, tt := range []struct {
		url  string
		base string // "" means refused
	}{
		{"http://127.0.0.1:6632", "http://127.0.0.1:6632"},
		{"http://127.0.0.1:6632/", "http://127.0.0.1:6632"},
		{"https://broker.example/queen/", "https://broker.example/queen"},
		{"127.0.0.1:6632", ""},
		{"ftp://127.0.0.1", ""},
		{"http://", ""},
		{"http://h/?a=b", ""},
		{"http://h/#x", ""},
		{"http://h:port", ""},
		{"", ""},
	} {
		c, err := New(tt.url)
		if tt.base == "" {
			if err == nil {
				t.Errorf("New(%q): no error", tt.url)
			}
			continue
		}
		if err != nil || c.base != tt.base {
			t.Errorf("New(%q): got base %q, %v; want %q", tt.url, c.base, err, tt.base)
		}
	}
}

// TestRetry counts attempts and pauses for each kind of failure, for a call that may
// be repeated and for a pop.
func TestRetry(t *testing.T) {
	const ms = time.Millisecond
	hangUp := func(w http.ResponseWriter) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}
	type failure func(w http.ResponseWriter)
	status := func(code int, header ...string) failure {
		return func(w http.ResponseWriter) {
			if len(header) == 2 {
				w.Header().Set(header[0], header[1])
			}
			reply(w, code, `{"error":"no"}`)
		}
	}
	for _, tt := range []struct {
		name     string
		pop      bool
		failures []failure // then success
		attempts int
		pauses   []time.Duration
		status   int // of the final error, 0 for success, -1 for a network error
	}{
		{"first time", false, nil, 1, nil, 0},
		{"503 twice", false, []failure{status(503), status(500)}, 3, []time.Duration{100 * ms, 200 * ms}, 0},
		{"for ever", false, slices.Repeat([]failure{status(502)}, 9), 4, []time.Duration{100 * ms, 200 * ms, 300 * ms}, 502},
		{"hung up", false, []failure{hangUp}, 2, []time.Duration{100 * ms}, 0},
		{"507", false, []failure{status(507)}, 2, []time.Duration{100 * ms}, 0},
		{"400", false, []failure{status(400)}, 1, nil, 400},
		{"403", false, []failure{status(403)}, 1, nil, 403},
		{"404", false, []failure{status(404)}, 1, nil, 404},
		{"413", false, []failure{status(413)}, 1, nil, 413},
		{"redirect", false, []failure{status(307, "Location", "/elsewhere")}, 1, nil, 307},
		{"429", false, []failure{status(429)}, 2, []time.Duration{100 * ms}, 0},
		{"429 with pause", false, []failure{status(429, "Retry-After", "7")}, 2, []time.Duration{7 * time.Second}, 0},
		{"503 with pause", false, []failure{status(503, "Retry-After", "2")}, 2, []time.Duration{2 * time.Second}, 0},
		{"short pause", false, []failure{status(429, "Retry-After", "0")}, 2, []time.Duration{100 * ms}, 0},
		{"odd pause", false, []failure{status(429, "Retry-After", "soon")}, 2, []time.Duration{100 * ms}, 0},
		{"too long a pause", false, []failure{status(429, "Retry-After", "61")}, 1, nil, 429},
		{"pop 503", true, []failure{status(503)}, 2, []time.Duration{100 * ms}, 0},
		{"pop 429", true, []failure{status(429, "Retry-After", "1")}, 2, []time.Duration{time.Second}, 0},
		{"pop 400", true, []failure{status(400)}, 1, nil, 400},
		{"pop hung up", true, []failure{hangUp}, 1, nil, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(n int, w http.ResponseWriter, r *http.Request) {
				switch {
				case n < len(tt.failures):
					tt.failures[n](w)
				case r.Method == "GET":
					w.WriteHeader(204)
				default:
					reply(w, 201, `[{"status":"queued"}]`)
				}
			}, WithRetry(RetryPolicy{Attempts: 4, Base: 100 * ms, Max: 300 * ms}))
			var err error
			if tt.pop {
				_, err = f.Queue("q").Pop(t.Context())
			} else {
				_, err = f.Queue("q").Push(t.Context(), Item{Payload: 1})
			}
			var e *Error
			switch {
			case tt.status == 0 && err != nil, tt.status != 0 && err == nil:
				t.Errorf("got error %v", err)
			case tt.status > 0 && (!errors.As(err, &e) || e.Status != tt.status):
				t.Errorf("got error %v want status %d", err, tt.status)
			case tt.status < 0 && errors.As(err, &e):
				t.Errorf("got error %v want one of the network", err)
			}
			if got := len(f.seen()); got != tt.attempts {
				t.Errorf("got %d attempts want %d", got, tt.attempts)
			}
			if !slices.Equal(f.pauses, tt.pauses) {
				t.Errorf("got pauses %v want %v", f.pauses, tt.pauses)
			}
			for _, r := range f.seen()[1:] {
				if r.body != f.seen()[0].body {
					t.Errorf("a retry sent %s, the first attempt %s", r.body, f.seen()[0].body)
				}
			}
		})
	}
}

// TestPopIsNotReplayed kills a kept connection after it carried a pop. net/http
// repeats such a GET by itself, which would lease or lose messages unseen.
func TestPopIsNotReplayed(t *testing.T) {
	f := newFake(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 0 {
			w.WriteHeader(204)
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	if _, err := f.Queue("q").Pop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Queue("q").AutoAck().Pop(t.Context()); err == nil {
		t.Error("a lost pop reported no error")
	}
	if got := len(f.seen()); got != 2 {
		t.Errorf("the broker saw %d pops want 2", got)
	}
}

// TestPopConnects retries a pop that could not be sent.
func TestPopConnects(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	c, err := New("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var server *httptest.Server
	c.sleep = func(context.Context, time.Duration) error { // the broker starts meanwhile
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
		server.Listener.Close()
		server.Listener = l
		server.Start()
		return nil
	}
	if b, err := c.Queue("q").Pop(t.Context()); err != nil || len(b.Messages) != 0 {
		t.Errorf("got %v, %v want an empty batch", b, err)
	}
	if server != nil {
		server.Close()
	}
}

// TestCancel ends a parked poll and a pause between attempts with the context.
func TestCancel(t *testing.T) {
	t.Run("parked", func(t *testing.T) {
		parked := make(chan struct{})
		f := newFake(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
			close(parked)
			<-r.Context().Done() // the client hung up
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-parked; cancel() }()
		if _, err := f.Queue("q").Wait(time.Minute).Pop(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v want context.Canceled", err)
		}
	})
	t.Run("pausing", func(t *testing.T) {
		f := newFake(t, answer(503, ""))
		ctx, cancel := context.WithCancel(t.Context())
		f.sleep = func(context.Context, time.Duration) error { cancel(); return sleep(ctx, time.Hour) }
		if _, err := f.Queue("q").Push(ctx, Item{Payload: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v want context.Canceled", err)
		}
	})
}

func TestTimeoutIsRetried(t *testing.T) {
	f := newFake(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 0 {
			<-r.Context().Done()
			return
		}
		reply(w, 201, `[{"status":"queued"}]`)
	}, WithTimeout(20*time.Millisecond), WithRetry(RetryPolicy{Attempts: 9, Base: 1, Max: 1}))
	if _, err := f.Queue("q").Push(t.Context(), Item{Payload: 1}); err != nil {
		t.Error(err)
	}
}

func TestErrorText(t *testing.T) {
	for _, tt := range []struct {
		name, body, want string
		status           int
	}{
		{"flat", `{"error":"bad body: x"}`, "client: status 400: bad body: x", 400},
		{"code", `{"error":"Not Found","code":"no_such_route"}`, "client: status 404: Not Found (no_such_route)", 404},
		{"no JSON", "<html>" + strings.Repeat("x", 400), "client: status 413: <html>" + strings.Repeat("x", 194), 413},
		{"empty", "", "client: status 403: Forbidden", 403},
		{"health", `{"status":"unhealthy"}`, "client: status 400: unhealthy", 400},
		{"array", `[{"status":"failed"}]`, `client: status 400: [{"status":"failed"}]`, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, answer(tt.status, tt.body))
			if err := f.Health(t.Context()); err == nil || err.Error() != tt.want {
				t.Errorf("got %v want %s", err, tt.want)
			}
		})
	}
}

func TestAnswerLimit(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		f := newFake(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			if chunked {
				w.(http.Flusher).Flush()
			}
			_, _ = io.WriteString(w, strings.Repeat("x", 101))
		}, WithMaxAnswer(100))
		if _, err := f.Queue("q").Pop(t.Context()); !errors.Is(err, ErrAnswerTooLarge) {
			t.Errorf("chunked %v: got %v want ErrAnswerTooLarge", chunked, err)
		}
		if got := len(f.seen()); got != 1 {
			t.Errorf("chunked %v: %d attempts want 1", chunked, got)
		}
	}
}

func TestToken(t *testing.T) {
	f := newFake(t, answer(200, `{}`), WithToken("secret"))
	if err := f.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.seen()[0].auth; got != "Bearer secret" {
		t.Errorf("got Authorization %q", got)
	}
}

// G-831: the tenant goes along with every attempt, and without one there is no header.
func TestG831Tenant(t *testing.T) {
	const tenant = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	for _, tt := range []struct {
		options []Option
		want    []string
	}{{nil, nil}, {[]Option{WithTenant("")}, nil}, {[]Option{WithTenant(tenant)}, []string{tenant}}} {
		f := newFake(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Values("x-queen-tenant"); !slices.Equal(got, tt.want) {
				t.Errorf("attempt %d: got %q want %q", n, got, tt.want)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		}, tt.options...)
		if _, err := f.Queue("q").Pop(t.Context()); err == nil || len(f.seen()) < 2 {
			t.Errorf("%d attempts, %v", len(f.seen()), err)
		}
	}
}

// TestNoLeftovers closes a client and expects its connections gone.
func TestNoLeftovers(t *testing.T) {
	closed := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			close(closed)
		}
	}
	server.Start()
	defer server.Close()
	c, err := New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Queue("q").Pop(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	<-closed // or the test times out
}

func TestJitter(t *testing.T) {
	for range 1000 {
		if d := jitter(time.Second); d < time.Second/2 || d >= time.Second {
			t.Fatalf("got %v want within [0.5 s, 1 s)", d)
		}
	}
	if jitter(0) != 0 || jitter(1) != 1 {
		t.Error("the shortest pauses changed")
	}
}
