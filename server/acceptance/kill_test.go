package acceptance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server"
	"github.com/skepmq/skep/server/testkit"
)

// childVariable names the data directory that the test binary serves when it is set.
const childVariable = "SKEP_ACCEPTANCE_DIR"

// serveChild serves dir until the process is killed, and says where on standard output.
func serveChild(dir string) error {
	b, err := broker.Open(broker.Options{Dir: dir, Logger: zerolog.Nop(), CheckpointBytes: 20_000})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	return server.New(server.Options{Broker: b, Logger: zerolog.Nop()}).Serve(ln)
}

// lane is one partition and what is known of it for certain.
type lane struct {
	name         string
	pushed, sent int // pushes that were answered, that were sent
	acked, asked int // messages whose ack was answered, was sent
}

// TestM904Kill kills a process with SIGKILL while it is pushed to, popped from and acked
// by many, again and again: what was answered holds.
func TestM904Kill(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir(), clock: &clock{}}
	lanes := make([]*lane, 4)
	for i := range lanes {
		lanes[i] = &lane{name: fmt.Sprint(i)}
	}
	for round := range 3 {
		w.killUnderLoad(lanes)
		w.start()
		w.clock.advance(2 * time.Second) // the leases of the killed consumers are over
		for _, l := range lanes {
			w.checkLane(l, fmt.Sprint("look", round))
		}
		w.stop()
		w.clock.ahead.Store(0)
	}
}

func (w *world) killUnderLoad(lanes []*lane, also ...func()) {
	w.t.Helper()
	child := w.startChild()
	var acks atomic.Int64
	enough := make(chan struct{})
	var wg sync.WaitGroup
	for _, l := range lanes {
		wg.Go(func() { w.produce(l) })
		wg.Go(func() { w.consume(l, &acks, enough) })
	}
	for _, work := range also {
		wg.Go(work)
	}
	<-enough
	w.kill(child, &wg)
}

// startChild serves the directory from a process of its own, and lets w talk to that.
func (w *world) startChild() *exec.Cmd {
	w.t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+w.dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		w.t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	w.client = testkit.NewClient(func() (net.Conn, error) { return net.Dial("tcp", strings.TrimSpace(address)) })
	return child
}

// kill kills the process and waits for those who talk to it.
func (w *world) kill(child *exec.Cmd, talking *sync.WaitGroup) {
	w.t.Helper()
	if err := child.Process.Kill(); err != nil {
		w.t.Fatal(err)
	}
	talking.Wait()
	_ = child.Wait() // says that it was killed
	w.client.CloseIdleConnections()
}

// produce pushes to a lane until the broker is gone. After a kill it sends what was not
// answered again, under its old id.
func (w *world) produce(l *lane) {
	for {
		l.sent = l.pushed + 1
		body := fmt.Sprintf(`{"items":[{"queue":"q","partition":%q,"transactionId":"%d","payload":%d}]}`, l.name, l.pushed, l.pushed)
		a, err := w.try("POST", "/api/v1/push", body, nil)
		if err != nil || a.status != 201 {
			return
		}
		l.pushed++
	}
}

// consume pops and acks until the broker is gone.
func (w *world) consume(l *lane, acks *atomic.Int64, enough chan struct{}) {
	for {
		a, err := w.try("GET", "/api/v1/pop/queue/q/partition/"+l.name+"?batch=3&leaseSeconds=1&wait=true&timeout=20000", "", nil)
		if err != nil || a.status != 200 {
			return
		}
		p := decode[popAnswer](w.t, a.body)
		for i, m := range p.Messages {
			if n := fmt.Sprint(l.acked + i); m.TransactionID != n && l.asked == l.acked {
				w.t.Errorf("lane %s: popped %s, want %s", l.name, m.TransactionID, n)
			}
		}
		last := p.Messages[len(p.Messages)-1]
		var n int
		if _, err := fmt.Sscan(last.TransactionID, &n); err != nil {
			w.t.Error(err)
			return
		}
		l.asked = n + 1
		body, err := json.Marshal(last.as("completed"))
		if err != nil {
			w.t.Error(err)
			return
		}
		if a, err = w.try("POST", "/api/v1/ack", string(body), nil); err != nil || a.status != 200 {
			return
		}
		if r := decode[[]ackResult](w.t, a.body); !r[0].Success {
			continue // a second was too short on a busy machine
		}
		l.acked = n + 1
		if acks.Add(1) == 60 {
			close(enough)
		}
	}
}

// checkLane compares what came back with what is known, and takes over what was not
// answered and happened all the same.
func (w *world) checkLane(l *lane, group string) {
	w.t.Helper()
	all := w.popFrom("q", l.name, "batch=100000", "autoAck=true", "consumerGroup="+group)
	for i, id := range all.ids() {
		if id != fmt.Sprint(i) {
			w.t.Fatalf("lane %s: message %d is %s", l.name, i, id)
		}
	}
	if n := len(all.ids()); n < l.pushed || n > l.sent {
		w.t.Errorf("lane %s: %d messages, %d pushed and %d sent", l.name, n, l.pushed, l.sent)
	}
	l.pushed = len(all.ids())
	first := l.pushed
	if p := w.popFrom("q", l.name, "batch=1", "leaseSeconds=1"); p != nil {
		if _, err := fmt.Sscan(p.Messages[0].TransactionID, &first); err != nil {
			w.t.Fatal(err)
		}
		w.ok(true, w.ack("", p.Messages[0].as("retry")))
	}
	if first != l.acked && first != l.asked {
		w.t.Errorf("lane %s: redelivers from %d, acked %d, asked %d", l.name, first, l.acked, l.asked)
	}
	l.acked, l.asked = first, first
}
