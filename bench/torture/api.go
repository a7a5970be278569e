package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// patience is how long one answer may take. A broker that needs longer is stuck.
const patience = 30 * time.Second

// api talks to the broker that lives at an address, which changes with each life.
type api struct {
	address atomic.Pointer[string]
	client  *http.Client
}

func newAPI() *api {
	a := &api{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: patience}}
	a.moveTo("")
	return a
}

func (a *api) moveTo(address string) {
	a.address.Store(&address)
	a.client.CloseIdleConnections() // a GET on a dead one would be sent twice
}

// call sends a request. An error says that the outcome is not known.
func (a *api) call(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+*a.address.Load()+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, errors.Join(err, resp.Body.Close())
}

// must is call for a request that has to be answered with one of the statuses.
func (a *api) must(ctx context.Context, method, path string, body []byte, statuses ...int) (answer []byte, err error) {
	status, answer, err := a.call(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	for _, s := range statuses {
		if s == status {
			return answer, nil
		}
	}
	return nil, violated("unexpected answer", "%s %s: %d %.300s, want %v", method, path, status, answer, statuses)
}

// violation is a broken promise.
type violation struct{ rule, text string }

func (v *violation) Error() string { return "VIOLATION " + v.rule + ": " + v.text }

func violated(rule, format string, args ...any) error {
	return &violation{rule, fmt.Sprintf(format, args...)}
}

// delivered is a message as a pop brings it.
type delivered struct {
	TransactionID string     `json:"transactionId"`
	PartitionID   string     `json:"partitionId"`
	Queue         string     `json:"queue"`
	Partition     string     `json:"partition"`
	Data          []byte     `json:"-"`
	RawData       rawMessage `json:"data"`
	LeaseID       string     `json:"leaseId"`
}

// rawMessage keeps the bytes of a payload as they came; json.RawMessage would do so too,
// but compacts them where it is embedded.
type rawMessage []byte

func (m *rawMessage) UnmarshalJSON(b []byte) error {
	*m = bytes.Clone(b)
	return nil
}

func popPath(queue, group string, parameters string) string {
	return "/api/v1/pop/queue/" + url.PathEscape(queue) + "?consumerGroup=" + url.QueryEscape(group) + "&subscriptionMode=all&" + parameters
}
