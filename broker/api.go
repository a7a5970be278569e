package broker

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// Errors of the public methods. server/errors.go maps each to a status and a body.
var (
	// ErrStorageFull refuses a push before the disk is full. Nothing was written.
	ErrStorageFull = errors.New("broker: the disk is above its high-water mark")
	// ErrStorageFailed follows a failed write or sync: the outcome of the request
	// is unknown, and the broker takes no further writes until it is restarted.
	ErrStorageFailed = errors.New("broker: a write or sync of the journal has failed")
	// ErrClosed answers calls that arrive while the broker is stopping.
	ErrClosed = errors.New("broker: closed")
	// ErrQueueNotFound names a queue that does not exist.
	ErrQueueNotFound = errors.New("broker: queue not found")
	// ErrPartitionNotFound names a partition that does not exist.
	ErrPartitionNotFound = errors.New("broker: partition not found")
	// ErrDeadLetterNotFound names a dead letter that does not exist (any more).
	ErrDeadLetterNotFound = errors.New("broker: dead letter not found")
	// ErrNoLabel refuses a discovery pop that names neither namespace nor task.
	ErrNoLabel = errors.New("broker: namespace or task is required")
	// ErrPartitionDamaged says that a batch of the partition failed its checksum.
	// The partition is out of service; everything else goes on.
	ErrPartitionDamaged = errors.New("broker: partition damaged")
	// ErrTooManyParked refuses a long poll beyond Options.MaxParked.
	ErrTooManyParked = errors.New("broker: too many parked requests")
	// ErrMemoryHigh refuses what would make a queue, a partition or a group while memory
	// is above Options.MaxHeapBytes. Nothing was made, and nothing stored.
	ErrMemoryHigh = errors.New("broker: memory is above its bound")
	// ErrNoRoom refuses a pop whose answer would take more memory than there is for
	// answers. Nothing was leased or taken.
	ErrNoRoom = errors.New("broker: no room for the answer")
	// ErrMaintenance refuses to replay a dead letter while pushes are spooled. The dead
	// letter is where it was.
	ErrMaintenance = errors.New("broker: push maintenance is on")
	// ErrSnapshotRunning refuses a snapshot while there is another.
	ErrSnapshotRunning = errors.New("broker: a snapshot is being copied")
)

// QueueMode is the consumer group of every request that names none.
const QueueMode = "__QUEUE_MODE__"

// Tenant keys everything a broker stores.
type Tenant = uuid.UUID

// DefaultTenant owns everything while tenancy is off.
var DefaultTenant = uuid.MustParse("00000000-0000-0000-0000-000000000001")

// PushItem is one message to append. The byte slices are borrowed: Push copies
// what it keeps. An empty TransactionID asks for a minted one.
type PushItem struct {
	Queue         []byte
	Partition     []byte
	TransactionID []byte
	Payload       []byte    // one valid JSON value, surrounding white space removed
	TraceID       uuid.UUID // zero: none
}

// PushStatus is the verdict on one item of a push.
type PushStatus uint8

// The verdicts of a push.
const (
	Queued PushStatus = iota
	Duplicate
	Failed
	Buffered // in the spool of push maintenance
)

// PushResult answers one PushItem, in its place.
type PushResult struct {
	MessageID uuid.UUID // of the stored or spooled message; of the original for a duplicate
	Minted    bool      // the transaction id is MessageID
	Status    PushStatus
	Offset    int64 // of the stored message, or of the original; -1 when unknown
}

// PopRequest asks for a lease on messages. With a Queue and Pinned it is pinned to
// Partition; with a Queue alone the broker picks partitions; without a Queue it is a
// discovery pop over the queues with these labels.
type PopRequest struct {
	Tenant    Tenant
	Queue     string
	Partition string
	Pinned    bool
	Discovery bool
	Namespace string
	Task      string

	Group            string // "" means QueueMode
	Batch            int    // below 1 acts as 1
	Partitions       int    // 0 or less: no cap
	LeaseSeconds     int    // 0 or less: the queue's
	AutoAck          bool
	Wait             time.Duration // 0: a single attempt
	SubscriptionMode string
	SubscriptionFrom string
	// Conflation asks for the newest message of each partition alone. It counts where
	// the call registers the group; afterwards what was stored counts.
	Conflation bool
	// DefaultPartitions says that the request named no Partitions. A conflating group
	// then takes as many as Batch allows.
	DefaultPartitions bool

	// Alive reports whether the client can still take the answer. It is asked before
	// anything is leased. nil means yes.
	Alive func() bool
	// Room is asked for the memory of an answer of more than FreeRoom. nil: there is
	// always room.
	Room Room
}

// FreeRoom is how many bytes a pop may take without asking for room.
const FreeRoom = 64 << 10

// Room is a share of the memory for answers. A pop takes from it, before it leases
// anything, what it reads and what that will take in the answer.
type Room interface {
	// Take takes n more bytes, or reports that there are none now. With first nothing
	// can be delivered without them, otherwise the answer is shortened. It does not
	// wait: the pop holds up the other consumers of a partition.
	Take(n int64, first bool) bool
	// GiveBack returns all that was taken.
	GiveBack()
}

// PopResult is what a pop leased, or took with AutoAck.
type PopResult struct {
	LeaseID uuid.UUID // zero with AutoAck
	Group   string
	Parts   []PopPart // in order of claim; empty: nothing to deliver

	Conflation         bool // each partition delivered its newest message alone, or would have
	ConflationConflict bool // that was asked for, and a group is registered otherwise
	// Paused says that pops are switched off. Only clients that hear of conflation are
	// told; to others it is nothing to deliver.
	Paused bool
}

// PopPart is the messages of one claimed partition.
type PopPart struct {
	Queue       string
	Partition   string
	PartitionID uuid.UUID
	Spans       []Span
	Attempt     int // how often this batch has been handed out, from 1

	of *queue // not nil
}

// Message is one delivered message. Its slices stay valid and unchanged.
type Message struct {
	ID            uuid.UUID
	TransactionID []byte // nil: minted, the text of ID
	Payload       []byte
	ProducerSub   []byte    // nil: none
	TraceID       uuid.UUID // zero: none
	CreatedAtMs   int64
	Offset        int64 // in its partition
}

// AckStatus is a normalised acknowledgement.
type AckStatus uint8

// The acknowledgements, weakest signal first.
const (
	AckCompleted AckStatus = iota
	AckRetry
	AckFailed
	AckDeadLetter
)

// Ack is one acknowledgement. Strings may be borrowed; Acknowledge keeps none but Error, which it copies.
type Ack struct {
	TransactionID string
	PartitionID   string
	LeaseID       string // "": lease-less
	Status        AckStatus
	Error         string // "": none given
}

// AckResult answers one Ack, in its place.
type AckResult struct {
	Success       bool
	Error         string // "" when Success
	LeaseReleased bool
	DeadLetter    bool
	Noop          bool
	Conflating    bool  // it completed the lease of a conflating group
	Conflated     int64 // messages that such an ack passed undelivered
}

// QueueOptions are the options of a queue, in the units of the configure route.
type QueueOptions struct {
	Namespace                   string
	Task                        string
	Priority                    int64
	LeaseTime                   int64 // seconds
	RetryLimit                  int64
	RetryDelay                  int64 // milliseconds; stored and echoed only
	MaxSize                     int64 // stored and echoed only
	TTL                         int64 // seconds; stored and echoed only
	DeadLetterQueue             bool
	DLQAfterMaxRetries          bool
	DelayedProcessing           int64 // seconds
	WindowBuffer                int64 // seconds
	RetentionSeconds            int64
	CompletedRetentionSeconds   int64
	RetentionEnabled            bool
	EncryptionEnabled           bool
	MaxWaitTimeSeconds          int64
	MinPopWaitTime              int64 // milliseconds, 0 to 60000
	DedupWindowSeconds          int64
	RetentionSinkHold           string
	RetentionSinkHoldMaxSeconds int64
}

// QueueInfo describes a queue. Counters are as of the call.
type QueueInfo struct {
	ID            uuid.UUID
	Name          string
	CreatedAtMs   int64
	Options       QueueOptions
	Partitions    int
	RetainedBytes int64
	Segments      int
	Total         int64 // retained messages
	Pending       int64 // behind the slowest group and not leased
	Processing    int64 // leased
	DeadLetters   int64
	Damaged       int // partitions out of service

	// Of Queue and Queues alone.
	Groups               int   // consumer groups
	Consumed             int64 // messages that acknowledgements have passed, all groups'
	Leases               LeaseCounts
	DeadLetterPartitions int // partitions with dead letters
}

// LeaseCounts say what is leased.
type LeaseCounts struct {
	Leases     int64 // live ones, one for each group and partition
	Partitions int64 // with a live lease
	Messages   int64 // handed out under them
	Acked      int64 // and acknowledged since
}

// Add adds other to l.
func (l *LeaseCounts) Add(other *LeaseCounts) {
	l.Leases += other.Leases
	l.Partitions += other.Partitions
	l.Messages += other.Messages
	l.Acked += other.Acked
}

// PartitionInfo describes one partition of a queue.
type PartitionInfo struct {
	ID          uuid.UUID
	Name        string
	CreatedAtMs int64
	Total       int64
	Pending     int64
	Processing  int64
	DeadLetters int64
	OldestMs    int64 // append time of the oldest retained message, 0: none
	NewestMs    int64
	Start, End  int64 // first offset kept, and one past the last; of Queue and Queues alone, as what follows
	Consumed    int64 // messages that acknowledgements have passed, all groups'
	// LastActivityMs is when a group was last given messages that it still has, or has
	// acknowledged some; 0: never.
	LastActivityMs int64
	Damage         *Damage // nil: it is in service
}

// DeadLetter is a message set aside for one group.
type DeadLetter struct {
	ID            uuid.UUID
	TransactionID string
	MessageID     uuid.UUID
	PartitionID   uuid.UUID
	Queue         string
	Partition     string
	Group         string
	Error         string
	RetryCount    int64
	Payload       []byte
	ProducerSub   []byte
	TraceID       uuid.UUID
	CreatedAtMs   int64 // append time of the message
	FailedAtMs    int64
	Damaged       bool // Payload, ProducerSub and TraceID could not be read

	queue  *queue
	offset int64 // of the payload in the queue's hidden partition
}

// DeadLetterFilter selects dead letters; empty fields match all.
type DeadLetterFilter struct {
	Queue     string
	Group     string
	Partition string
	FromMs    int64
	ToMs      int64 // 0: no bound
	Limit     int
	Offset    int
}

// ReplayResult is the outcome of moving a dead letter back into a queue.
type ReplayResult struct {
	DeadLetter    DeadLetter // without payload
	Queue         string
	Partition     string
	TransactionID string
	Push          PushResult
	Removed       bool
}
