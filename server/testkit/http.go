package testkit

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/skepmq/skep/server"
)

// Serve lets s answer on ln until stop is called, which ends as s.Shutdown does and waits for
// the goroutine.
func Serve(s *server.Server, ln net.Listener) (stop func(context.Context) error) {
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }() // ended by stop
	return func(ctx context.Context) error { return errors.Join(s.Shutdown(ctx), <-served) }
}

// NewClient returns a client of whatever dial leads to.
func NewClient(dial func() (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:         func(context.Context, string, string) (net.Conn, error) { return dial() },
		MaxIdleConnsPerHost: 64,
		DisableCompression:  true,
	}}
}

// Answer is a response, read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Call makes a request. The target is sent as it is, escapes and all; "" is no body.
func Call(c *http.Client, method, target, body string, header http.Header) (a Answer, err error) {
	path, query, _ := strings.Cut(target, "?")
	req := &http.Request{
		Method: method, Host: "skep", Header: header,
		URL: &url.URL{Scheme: "http", Host: "skep", Opaque: path, RawQuery: query},
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if body != "" {
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	res, err := c.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	a = Answer{Status: res.StatusCode, Header: res.Header}
	a.Body, err = io.ReadAll(res.Body)
	return a, err
}
