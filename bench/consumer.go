package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/skepmq/skep/bench/wire"
)

// consumer pops and acknowledges on one connection.
type consumer struct {
	popRequest []byte
	group      string
	ack        []byte // the request in the making; its head has a fixed width
	ids        int    // in ack

	// delivered, unless nil, is called with the payload of every message.
	delivered func(payload []byte)
}

// popQuery says what a pop asks for.
type popQuery struct {
	group      string
	batch      int
	partitions int
	wait       time.Duration // 0: none
}

func newConsumer(queue string, q popQuery) *consumer {
	path := fmt.Sprintf("/api/v1/pop/queue/%s?batch=%d&partitions=%d", queue, q.batch, q.partitions)
	if q.group != "" {
		path += "&consumerGroup=" + q.group
	}
	if q.wait > 0 {
		path += fmt.Sprintf("&wait=true&timeout=%d", q.wait.Milliseconds())
	}
	return &consumer{popRequest: getRequest(path), group: q.group}
}

// pop asks for messages and prepares their acknowledgement; none is an empty answer.
func (c *consumer) pop(conn *wire.Conn) (messages int, err error) {
	return c.popped(conn.Do(c.popRequest))
}

// popped takes the answer to a pop.
func (c *consumer) popped(status int, body []byte, err error) (messages int, _ error) {
	switch {
	case err != nil:
		return 0, err
	case status == 204:
		return 0, nil
	case status != 200:
		return 0, fmt.Errorf("pop: %w", statusError{status, string(body)})
	}
	if err := c.prepareAck(body); err != nil {
		return 0, fmt.Errorf("%w: %w", err, statusError{status, string(body)})
	}
	return c.ids, nil
}

// acknowledge completes what the last pop returned, naming every message.
func (c *consumer) acknowledge(conn *wire.Conn) error {
	status, body, err := conn.Do(c.ack)
	if err != nil {
		return err
	}
	if status != 200 || bytes.Count(body, ackSuccess) != c.ids {
		return fmt.Errorf("ack of %d: %w", c.ids, statusError{status, string(body)})
	}
	return nil
}

const (
	ackPath      = "/api/v1/ack/batch"
	lengthDigits = 8
	uuidLen      = 36
)

// The places in an answer that an acknowledgement needs. No payload of ours contains them.
var (
	ackSuccess        = []byte(`"success":true`)
	leaseKey          = []byte(`"leaseId":"`)
	messagesKey       = []byte(`"messages":[`)
	idKey             = []byte(`"transactionId":"`)
	dataKey           = []byte(`"data":`)
	partitionKey      = []byte(`"partitionId":"`)
	errNotAPop        = errors.New("pop: the answer is not what was expected")
	quote        byte = '"'
)

// prepareAck copies the ids of a pop's answer into c.ack.
func (c *consumer) prepareAck(body []byte) error {
	lease, rest := uuidAfter(body, leaseKey)
	if _, rest = after(rest, messagesKey); rest == nil {
		return errNotAPop
	}
	c.ack = append(c.ack[:0], "POST "+ackPath+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "...)
	lengthAt := len(c.ack)
	c.ack = append(c.ack, "00000000\r\n\r\n"...)
	bodyAt := len(c.ack)
	c.ack = append(c.ack, `{"consumerGroup":"`...)
	c.ack = append(c.ack, c.group...)
	c.ack = append(c.ack, `","acknowledgments":[`...)
	for c.ids = 0; ; c.ids++ {
		var partition, payload []byte
		_, next := after(rest, idKey)
		if next == nil {
			break
		}
		id, _, _ := bytes.Cut(next, []byte{quote})
		if _, payload = after(next, dataKey); payload == nil {
			return errNotAPop
		}
		if partition, rest = uuidAfter(payload, partitionKey); rest == nil {
			return errNotAPop
		}
		if c.delivered != nil {
			c.delivered(payload)
		}
		c.appendAck(id, partition, lease)
	}
	if c.ids == 0 {
		return errNotAPop
	}
	c.ack = append(c.ack[:len(c.ack)-1], `]}`...)
	putDecimal(c.ack[lengthAt:lengthAt+lengthDigits], uint64(len(c.ack)-bodyAt))
	return nil
}

func (c *consumer) appendAck(id, partition, lease []byte) {
	c.ack = append(c.ack, `{"transactionId":"`...)
	c.ack = append(c.ack, id...)
	c.ack = append(c.ack, `","partitionId":"`...)
	c.ack = append(c.ack, partition...)
	c.ack = append(c.ack, `","leaseId":"`...)
	c.ack = append(c.ack, lease...)
	c.ack = append(c.ack, `","status":"completed"},`...)
}

// after returns what stands before key and behind it; behind is nil without key.
func after(b, key []byte) (before, behind []byte) {
	i := bytes.Index(b, key)
	if i < 0 {
		return b, nil
	}
	return b[:i], b[i+len(key):]
}

// uuidAfter returns the UUID behind key and the rest, which is nil if there is none.
func uuidAfter(b, key []byte) (id, rest []byte) {
	_, rest = after(b, key)
	if len(rest) < uuidLen {
		return nil, nil
	}
	return rest[:uuidLen], rest[uuidLen:]
}
