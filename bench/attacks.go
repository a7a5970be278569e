package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/skepmq/skep/bench/wire"
)

// attack is something that clients do who mean no good, or do not know better.
type attack struct {
	name    string
	clients int
	lasts   time.Duration // at least
	pause   time.Duration // of a client before it comes again
	prepare func(p *process) error
	// attack is what a client does with a connection. It returns what came of it, in a few
	// words; an error means that the connection broke.
	attack func(c *hostileConn, client int) (how string, err error)

	most  int64 // memory of the broker; 0: what memoryBound says
	check func(outcomes []outcome) error
}

const (
	maxBody = 64 << 20 // the broker's default
	trickle = time.Second

	largeMessages = 500     // of 1 MiB
	answerCap     = 9 << 20 // a pop's: 8 MiB of messages, and what stands around them
)

func attacks() []attack {
	var half = bytes.Repeat([]byte(" "), maxBody/2)
	return []attack{
		{name: "idle connections", clients: 10_000, lasts: 15 * time.Second, attack: idle},
		{name: "slow headers", clients: 2000, lasts: 12 * time.Second, attack: slowly("POST /api/v1/push HTTP/1.1\r\nHost: ")},
		{name: "slow bodies", clients: 1000, lasts: 12 * time.Second,
			attack: slowly("POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")},
		{name: "64 MiB declared, one byte sent", clients: 100, lasts: 12 * time.Second,
			attack: slowly("POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 67108864\r\n\r\n")},
		{name: "slow chunks", clients: 1000, lasts: 12 * time.Second,
			attack: slowly("POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4;")},
		{name: "bodies at the limit", clients: 32, lasts: 5 * time.Second, attack: body(maxBody, half, half)},
		{name: "bodies over the limit", clients: 32, attack: chunkedBody(half)},
		{name: "pushes of 100000 items", clients: 32, lasts: 6 * time.Second, attack: manyItems(100_000)},
		{name: "acks of 100000 items", clients: 32, lasts: 6 * time.Second, attack: manyAcks(100_000)},
		{name: "large answers, read slowly", clients: 200, lasts: 6 * time.Second, prepare: fill(300, 1<<20, "large"), attack: readSlowly},
		{name: "large answers, read at once", clients: 20, lasts: 12 * time.Second, prepare: fill(largeMessages, 1<<20, "large"), attack: readAll,
			most: 500 << 20, check: allDelivered},
		{name: "one message of a large batch", clients: 200, lasts: 6 * time.Second, prepare: fillBatch(100_000, 300), attack: popOne},
		{name: "large lists, read slowly", clients: 200, lasts: 6 * time.Second, prepare: fill(1000, 1<<16, "large"), attack: listSlowly},
		{name: "pipelines of 10000", clients: 8, lasts: 5 * time.Second, attack: pipeline(10_000)},
		{name: "pipelines nobody reads", clients: 100, lasts: 5 * time.Second, attack: unreadPipeline},
		{name: "long names", clients: 16, lasts: 5 * time.Second, attack: longNames},
		{name: "polls that are reset", clients: 200, attack: resetPoll},
		{name: "garbage", clients: 50, attack: garbage},
	}
}

// errRefused is an answer that says no.
var errRefused = errors.New("refused")

// hostileConn is a connection of an attacker.
type hostileConn struct {
	*net.TCPConn
	answers *wire.Reader
	*assault
}

func (s *assault) dial() (*hostileConn, error) {
	nc, err := net.DialTimeout("tcp", s.address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	c := &hostileConn{TCPConn: nc.(*net.TCPConn), answers: wire.NewReader(nc), assault: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, errors.Join(s.ctx.Err(), nc.Close())
	}
	s.conns[c] = struct{}{}
	return c, nil
}

func (s *assault) hangUp(c *hostileConn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	_ = c.Close() // it may be closed already
}

// answer reads one answer and says what it was.
func (c *hostileConn) answer() (string, error) {
	status, _, err := c.answers.Next()
	if err != nil {
		return "", err
	}
	return "answered " + strconv.Itoa(status), nil
}

// sleep returns false when the assault is over.
func (c *hostileConn) sleep(d time.Duration) bool {
	return wait(c.ctx, d) == nil
}

// idle sends one request and then nothing.
func idle(c *hostileConn, _ int) (string, error) {
	if _, err := c.Write(getRequest("/health")); err != nil {
		return "", err
	}
	if how, err := c.answer(); err != nil || how != "answered 200" {
		return how, err
	}
	_, err := c.Read(make([]byte, 1))
	return "", err
}

// slowly sends a beginning, and then a byte a second until it is answered.
func slowly(begin string) func(*hostileConn, int) (string, error) {
	return func(c *hostileConn, _ int) (string, error) {
		if _, err := io.WriteString(c, begin); err != nil {
			return "", err
		}
		type result struct {
			how string
			err error
		}
		answeredC := make(chan result, 1)
		go func() {
			how, err := c.answer()
			answeredC <- result{how, err}
		}()
		for c.sleep(trickle) {
			if _, err := c.Write([]byte("x")); err != nil {
				break
			}
		}
		r := <-answeredC // Close ends it, and so does the broker
		return r.how, r.err
	}
}

// body sends parts as a body of n bytes.
func body(n int, parts ...[]byte) func(*hostileConn, int) (string, error) {
	return func(c *hostileConn, _ int) (string, error) {
		buffers := net.Buffers{appendPostHead(nil, pushPath, n)}
		buffers = append(buffers, parts...)
		if _, err := buffers.WriteTo(c); err != nil {
			return "", err
		}
		return c.answer()
	}
}

// chunkedBody sends chunks until it is answered.
func chunkedBody(part []byte) func(*hostileConn, int) (string, error) {
	return func(c *hostileConn, _ int) (string, error) {
		head := "POST " + pushPath + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
		buffers := net.Buffers{[]byte(head)}
		for range 3 {
			buffers = append(buffers, fmt.Appendf(nil, "%x\r\n", len(part)), part, []byte("\r\n"))
		}
		if _, err := buffers.WriteTo(c); err != nil {
			if how, readErr := c.answer(); readErr == nil {
				return how, nil
			}
			return "", err
		}
		return c.answer()
	}
}

// manyItems pushes n items in one request.
func manyItems(n int) func(*hostileConn, int) (string, error) {
	var b []byte
	b = append(b, `{"items":[`...)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"queue":"q","payload":0}`...)
	}
	b = append(b, `]}`...)
	return body(len(b), b)
}

func manyAcks(n int) func(*hostileConn, int) (string, error) {
	var b []byte
	b = append(b, `{"acknowledgments":[`...)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"transactionId":"t","partitionId":"p","status":"completed"}`...)
	}
	b = append(b, `]}`...)
	return func(c *hostileConn, _ int) (string, error) {
		buffers := net.Buffers{appendPostHead(nil, "/api/v1/ack/batch", len(b)), b}
		if _, err := buffers.WriteTo(c); err != nil {
			return "", err
		}
		return c.answer()
	}
}

// fill pushes count messages of size bytes that do not compress, each to a partition of its
// own.
func fill(count, size int, queue string) func(*process) error {
	return func(p *process) error {
		rng := rand.NewChaCha8([32]byte{1})
		const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
		payload := make([]byte, size)
		c, err := wire.Dial(p.address)
		if err != nil {
			return err
		}
		defer c.Close()
		for i := range count {
			_, _ = rng.Read(payload) // never fails
			for j := range payload {
				payload[j] = letters[payload[j]&63]
			}
			b := fmt.Appendf(nil, `{"items":[{"queue":%q,"partition":"%d","payload":"%s"}]}`, queue, i, payload)
			if status, body, err := c.Do(append(appendPostHead(nil, pushPath, len(b)), b...)); err != nil || status != 201 {
				return errors.Join(err, statusError{status, string(body)})
			}
		}
		return nil
	}
}

// fillBatch pushes count messages of size bytes in one request.
func fillBatch(count, size int) func(*process) error {
	return func(p *process) error {
		item := fmt.Appendf(nil, `{"queue":"large","payload":"%s"},`, bytes.Repeat([]byte("x"), size))
		b := bytes.Repeat(item, count)
		b = append(append([]byte(`{"items":[`), b[:len(b)-1]...), "]}"...)
		status, answer, err := p.once(append(appendPostHead(nil, pushPath, len(b)), b...))
		if err == nil && status != 201 {
			err = statusError{status, string(answer)}
		}
		return err
	}
}

// popOne takes one message, of a batch that has to be unpacked for it as a whole.
func popOne(c *hostileConn, client int) (string, error) {
	request := fmt.Sprintf("/api/v1/pop/queue/large?batch=1&leaseSeconds=1&consumerGroup=g%d&subscriptionMode=all", client)
	if _, err := c.Write(getRequest(request)); err != nil {
		return "", err
	}
	return c.answer()
}

// readSlowly asks for as much as it can get, and takes a byte a second of it.
func readSlowly(c *hostileConn, client int) (string, error) {
	if _, err := c.Write(largePop(client)); err != nil {
		return "", err
	}
	return drip(c)
}

// largePop asks for a queue full of large messages, in a group of the client's own.
func largePop(client int) []byte {
	return getRequest(fmt.Sprintf("/api/v1/pop/queue/large?batch=1000&partitions=1000&leaseSeconds=1&consumerGroup=g%d&subscriptionMode=all", client))
}

func drip(c *hostileConn) (string, error) {
	if err := c.SetReadBuffer(4096); err != nil {
		return "", err
	}
	one := make([]byte, 16)
	if _, err := io.ReadFull(c, one); err != nil {
		return "", err
	}
	how := "begun: " + string(one[:12])
	for c.sleep(trickle) {
		if _, err := c.Read(one[:1]); err != nil {
			return how, nil
		}
	}
	return how, nil
}

// readAll asks for as much as it can get, takes it and asks for more. All its clients are
// one group.
func readAll(c *hostileConn, _ int) (string, error) {
	if _, err := c.Write(getRequest("/api/v1/pop/queue/large?batch=1000&partitions=1000&autoAck=true&wait=true&timeout=500")); err != nil {
		return "", err
	}
	status, body, err := c.answers.Next()
	if err != nil || status != 200 {
		return "answered " + strconv.Itoa(status), err
	}
	n := bytes.Count(body, []byte(`"transactionId":`))
	c.add(delivered, n)
	if n == 0 || len(body) > answerCap {
		return fmt.Sprintf("wrong: %d messages in %d bytes", n, len(body)), nil
	}
	return "answered 200", nil
}

const delivered = "message delivered"

func allDelivered(outcomes []outcome) error {
	for _, o := range outcomes {
		if strings.HasPrefix(o.name, "wrong") || o.name == delivered && o.count != largeMessages {
			return fmt.Errorf("%s: %d", o.name, o.count)
		}
	}
	return nil
}

// listSlowly asks for a list of large messages and takes a byte a second of it.
func listSlowly(c *hostileConn, _ int) (string, error) {
	if _, err := c.Write(getRequest("/api/v1/messages?queue=large&limit=1000")); err != nil {
		return "", err
	}
	return drip(c)
}

// pipeline sends n requests before it reads an answer.
func pipeline(n int) func(*hostileConn, int) (string, error) {
	requests := bytes.Repeat(getRequest("/api/v1/pop/queue/"+liveQueue+"-empty"), n)
	return func(c *hostileConn, _ int) (string, error) {
		sentC := make(chan error, 1)
		go func() {
			_, err := c.Write(requests)
			sentC <- err
		}()
		for range n {
			if how, err := c.answer(); err != nil || how != "answered 204" {
				return how, errors.Join(err, c.Close(), <-sentC)
			}
		}
		return "answered all", <-sentC
	}
}

// unreadPipeline sends requests and never reads.
func unreadPipeline(c *hostileConn, _ int) (string, error) {
	requests := bytes.Repeat(getRequest("/api/v1/resources/queues"), 1000)
	for c.ctx.Err() == nil {
		if _, err := c.Write(requests); err != nil {
			return "", err
		}
	}
	return "", nil
}

// longNames makes a queue of a name that nobody needs.
func longNames(c *hostileConn, _ int) (string, error) {
	long := bytes.Repeat([]byte("n"), 60_000)
	for i := range 100 {
		copy(long, strconv.Itoa(rand.Int()))
		b := fmt.Appendf(nil, `{"items":[{"queue":"names","partition":"%s%d","payload":0}]}`, long, i)
		if _, err := c.Write(append(appendPostHead(nil, pushPath, len(b)), b...)); err != nil {
			return "", err
		}
		if how, err := c.answer(); err != nil || how != "answered 201" {
			return how, err
		}
	}
	return "100 made", nil
}

// resetPoll parks and goes away without a word.
func resetPoll(c *hostileConn, _ int) (string, error) {
	if _, err := c.Write(getRequest("/api/v1/pop/queue/" + liveQueue + "?wait=true&timeout=30000&batch=1&consumerGroup=hostile")); err != nil {
		return "", err
	}
	c.sleep(5 * time.Millisecond)
	return "reset", c.SetLinger(0)
}

func garbage(c *hostileConn, _ int) (string, error) {
	b := make([]byte, 4096)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	if _, err := c.Write(b); err != nil {
		return "", err
	}
	if err := c.CloseWrite(); err != nil {
		return "", err
	}
	return c.answer()
}
