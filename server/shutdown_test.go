package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/broker"
)

func shutDown(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatalf("Shutdown: %v", err)
	}
}

func TestShutdown(t *testing.T) {
	f := newFake()
	parked := make(chan *broker.PopRequest, 1)
	f.popFn = f.park(parked)
	pushing, finish := make(chan struct{}), make(chan struct{})
	f.pushFn = func([]broker.PushItem, []broker.PushResult) error {
		close(pushing)
		<-finish
		return nil
	}
	addr, s := startTCP(t, f, Options{})
	idle, poll, push := dial(t, addr), dial(t, addr), dial(t, addr)
	idle.send(get("/health"))
	idle.response()
	poll.send(get("/api/v1/pop/queue/q?wait=true"))
	<-parked
	push.send(post("/api/v1/push", pushOf(10)))
	<-pushing

	done := make(chan struct{})
	go func() { defer close(done); shutDown(t, s) }()
	if got := poll.head(); !strings.HasPrefix(got, "HTTP/1.1 204") {
		t.Errorf("parked pop: got %q", got)
	}
	poll.closed()
	idle.closed()
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("still accepts")
	}
	select {
	case <-done:
		t.Error("Shutdown did not wait for the push")
	default:
	}
	close(finish)
	if head, _ := push.response(); !strings.HasPrefix(head, "HTTP/1.1 201") {
		t.Errorf("push: got %q", head)
	}
	<-done
}

func TestShutdownOutOfTime(t *testing.T) {
	f := newFake()
	pushing, finish := make(chan struct{}), make(chan struct{})
	f.pushFn = func([]broker.PushItem, []broker.PushResult) error {
		close(pushing)
		<-finish
		return nil
	}
	addr, s := startTCP(t, f, Options{})
	c := dial(t, addr)
	c.send(post("/api/v1/push", pushOf(10)))
	<-pushing
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	c.closed()
	close(finish)
}

func TestHealthWhileStopping(t *testing.T) {
	f := newFake()
	ln := newMemoryListener()
	s := start(t, ln, f, Options{})
	c := memoryClient(t, ln)
	call(t, c, "GET", "/health", "") // it serves
	s.stopping.Store(true)
	status, body, _ := call(t, c, "GET", "/health", "")
	if status != 503 || !strings.Contains(body, `"status":"unhealthy"`) {
		t.Errorf("got %d %s", status, body)
	}
}

// A stop that comes before Serve has begun is not lost.
func TestShutdownBeforeServe(t *testing.T) {
	s := New(Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(ln); err != nil {
		t.Fatalf("Serve after Shutdown: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("the listener is still open: %v", err)
	}
}
