package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// request is a call as every attempt of it is sent.
type request struct {
	method  string
	path    string // escaped, with its query
	body    []byte
	timeout time.Duration // of one attempt
	once    bool          // never again once it may have taken effect
	single  bool          // no second attempt whatever happens
}

// outcomeUnknown is the code of an answer that does not say whether the request took
// effect: a write has failed.
const outcomeUnknown = "storage_failed"

// lostError is an attempt without an answer.
type lostError struct {
	err  error
	sent bool // the request may have reached the broker
}

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// do sends r until it is answered, the attempts are used up or ctx ends, and
// returns the body of a 2xx answer; nil for one without content.
func (c *Client) do(ctx context.Context, r request) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		body, err := c.attempt(ctx, r)
		if err == nil {
			return body, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("client: %s %s: %w", r.method, r.path, ctx.Err())
		}
		wait, again := c.again(r, attempt, err)
		if !again {
			return nil, describe(r, err)
		}
		if err := c.sleep(ctx, wait); err != nil {
			return nil, fmt.Errorf("client: %s %s: %w", r.method, r.path, err)
		}
	}
}

// describe adds what a network error lacks. An *Error stays bare.
func describe(r request, err error) error {
	var lost *lostError
	if errors.As(err, &lost) {
		return fmt.Errorf("client: %s %s: %w", r.method, r.path, lost.err)
	}
	return err
}

// again decides whether attempt, which ended in err, is followed by another, and
// after which pause.
func (c *Client) again(r request, attempt int, err error) (time.Duration, bool) {
	if attempt >= c.retry.Attempts || r.single {
		return 0, false
	}
	var answer *Error
	var lost *lostError
	switch {
	case errors.As(err, &answer):
		if answer.RetryAfter > maxPatience {
			return 0, false
		}
		return max(c.pause(attempt), answer.RetryAfter), answer.temporary() && !(r.once && answer.Code == outcomeUnknown)
	case errors.As(err, &lost):
		return c.pause(attempt), !r.once || !lost.sent
	}
	return 0, false
}

// attempt sends r once. Errors: *Error for an answer, *lostError for none,
// ErrAnswerTooLarge.
func (c *Client) attempt(ctx context.Context, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var connected atomic.Bool
	if r.once {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
		})
	} else {
		connected.Store(true)
	}
	req, err := c.build(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("client: %s %s: %w", r.method, r.path, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &lostError{unwrapURL(err), connected.Load()}
	}
	defer resp.Body.Close()
	body, err := c.read(resp)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, decodeError(resp, body)
	}
	return body, nil
}

// unwrapURL drops the wrapping that repeats method and address.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func (c *Client) build(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	switch {
	case r.body != nil:
		body = bytes.NewReader(r.body)
	case r.once:
		// net/http replays a GET by itself if a kept connection turns out to be
		// closed, unless it has a body that cannot be read again. An empty one is
		// found to be empty before anything is sent, and leaves no trace on the wire.
		body = io.MultiReader()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.tenant != "" {
		req.Header.Set("X-Queen-Tenant", c.tenant)
	}
	return req, nil
}

// read takes the whole body, so that the connection can be used again.
func (c *Client) read(resp *http.Response) ([]byte, error) {
	switch n := resp.ContentLength; {
	case n == 0 || resp.StatusCode == http.StatusNoContent:
		return nil, nil
	case n > c.maxAnswer:
		return nil, fmt.Errorf("%w: %d bytes", ErrAnswerTooLarge, n)
	case n > 0:
		body := make([]byte, n)
		if _, err := io.ReadFull(resp.Body, body); err != nil {
			return nil, &lostError{err, true}
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.maxAnswer+1))
	if err != nil {
		return nil, &lostError{err, true}
	}
	if int64(len(body)) > c.maxAnswer {
		return nil, fmt.Errorf("%w: over %d bytes", ErrAnswerTooLarge, c.maxAnswer)
	}
	return body, nil
}

func decodeError(resp *http.Response, body []byte) error {
	e := &Error{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	var fields struct {
		Error  string `json:"error"`
		Code   string `json:"code"`
		Status string `json:"status"` // what /health says instead
	}
	if json.Unmarshal(body, &fields) == nil {
		e.Message, e.Code = fields.Error, fields.Code
		if e.Message == "" {
			e.Message = fields.Status
		}
	}
	if e.Message == "" {
		e.Message = clip(strings.TrimSpace(string(body)), 200)
	}
	if e.Message == "" {
		e.Message = http.StatusText(resp.StatusCode)
	}
	return e
}

// retryAfter reads both forms of the header, seconds and a date.
func retryAfter(v string) time.Duration {
	if v == "" {
		return 0
	}
	if s, err := strconv.Atoi(v); err == nil {
		return time.Duration(max(s, 0)) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(time.Until(t), 0)
	}
	return 0
}

// clip shortens s to at most n bytes without cutting a character in two.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// segment escapes a name for use as one path segment. A name of one or two dots
// would vanish when a proxy or a server tidies the path.
func segment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// decode reads an answer that is small or rare enough for encoding/json.
func decode(body []byte, v any) error {
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}

// call sends in as JSON, in nil for no body, and decodes the answer into out.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	r := request{method: method, path: path, timeout: c.timeout}
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("client: %s %s: %w", method, path, err)
		}
		r.body = body
	}
	body, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	return decode(body, out)
}
