package server

import (
	"strconv"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
	"github.com/skepmq/skep/server/trace"
)

const (
	// maxTraceBody bounds a trace: it is a note, and a page of them is made in memory.
	maxTraceBody = 1 << 20
	// maxTracePage is about where an answer with traces ends, full or not.
	maxTracePage  = 16 << 20
	maxTraceLimit = 1000
	traceOverhead = 256 // bytes of a trace on the disk beside those of its body

	defaultTraceLimit = 100
	defaultNameLimit  = 50
)

// Fixed bodies.
const (
	addressRequired = `{"error":"transactionId and partitionId are required"}`
	dataRequired    = `{"error":"data is required"}`
	notPartitionID  = `{"error":"partitionId is not a UUID"}`
	traceNameLong   = `{"error":"a trace name exceeds 511 bytes","code":"name_too_long"}`
	tooManyNames    = `{"error":"a trace has more than 64 names","code":"too_many_names"}`
	noTraces        = `{"traces":[]}`
)

// addTrace answers POST /api/v1/traces. The message need not exist: a consumer may note
// something about one that is gone.
func (r *request) addTrace() {
	body, ok := r.readBody()
	if !ok {
		return
	}
	if len(body) > maxTraceBody {
		r.fail(errBodyTooLarge)
		return
	}
	sent, err := codec.DecodeTrace(body)
	if err != nil {
		r.badBody(err.Error())
		return
	}
	t, refusal := r.newTrace(&sent)
	if refusal != "" {
		r.sendText(fasthttp.StatusBadRequest, refusal)
		return
	}
	if err = r.broker.TakeSpace(int64(len(body) + traceOverhead)); err == nil {
		err = r.server.traces.Append(&t)
	}
	if err != nil {
		r.fail(err)
		return
	}
	b := append(r.answer(), `{"success":true,"traceId":`...)
	b = codec.AppendUUID(b, t.ID)
	r.send(fasthttp.StatusCreated, append(b, '}'))
}

// newTrace makes a trace of what was sent, or says what is wrong with it.
func (r *request) newTrace(sent *codec.Trace) (t trace.Trace, refusal string) {
	if len(sent.TransactionID) == 0 || len(sent.PartitionID) == 0 {
		return t, addressRequired
	}
	if sent.Data == nil {
		return t, dataRequired
	}
	id, ok := codec.ParseUUID(sent.PartitionID)
	if !ok {
		return t, notPartitionID
	}
	if len(sent.Names) > codec.MaxTraceNames {
		return t, tooManyNames
	}
	for _, name := range sent.Names {
		if len(name) > codec.MaxTraceName {
			return t, traceNameLong
		}
	}
	t = trace.Trace{
		ID: uuid.Must(uuid.NewV7()), Tenant: r.tenant, PartitionID: id, CreatedMs: r.broker.StampMs(),
		TransactionID: sent.TransactionID, Group: sent.Group, Event: sent.Event, Names: sent.Names, Data: sent.Data,
	}
	if len(t.Group) == 0 {
		t.Group = []byte(broker.QueueMode)
	}
	if len(t.Event) == 0 {
		t.Event = []byte("info")
	}
	return t, ""
}

// messageTraces answers GET /api/v1/traces/:partitionId/:transactionId, oldest first.
func (r *request) messageTraces() {
	r.abandonBody()
	id, ok := codec.ParseUUID(r.params[0])
	if !ok {
		r.sendText(fasthttp.StatusBadRequest, notPartitionID)
		return
	}
	l := traceList{r: r, b: append(r.answer(), noTraces[:len(noTraces)-len("]}")]...)}
	if err := r.server.traces.ByMessage(r.tenant, id, r.params[1], l.add); err != nil {
		r.fail(err)
		return
	}
	r.send(fasthttp.StatusOK, append(l.end(), '}'))
}

// namedTraces answers GET /api/v1/traces/by-name/:traceName, oldest first. Those whose
// partition is gone have no place in it.
func (r *request) namedTraces() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	limit, offset := q.page(defaultTraceLimit, maxTraceLimit)
	var last uuid.UUID
	var found bool
	exists := func(id uuid.UUID) bool {
		if id != last {
			last = id
			_, _, found = r.broker.PartitionName(r.tenant, id)
		}
		return found
	}
	l := traceList{r: r, named: true, b: append(r.answer(), noTraces[:len(noTraces)-len("]}")]...)}
	total, err := r.server.traces.ByName(r.tenant, r.param(0), exists, offset, limit, l.add)
	if err != nil {
		r.fail(err)
		return
	}
	r.send(fasthttp.StatusOK, appendPagination(l.end(), total, limit, offset))
}

// page reads limit and offset. What is negative counts as 0.
func (f filters) page(def, most int64) (limit, offset int) {
	return int(min(max(f.number("limit", def), 0), most)), int(min(max(f.number("offset", 0), 0), 1<<40))
}

func appendPagination(b []byte, total, limit, offset int) []byte {
	b = append(b, `,"total":`...)
	b = strconv.AppendInt(b, int64(total), 10)
	b = append(b, `,"pagination":{"limit":`...)
	b = strconv.AppendInt(b, int64(limit), 10)
	b = append(b, `,"offset":`...)
	b = strconv.AppendInt(b, int64(offset), 10)
	return append(b, "}}"...)
}

// traceList is an answer with traces.
type traceList struct {
	r     *request
	b     []byte // up to the last trace
	n     int
	named bool // with where the message is
	cut   bool // there are more than the answer takes
}

// add appends a trace, and reports whether there is room for another.
func (l *traceList) add(t *trace.Trace) bool {
	if l.n > 0 && len(l.b)+len(t.Data) > maxTracePage {
		l.cut = true
		return false
	}
	var queue, partition string
	if l.named {
		var ok bool
		if queue, partition, ok = l.r.broker.PartitionName(l.r.tenant, t.PartitionID); !ok {
			return true // deleted meanwhile
		}
	}
	if l.n++; l.n > 1 {
		l.b = append(l.b, ',')
	}
	b := append(l.b, `{"id":`...)
	b = codec.AppendUUID(b, t.ID)
	if l.named {
		b = append(b, `,"transaction_id":`...)
		b = codec.AppendString(b, t.TransactionID)
		b = append(b, `,"partition_id":`...)
		b = codec.AppendUUID(b, t.PartitionID)
	}
	b = append(b, `,"event_type":`...)
	b = codec.AppendString(b, t.Event)
	b = append(b, `,"data":`...)
	b = append(b, t.Data...)
	b = append(b, `,"consumer_group":`...)
	b = codec.AppendString(b, t.Group)
	b = append(b, `,"worker_id":`...)
	b = codec.AppendString(b, l.r.server.opts.EngineName)
	b = append(b, `,"created_at":`...)
	b = codec.AppendTimeMs(b, t.CreatedMs)
	if l.named {
		b = append(b, `,"queue_name":`...)
		b = codec.AppendString(b, queue)
		b = append(b, `,"partition_name":`...)
		b = codec.AppendString(b, partition)
		b = append(b, `,"message_payload":null`...)
	}
	b = append(b, `,"trace_names":[`...)
	for i, name := range t.Names {
		if i > 0 {
			b = append(b, ',')
		}
		b = codec.AppendString(b, name)
	}
	l.b = append(b, "]}"...)
	return true
}

// end closes the list.
func (l *traceList) end() []byte {
	b := append(l.b, ']')
	if l.cut {
		b = append(b, `,"truncated":true`...)
	}
	return b
}

// traceNames answers GET /api/v1/traces/names, those used last first.
func (r *request) traceNames() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	limit, offset := q.page(defaultNameLimit, maxTraceLimit)
	names, total, err := r.server.traces.Names(r.tenant, offset, limit)
	if err != nil {
		r.fail(err)
		return
	}
	b := append(r.answer(), `{"trace_names":[`...)
	for i := range names {
		n := &names[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"trace_name":`...)
		b = codec.AppendString(b, n.Name)
		b = append(b, `,"trace_count":`...)
		b = strconv.AppendInt(b, int64(n.Traces), 10)
		b = append(b, `,"message_count":`...)
		b = strconv.AppendInt(b, int64(n.Messages), 10)
		b = append(b, `,"last_seen":`...)
		b = codec.AppendTimeMs(b, n.LastMs)
		b = append(b, '}')
	}
	r.send(fasthttp.StatusOK, appendPagination(append(b, ']'), total, limit, offset))
}

// sweepTraces removes what is too old.
func (s *Server) sweepTraces() {
	if b := s.broker.Load(); b != nil {
		s.traces.Sweep((*b).StampMs())
	}
}
