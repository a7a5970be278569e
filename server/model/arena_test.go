package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
	"github.com/skepmq/skep/server"
)

// arena is a broker that serves on a socket, on a disk in memory and a clock that only
// steps of the history move.
type arena struct {
	fs    *faultfs.FS
	nowMs atomic.Int64
	began time.Time

	options broker.Options
	broker  *broker.Broker
	server  *server.Server
	served  chan error
	addr    string
	cutAt   atomic.Int64 // when the power was cut, 0: it is on
	clockMu sync.Mutex   // one jump at a time
}

func newArena(rng *rand.Rand) *arena {
	a := &arena{fs: faultfs.New(), began: time.Now()}
	a.nowMs.Store(startMs)
	a.options.CheckpointBytes = []int64{0, 1, 4096}[rng.IntN(3)]
	return a
}

// elapsed is the time of the clients.
func (a *arena) elapsed() int64 { return int64(time.Since(a.began)) }

func (a *arena) now() time.Time { return time.UnixMilli(a.nowMs.Load()) }

func (a *arena) start() error {
	o := a.options
	o.FS, o.Dir, o.Logger, o.Now = &slowDisk{a.fs}, "/data", zerolog.Nop(), a.now
	b, err := broker.Open(o)
	if err != nil {
		return fmt.Errorf("open broker: %w", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, b.Close())
	}
	a.broker, a.served, a.addr = b, make(chan error, 1), ln.Addr().String()
	a.server = server.New(server.Options{Broker: b, Logger: zerolog.Nop()})
	s, served := a.server, a.served
	go func() { served <- s.Serve(ln) }() // ended by stop
	a.cutAt.Store(0)
	return nil
}

func (a *arena) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(a.server.Shutdown(ctx), <-a.served, a.broker.Close())
}

// cut cuts the power: what the disk keeps of this moment is what the next start finds.
// Who is answered from now on is not to believe it.
func (a *arena) cut(rng *rand.Rand) (after *faultfs.FS) {
	a.cutAt.Store(a.elapsed())
	return a.fs.Crash(rng)
}

// slowDisk takes its time to sync, so that requests meet while others wait for the disk.
type slowDisk struct{ *faultfs.FS }

type slowFile struct{ vfs.File }

func (f slowFile) Sync() error {
	time.Sleep(rand.N(500 * time.Microsecond))
	return f.File.Sync()
}

func (d *slowDisk) Create(name string) (vfs.File, error) { return slow(d.FS.Create(name)) }

func (d *slowDisk) OpenReadWrite(name string) (vfs.File, error) {
	return slow(d.FS.OpenReadWrite(name))
}

func slow(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return slowFile{f}, nil
}

// conn is one client's connection.
type conn struct {
	a    *arena
	http *http.Client
}

func (a *arena) connect() *conn {
	return &conn{a, &http.Client{Transport: &http.Transport{DisableCompression: true}}}
}

// times are the instants of a request.
type times struct {
	call, ret int64
	clockMs   int64 // the broker's, before the request was sent
	lost      bool  // the power was cut before the answer
}

// request makes a request and decodes the answer. The broker goes on when the power is
// cut, so there is an answer even where no client would get one: it says what has happened,
// if it has.
func (c *conn) request(method, target string, body, into any) (at times, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return at, err
		}
	}
	req, err := http.NewRequest(method, "http://"+c.a.addr+target, bytes.NewReader(text))
	if err != nil {
		return at, err
	}
	at.clockMs = c.a.nowMs.Load()
	at.call = c.a.elapsed()
	status, answer, err := c.do(req)
	at.ret = c.a.elapsed()
	cut := c.a.cutAt.Load()
	at.lost = cut > 0 && at.ret >= cut
	switch {
	case err != nil:
		return at, err
	case status < 200 || status > 299 && status != http.StatusNotFound:
		return at, fmt.Errorf("%s %s: status %d %s", method, target, status, answer)
	case len(answer) == 0:
		return at, nil
	}
	return at, json.Unmarshal(answer, into)
}

func (c *conn) do(req *http.Request) (status int, answer []byte, err error) {
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}
