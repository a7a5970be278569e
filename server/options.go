package server

import (
	"strconv"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

// appendOptions appends the options of a queue as an object, with the labels or
// without: the answer to a configuration shows them one level up.
func appendOptions(b []byte, o *broker.QueueOptions, labels bool) []byte {
	e := optionEncoder{b: append(b, '{')}
	if labels {
		e.text("namespace", o.Namespace)
		e.text("task", o.Task)
	}
	e.number("priority", o.Priority)
	e.number("leaseTime", o.LeaseTime)
	e.number("retryLimit", o.RetryLimit)
	e.number("retryDelay", o.RetryDelay)
	e.number("maxSize", o.MaxSize)
	e.number("ttl", o.TTL)
	e.flag("deadLetterQueue", o.DeadLetterQueue)
	e.flag("dlqAfterMaxRetries", o.DLQAfterMaxRetries)
	e.number("delayedProcessing", o.DelayedProcessing)
	e.number("windowBuffer", o.WindowBuffer)
	e.number("retentionSeconds", o.RetentionSeconds)
	e.number("completedRetentionSeconds", o.CompletedRetentionSeconds)
	e.flag("retentionEnabled", o.RetentionEnabled)
	e.flag("encryptionEnabled", o.EncryptionEnabled)
	e.number("maxWaitTimeSeconds", o.MaxWaitTimeSeconds)
	e.number("minPopWaitTime", o.MinPopWaitTime)
	e.number("dedupWindowSeconds", o.DedupWindowSeconds)
	e.text("retentionSinkHold", o.RetentionSinkHold)
	e.number("retentionSinkHoldMaxSeconds", o.RetentionSinkHoldMaxSeconds)
	return append(e.b, '}')
}

type optionEncoder struct{ b []byte }

func (e *optionEncoder) key(name string) {
	if e.b[len(e.b)-1] != '{' {
		e.b = append(e.b, ',')
	}
	e.b = append(e.b, '"')
	e.b = append(e.b, name...)
	e.b = append(e.b, `":`...)
}

func (e *optionEncoder) text(name, value string) {
	e.key(name)
	e.b = codec.AppendString(e.b, value)
}

func (e *optionEncoder) number(name string, value int64) {
	e.key(name)
	e.b = strconv.AppendInt(e.b, value, 10)
}

func (e *optionEncoder) flag(name string, value bool) {
	e.key(name)
	e.b = strconv.AppendBool(e.b, value)
}
