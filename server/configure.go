package server

import (
	"errors"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

// Bounds of options. All others are stored as given.
const (
	maxMinPopWaitTime     = 60_000 // milliseconds
	maxSinkHoldName       = 64
	minSinkHoldMaxSeconds = 60
	maxSinkHoldMaxSeconds = 31_536_000
)

var (
	errSinkHold           = errors.New("invalid retentionSinkHold: up to 64 of A-Z, a-z, 0-9, '.', '_' and '-'")
	errLabel              = errors.New("namespace or task exceeds 65535 bytes")
	errSinkHoldMaxSeconds = errors.New("invalid retentionSinkHoldMaxSeconds: 60 to 31536000")
)

// Warnings where encryption is asked for, and there is no key to encrypt with.
const (
	noKeyWarning  = `,"warning":"encryptionEnabled is set but no encryption key is loaded; payloads are stored as plaintext"`
	noPushWarning = `,"warning":"encryptionEnabled is set but no encryption key is loaded; pushes are refused"`
)

// configure answers POST /api/v1/configure: it creates the queue, or changes its
// options, and echoes those that now hold.
func (r *request) configure() {
	body, ok := r.readBody()
	if !ok {
		return
	}
	c, err := codec.DecodeConfigure(body)
	if err != nil {
		r.refuseConfiguration(err)
		return
	}
	if len(c.Queue) > maxName {
		r.badBody("queue" + nameTooLong)
		return
	}
	info, err := r.broker.Configure(r.tenant, c.Queue, func(current broker.QueueOptions, exists bool) (broker.QueueOptions, error) {
		absent := broker.ConfigureDefaults()
		if exists && c.Mode == codec.ModeMerge {
			absent = current
		}
		return change(&c.Options, absent)
	})
	switch {
	case errors.Is(err, errLabel), errors.Is(err, errSinkHold), errors.Is(err, errSinkHoldMaxSeconds):
		r.refuseConfiguration(err)
	case err != nil:
		r.fail(err)
	default:
		r.sendConfigured(&info)
	}
}

// refuseConfiguration answers 400: nothing was written, and repeating it is no use.
func (r *request) refuseConfiguration(err error) {
	var body *codec.Error
	var mode *codec.ModeError
	switch {
	case errors.As(err, &body):
		r.badBody(err.Error())
	case errors.As(err, &mode), errors.Is(err, codec.ErrQueueRequired):
		r.sendError(fasthttp.StatusBadRequest, "", err.Error())
	default:
		r.sendError(fasthttp.StatusBadRequest, "configure failed: ", err.Error())
	}
}

// change returns the options that in asks for. What it does not name is as in
// absent; what it sends as null goes back to its default.
func change(in *codec.Options, absent broker.QueueOptions) (broker.QueueOptions, error) {
	def := broker.ConfigureDefaults()
	o := absent
	setText(&o.Namespace, in.Namespace, def.Namespace)
	setText(&o.Task, in.Task, def.Task)
	setInt(&o.Priority, in.Priority, def.Priority)
	setInt(&o.LeaseTime, in.LeaseTime, def.LeaseTime)
	setInt(&o.RetryLimit, in.RetryLimit, def.RetryLimit)
	setInt(&o.RetryDelay, in.RetryDelay, def.RetryDelay)
	setInt(&o.MaxSize, in.MaxSize, def.MaxSize)
	setInt(&o.TTL, in.TTL, def.TTL)
	setBool(&o.DeadLetterQueue, in.DeadLetterQueue, def.DeadLetterQueue)
	setBool(&o.DLQAfterMaxRetries, in.DLQAfterMaxRetries, def.DLQAfterMaxRetries)
	setInt(&o.DelayedProcessing, in.DelayedProcessing, def.DelayedProcessing)
	setInt(&o.WindowBuffer, in.WindowBuffer, def.WindowBuffer)
	setInt(&o.RetentionSeconds, in.RetentionSeconds, def.RetentionSeconds)
	setInt(&o.CompletedRetentionSeconds, in.CompletedRetentionSeconds, def.CompletedRetentionSeconds)
	setBool(&o.RetentionEnabled, in.RetentionEnabled, def.RetentionEnabled)
	setBool(&o.EncryptionEnabled, in.EncryptionEnabled, def.EncryptionEnabled)
	setInt(&o.MaxWaitTimeSeconds, in.MaxWaitTimeSeconds, def.MaxWaitTimeSeconds)
	setInt(&o.MinPopWaitTime, in.MinPopWaitTime, def.MinPopWaitTime)
	setInt(&o.DedupWindowSeconds, in.DedupWindowSeconds, def.DedupWindowSeconds)
	setText(&o.RetentionSinkHold, in.RetentionSinkHold, def.RetentionSinkHold)
	setInt(&o.RetentionSinkHoldMaxSeconds, in.RetentionSinkHoldMaxSeconds, def.RetentionSinkHoldMaxSeconds)

	o.MinPopWaitTime = min(max(o.MinPopWaitTime, 0), maxMinPopWaitTime)
	o.DedupWindowSeconds = max(o.DedupWindowSeconds, 0)
	switch {
	case len(o.Namespace) > maxName, len(o.Task) > maxName:
		return o, errLabel
	case !validSinkHold(o.RetentionSinkHold):
		return o, errSinkHold
	case o.RetentionSinkHoldMaxSeconds < minSinkHoldMaxSeconds, o.RetentionSinkHoldMaxSeconds > maxSinkHoldMaxSeconds:
		return o, errSinkHoldMaxSeconds
	}
	return o, nil
}

func setInt(field *int64, in codec.OptInt, def int64) {
	if in.Set || in.Null {
		*field = in.Or(def)
	}
}

func setBool(field *bool, in codec.OptBool, def bool) {
	if in.Set || in.Null {
		*field = in.Or(def)
	}
}

func setText(field *string, in codec.OptString, def string) {
	if in.Set || in.Null {
		*field = in.Or(def)
	}
}

func validSinkHold(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(name) <= maxSinkHoldName
}

func (r *request) sendConfigured(info *broker.QueueInfo) {
	b := append(r.answer(), `{"configured":true,"queueId":`...)
	b = codec.AppendUUID(b, info.ID)
	b = append(b, `,"partitionId":null,"queue":`...)
	b = codec.AppendString(b, info.Name)
	b = append(b, `,"namespace":`...)
	b = codec.AppendString(b, info.Options.Namespace)
	b = append(b, `,"task":`...)
	b = codec.AppendString(b, info.Options.Task)
	b = append(b, `,"storage":"segments","options":`...)
	b = appendOptions(b, &info.Options, false)
	switch {
	case info.PushesRefused:
		b = append(b, noPushWarning...)
	case info.KeyMissing:
		b = append(b, noKeyWarning...)
	}
	r.send(fasthttp.StatusOK, append(b, '}'))
}
