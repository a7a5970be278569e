package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"iter"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/auth"
	"github.com/skepmq/skep/server/history"
	"github.com/skepmq/skep/server/trace"
)

// Defaults of Options.
const (
	DefaultMaxBodyBytes  = 64 << 20
	DefaultInFlightBytes = 256 << 20
	DefaultAnswerBytes   = 256 << 20
	DefaultMaxConns      = 256 << 10
	DefaultPopTimeout    = 30 * time.Second
	DefaultReadTimeout   = 10 * time.Second
	DefaultWriteTimeout  = 30 * time.Second
	DefaultIdleTimeout   = 120 * time.Second
	DefaultMetricsGroups = 200
	DefaultMetricsEvery  = time.Minute

	DefaultMetricsRetention = 90 * 24 * time.Hour
)

// Every open connection holds one buffer of each kind, so they decide what ten
// thousand parked polls cost. The first bounds the header of a request; the second is
// small because only short answers and pipelines pass through it.
const (
	readBufferBytes  = 8 << 10
	writeBufferBytes = 1 << 10
)

// Broker is what the server needs of *broker.Broker.
type Broker interface {
	Push(t broker.Tenant, items []broker.PushItem, sub []byte, results []broker.PushResult) error
	Pop(req *broker.PopRequest) (*broker.PopResult, error)
	Release(leaseID uuid.UUID)
	Acknowledge(t broker.Tenant, group string, acks []broker.Ack, results []broker.AckResult) error
	Transact(t broker.Tenant, x *broker.Transaction) (broker.TransactionResult, error)
	Extend(t broker.Tenant, leaseID string, seconds int64) (renewed int, earliest time.Time, err error)

	Configure(t broker.Tenant, queue string,
		change func(current broker.QueueOptions, exists bool) (broker.QueueOptions, error)) (broker.QueueInfo, error)
	Queues(t broker.Tenant) ([]broker.QueueInfo, error)
	Queue(t broker.Tenant, name string) (broker.QueueInfo, []broker.PartitionInfo, error)
	DeleteQueue(t broker.Tenant, name string) (existed bool, err error)
	Liveness(t broker.Tenant, wanted func(name string, o *broker.QueueOptions) bool, limit int) []broker.Liveness
	Depth(t broker.Tenant, queue, group string) (partitions []broker.PartitionInfo, conflation bool, err error)

	Groups(t broker.Tenant) ([]broker.GroupInfo, error)
	AllGroups() ([]broker.GroupInfo, error)
	Lagging(t broker.Tenant, minSeconds int64, limit int) ([]broker.LaggingPartition, error)
	Group(t broker.Tenant, name string, offset, limit int) ([]broker.GroupQueue, error)
	DeleteGroup(t broker.Tenant, name, queue string, keep bool) (cursors int, err error)
	DeleteGroups(t broker.Tenant, name string, keep bool) (cursors int, err error)
	MoveSubscription(t broker.Tenant, name string, instantMs int64) (queues int, err error)
	Seek(t broker.Tenant, name, queue string, to broker.SeekTarget) (partitions int, err error)
	SeekPartition(t broker.Tenant, name, queue, partition string, to broker.SeekTarget) error

	DeadLetters(t broker.Tenant, f broker.DeadLetterFilter) ([]broker.DeadLetter, error)
	SampleDeadLetters(t broker.Tenant, queue string, limit int) (broker.DeadLetterSample, error)
	DeleteDeadLetter(t broker.Tenant, partitionID uuid.UUID, transactionID string) (removed int, err error)
	ReplayDeadLetterAt(t broker.Tenant, partitionID uuid.UUID, transactionID string) (broker.ReplayResult, error)
	ReplayDeadLetter(t broker.Tenant, id uuid.UUID, queue, partition *string) (broker.ReplayResult, error)
	PurgeDeadLetters(t broker.Tenant, queue, group string) (int, error)

	Messages(t broker.Tenant, f broker.MessageFilter) (broker.MessagePage, error)
	Message(t broker.Tenant, partitionID uuid.UUID, transactionID string) (broker.MessageDetail, error)
	PartitionName(t broker.Tenant, id uuid.UUID) (queue, partition string, ok bool)
	// TakeSpace is asked before the server writes n bytes to the broker's disk, and StampMs
	// what time it is.
	TakeSpace(n int64) error
	StampMs() int64
	Notify(t broker.Tenant, queue string)
	Maintenance() broker.Maintenance
	SetPushMaintenance(on bool) error
	SetPopMaintenance(on bool) error
	Snapshot() (*broker.Snapshot, error)

	// Stats and Traffic look at no partition; Traffic(true) begins the maxima anew.
	Stats() broker.Stats
	Traffic(roll bool) []broker.QueueTraffic
	// Ready is nil when the broker serves and takes writes.
	Ready() error
	DamagedPartitions() int
	// StopWaiting wakes every parked Pop with an empty result; later ones do not park.
	StopWaiting()
}

// Options configure a Server. The zero value works and answers 503 until SetBroker.
type Options struct {
	// Broker may be nil while it recovers; see SetBroker.
	Broker Broker
	Logger zerolog.Logger

	// MaxBodyBytes is the largest request body; above it a request is answered 413.
	MaxBodyBytes int64
	// InFlightBytes bounds the bytes of all bodies beyond 8 KiB that are being read or
	// handled, and of what they are decoded to. At the bound requests wait.
	InFlightBytes int64
	// AnswerBytes bounds the bytes of all answers beyond 64 KiB that are being made or
	// written. At the bound pops are shortened, or refused, and others wait.
	AnswerBytes int64
	// MaxConns is how many connections are served at once; another is answered 503.
	MaxConns int

	// Auth verifies tokens; nil: every route is open.
	Auth *auth.Verifier
	// AllowedHosts are the host names beside those of the loopback that requests may
	// name; nil: any name. See checkSite.
	AllowedHosts []string
	// TenancyHeader makes requests see the queues of the tenant that their header names;
	// else all are the default tenant's.
	TenancyHeader bool
	// TLS makes the server speak TLS; nil: it does not.
	TLS *tls.Config

	// PopTimeout is how long a pop with wait=true waits that names no timeout.
	PopTimeout time.Duration
	// DefaultSubscriptionMode is the mode of a pop that names none: "all" or "new".
	DefaultSubscriptionMode string
	// DeliveryDetails adds the keys that newer clients know: "offset" to push results and
	// messages, "deliveryAttempt" to messages.
	DeliveryDetails bool

	ReadTimeout  time.Duration // for a header, and for each 256 KiB of a body
	WriteTimeout time.Duration // for an answer
	IdleTimeout  time.Duration // between the requests of a connection

	// MetricsGroups is how many consumer groups have a lag in the metrics, those behind most.
	MetricsGroups int
	// MetricsEvery is how often what went through is summed up; a minute.
	MetricsEvery time.Duration
	// MetricsDir is where these sums are kept, for MetricsRetention; "": nowhere.
	MetricsDir       string
	MetricsRetention time.Duration
	// TraceDir is where traces are kept, for TraceRetention, 0 for ever; "": they are refused.
	TraceDir       string
	TraceRetention time.Duration
	// Config is what GET /api/v1/system/config answers, as JSON; nil: an empty object.
	Config []byte
	Now    func() time.Time // nil: time.Now

	ServerID   string // the host that series are of; "skep"
	EngineName string // in /health; "skep"
	Version    string
	Commit     string // in backups
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxBodyBytes, DefaultMaxBodyBytes)
	setDefault(&o.InFlightBytes, DefaultInFlightBytes)
	setDefault(&o.AnswerBytes, DefaultAnswerBytes)
	setDefault(&o.MaxConns, DefaultMaxConns)
	setDefault(&o.PopTimeout, DefaultPopTimeout)
	setDefault(&o.ReadTimeout, DefaultReadTimeout)
	setDefault(&o.WriteTimeout, DefaultWriteTimeout)
	setDefault(&o.IdleTimeout, DefaultIdleTimeout)
	setDefault(&o.DefaultSubscriptionMode, "all")
	setDefault(&o.ServerID, "skep")
	setDefault(&o.EngineName, "skep")
	setDefault(&o.MetricsGroups, DefaultMetricsGroups)
	setDefault(&o.MetricsEvery, DefaultMetricsEvery)
	setDefault(&o.MetricsRetention, DefaultMetricsRetention)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Server answers the HTTP API. Create it with New. Its methods are safe for
// concurrent use.
type Server struct {
	opts  Options
	log   zerolog.Logger
	http  *fasthttp.Server
	listC chan struct{} // a turn for each list being made

	// Budgets of bodies and what they are decoded to, and of answers beyond freeAnswer.
	bodies, smallBodies, answers *budget

	broker   atomic.Pointer[Broker]
	stopping atomic.Bool

	lnMu sync.Mutex
	ln   net.Listener // of Serve; nil before

	conns connSet
	hosts hostNames

	document func() []byte // of the API, made when it is first asked for

	started  time.Time
	requests requestCounts
	history  *history.Log
	traces   *trace.Log
	lags     lags
	registry *prometheus.Registry
	minutes  minutes

	rollMu sync.Mutex
	rolled bool // for the last time

	bodyPatience time.Duration // shorter in tests
	maxRows      int           // of series; fewer in tests

	// messages walks a part of a pop; tests put others in its place.
	messages func(*broker.PopPart) iter.Seq[broker.Message]
}

// New returns a Server; Serve makes it answer.
func New(opts Options) *Server {
	opts = opts.withDefaults()
	s := &Server{
		opts: opts, log: opts.Logger, hosts: newHostNames(opts.AllowedHosts),
		bodies:       newBudget(opts.InFlightBytes-opts.InFlightBytes/4, opts.MaxBodyBytes),
		smallBodies:  newBudget(opts.InFlightBytes/4, opts.InFlightBytes/16),
		answers:      newBudget(opts.AnswerBytes, answerReserve),
		listC:        make(chan struct{}, maxLists),
		bodyPatience: defaultBodyPatience,
		maxRows:      defaultMaxRows,
		messages:     (*broker.PopPart).Messages,
		started:      opts.Now(),
		document:     sync.OnceValue(func() []byte { return document(opts.Version) }),
	}
	s.minutes.began = s.started
	s.registry = newRegistry(s)
	s.history = history.New(history.Options{Dir: opts.MetricsDir, Retention: opts.MetricsRetention, Logger: opts.Logger})
	s.traces = trace.New(trace.Options{Dir: opts.TraceDir, Retention: opts.TraceRetention, Logger: opts.Logger})
	if newest, ok := s.history.Newest(s.started.UnixMilli()); ok {
		s.minutes.base = newest.Totals
	}
	if opts.Broker != nil {
		s.SetBroker(opts.Broker)
	}
	s.http = &fasthttp.Server{
		Handler:       s.handle,
		ErrorHandler:  s.handleError,
		ExpectHandler: s.expect,
		Logger:        httpLogger{s.log},

		StreamRequestBody:            true,
		MaxRequestBodySize:           int(opts.MaxBodyBytes),
		DisablePreParseMultipartForm: true, // bodies are JSON whatever their type says
		ReadBufferSize:               readBufferBytes,
		WriteBufferSize:              writeBufferBytes,
		Concurrency:                  2 * opts.MaxConns, // the listener refuses, and answers better

		ReadTimeout:  opts.ReadTimeout,
		WriteTimeout: opts.WriteTimeout,
		IdleTimeout:  opts.IdleTimeout,

		NoDefaultServerHeader: true,
		NoDefaultDate:         true,
		NoDefaultContentType:  true, // a 204 carries none
		SecureErrorLogMessage: true, // requests hold tokens
		CloseOnShutdown:       true,
	}
	return s
}

// SetBroker hands over the broker once it has recovered. Until then /health says
// that it is recovering and every API route answers 503.
func (s *Server) SetBroker(b Broker) { s.broker.Store(&b) }

// Serve answers the connections of ln until Shutdown, and closes ln. It returns nil
// after Shutdown.
func (s *Server) Serve(ln net.Listener) error {
	if !s.listenOn(ln) {
		return ln.Close()
	}
	stop := s.minutes.start(s)
	defer stop()
	err := s.http.Serve(&listener{Listener: ln, server: s})
	if err != nil && !s.stopping.Load() {
		return fmt.Errorf("serve http on %s: %w", ln.Addr(), err)
	}
	return nil
}

// Shutdown stops in this order: /health turns to 503, parked pops are answered
// empty, the listener closes, requests in flight finish. Connections that have not
// finished when ctx ends are closed, and its error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	ln := s.stop()
	if b := s.broker.Load(); b != nil {
		(*b).StopWaiting()
	}
	err := s.http.ShutdownWithContext(ctx)
	if ln != nil {
		// fasthttp knows of the listener only once its Serve runs. Closing one that it
		// has closed already is an error that says just that.
		_ = ln.Close()
	}
	s.rollMetrics(true)
	if err := s.history.Close(); err != nil {
		s.log.Warn().Err(err).Msg("close the metrics")
	}
	if err := s.traces.Close(); err != nil {
		s.log.Warn().Err(err).Msg("close the traces")
	}
	if err != nil {
		s.conns.closeAll()
		return fmt.Errorf("shut down http: %w", err)
	}
	return nil
}

// listenOn notes the listener, unless the server is stopping.
func (s *Server) listenOn(ln net.Listener) bool {
	s.lnMu.Lock()
	defer s.lnMu.Unlock()
	s.ln = ln
	return !s.stopping.Load()
}

// stop makes a Serve that has not begun end at once, and returns the listener of one
// that has.
func (s *Server) stop() net.Listener {
	s.lnMu.Lock()
	defer s.lnMu.Unlock()
	s.stopping.Store(true)
	return s.ln
}

// httpLogger takes what fasthttp has to say about broken connections: of interest
// to someone who debugs a client, to nobody else.
type httpLogger struct{ log zerolog.Logger }

func (l httpLogger) Printf(format string, args ...any) {
	if e := l.log.Debug(); e.Enabled() {
		e.Str("detail", fmt.Sprintf(format, args...)).Msg("http connection")
	}
}
