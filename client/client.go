package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	defaultTimeout   = 30 * time.Second
	defaultMaxAnswer = 256 << 20
	defaultConns     = 1024

	// maxPatience is the longest Retry-After that is waited out. A longer one is the
	// caller's decision, so it is returned.
	maxPatience = time.Minute
)

// RetryPolicy says how often and how patiently a request is repeated.
type RetryPolicy struct {
	Attempts int           // in all, 1 means never repeat
	Base     time.Duration // the first pause; it doubles
	Max      time.Duration // the longest pause, unless Retry-After asks for more
}

// DefaultRetry rides out the restart of a broker: six attempts over about 3 s.
var DefaultRetry = RetryPolicy{Attempts: 6, Base: 100 * time.Millisecond, Max: 5 * time.Second}

// Client is a connection pool to one broker. It is safe for concurrent use.
type Client struct {
	base      string // scheme, host and path prefix, no trailing slash
	http      *http.Client
	token     string
	tenant    string
	retry     RetryPolicy
	timeout   time.Duration
	maxAnswer int64

	sleep  func(context.Context, time.Duration) error
	jitter func(time.Duration) time.Duration
}

// Option changes how New builds a Client.
type Option func(*Client)

// WithToken sends token as bearer token with every request.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithTenant makes every request be about the queues of a tenant, a UUID, of a broker that
// reads the header x-queen-tenant. One that does not is none the wiser.
func WithTenant(id string) Option { return func(c *Client) { c.tenant = id } }

// WithRetry replaces DefaultRetry.
func WithRetry(r RetryPolicy) Option { return func(c *Client) { c.retry = r } }

// WithTimeout bounds one attempt of a request, 30 s by default. A long poll may take
// its waiting time on top.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithMaxAnswer bounds an answer in bytes, 256 MiB by default.
func WithMaxAnswer(n int64) Option { return func(c *Client) { c.maxAnswer = n } }

// WithMaxConns bounds the connections, 1024 by default. A parked pop occupies one;
// requests beyond the bound wait, within their timeout.
func WithMaxConns(n int) Option {
	return func(c *Client) { c.http.Transport = newTransport(n) }
}

// WithHTTPClient replaces the HTTP client. Close then leaves its connections alone.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// New returns a Client for the broker at baseURL, http://127.0.0.1:6632 for example.
// It sends nothing.
func New(baseURL string, opts ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("client: broker address: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("client: broker address %q: want http://host:port", baseURL)
	}
	c := &Client{
		base: strings.TrimRight(u.String(), "/"),
		http: &http.Client{
			Transport: newTransport(defaultConns),
			// A redirected POST would arrive as a GET, a redirected pop elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		retry:     DefaultRetry,
		timeout:   defaultTimeout,
		maxAnswer: defaultMaxAnswer,
		sleep:     sleep,
		jitter:    jitter,
	}
	for _, o := range opts {
		o(c)
	}
	return c, nil
}

// Close drops the idle connections. Requests still under way go on.
func (c *Client) Close() {
	if t, ok := c.http.Transport.(*transport); ok {
		t.CloseIdleConnections()
	}
}

// transport marks the connections that are ours to close.
type transport struct{ *http.Transport }

func newTransport(conns int) *transport {
	return &transport{&http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		// The pool holds what is in use: the default of two idle connections a host
		// would close and reopen one for nearly every concurrent request.
		MaxConnsPerHost:     conns,
		MaxIdleConns:        conns,
		MaxIdleConnsPerHost: conns,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second,
		DisableCompression:  true, // the broker sends JSON as it is
		WriteBufferSize:     32 << 10,
		ReadBufferSize:      32 << 10,
	}}
}

// pause is how long to wait after attempt n, counted from 1.
func (c *Client) pause(n int) time.Duration {
	d := c.retry.Base
	for ; n > 1 && d < c.retry.Max; n-- {
		d *= 2
	}
	return c.jitter(min(d, c.retry.Max))
}

// jitter spreads d over its upper half, so that clients that failed together do not
// come back together.
func jitter(d time.Duration) time.Duration {
	if d <= 1 {
		return d
	}
	return d/2 + rand.N(d/2)
}

// sleep waits for d or until ctx ends, and then returns its error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
