package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp/fasthttputil"
	"pgregory.net/rapid"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server"
	"github.com/skepmq/skep/server/testkit"
)

// world is a broker that is being served, on a clock that only the test moves.
type world struct {
	base string // directory of this run; every crash goes on in another one below it
	dir  string
	dirs int

	options broker.Options
	serves  server.Options
	nowMs   atomic.Int64

	broker      *broker.Broker
	tenant      string // sent with every request; "": none
	stopServing func(context.Context) error
	client      *http.Client
}

// startMs is when every history begins.
const startMs = 1_800_000_000_000

func newWorld(t *rapid.T) *world {
	base, err := os.MkdirTemp(memoryDir(), "skep-model-")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{base: base, dir: filepath.Join(base, "0")}
	w.nowMs.Store(startMs)
	return w
}

// memoryDir is a file system in memory, where there is one: what a sync promises is not
// what this test is about. "" is the usual place.
func memoryDir() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err != nil || !info.IsDir() || os.Getenv("TMPDIR") != "" {
		return ""
	}
	return shm
}

func (w *world) now() time.Time { return time.UnixMilli(w.nowMs.Load()) }

// tick moves the clock. Afterwards the broker has noticed.
func (w *world) tick(ms int64) int64 {
	now := w.nowMs.Add(ms)
	w.broker.CatchUp()
	return now
}

func (w *world) start() error {
	w.options.Dir, w.options.Logger, w.options.Now = w.dir, zerolog.Nop(), w.now
	b, err := broker.Open(w.options)
	if err != nil {
		return fmt.Errorf("open broker: %w", err)
	}
	w.broker = b
	o := w.serves
	o.Broker, o.Logger = b, zerolog.Nop()
	ln := fasthttputil.NewInmemoryListener()
	w.stopServing = testkit.Serve(server.New(o), ln)
	w.client = testkit.NewClient(ln.Dial)
	return nil
}

func (w *world) stop() error {
	if w.broker == nil {
		return nil
	}
	// No request is in flight, so nothing has to be waited for.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.client.CloseIdleConnections()
	err := w.stopServing(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	err = errors.Join(err, w.broker.Close())
	w.broker = nil
	return err
}

// end stops the broker and removes what it kept.
func (w *world) end(t *rapid.T) {
	if err := errors.Join(w.stop(), os.RemoveAll(w.base)); err != nil {
		t.Errorf("end: %v", err)
	}
}

// restart closes the broker and opens its directory again.
func (w *world) restart() error { return errors.Join(w.stop(), w.start()) }

// crash goes on with a copy of the directory as it is at this moment, which is what a
// killed process leaves.
func (w *world) crash() error {
	w.dirs++
	to := filepath.Join(w.base, fmt.Sprint(w.dirs))
	if err := testkit.Copy(w.dir, to); err != nil {
		return err
	}
	if err := w.stop(); err != nil {
		return err
	}
	w.dir = to
	return w.start()
}

// generations lists those of the journal. A checkpoint ends with the removal of all that
// were there when it began.
func (w *world) generations() (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(w.dir, "journal"))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// call makes a request and reads the answer.
func (w *world) call(method, target string, body any) (status int, answer []byte, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	header := http.Header{}
	if w.tenant != "" {
		header.Set("x-queen-tenant", w.tenant)
	}
	a, err := testkit.Call(w.client, method, target, string(text), header)
	return a.Status, a.Body, err
}

// fetch makes a request that has to be answered with one of the statuses, and decodes
// the body unless there is none.
func (w *world) fetch(method, target string, body, into any, statuses ...int) (status int, err error) {
	status, text, err := w.call(method, target, body)
	if err != nil {
		return status, err
	}
	for _, s := range statuses {
		if s == status {
			if len(text) == 0 {
				return status, nil
			}
			if err := json.Unmarshal(text, into); err != nil {
				return status, fmt.Errorf("%w: %s", err, text)
			}
			return status, nil
		}
	}
	return status, fmt.Errorf("%s %s: status %d %s, want %v", method, target, status, text, statuses)
}
