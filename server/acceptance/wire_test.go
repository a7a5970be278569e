package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// The answers of the routes. Their keys are exactly these, in this order; those with
// omitempty may be absent, and those of pointer type may be null.
type (
	pushResult struct {
		Index         int    `json:"index"`
		MessageID     string `json:"message_id"`
		TransactionID string `json:"transaction_id"`
		Queue         string `json:"queueName"`
		Status        string `json:"status"`
		Error         string `json:"error,omitempty"`
	}
	popAnswer struct {
		Success     bool      `json:"success"`
		Queue       string    `json:"queue"`
		Partition   string    `json:"partition"`
		PartitionID string    `json:"partitionId"`
		LeaseID     string    `json:"leaseId"`
		Group       string    `json:"consumerGroup"`
		Messages    []message `json:"messages"`
		Claimed     int       `json:"partitionsClaimed"`
	}
	message struct {
		ID            string          `json:"id"`
		TransactionID string          `json:"transactionId"`
		TraceID       *string         `json:"traceId"`
		Data          json.RawMessage `json:"data"`
		ProducerSub   *string         `json:"producerSub"`
		CreatedAt     string          `json:"createdAt"`
		PartitionID   string          `json:"partitionId"`
		Partition     string          `json:"partition"`
		LeaseID       string          `json:"leaseId"`
		Group         string          `json:"consumerGroup"`
	}
	ackResult struct {
		Index         int     `json:"index"`
		TransactionID string  `json:"transactionId"`
		Success       bool    `json:"success"`
		Error         *string `json:"error"`
		LeaseReleased bool    `json:"leaseReleased"`
		DeadLetter    bool    `json:"dlq"`
		Noop          bool    `json:"noop"`
	}
	extendAnswer struct {
		LeaseID      string  `json:"leaseId"`
		Success      bool    `json:"success"`
		Renewed      int     `json:"renewed"`
		NewExpiresAt *string `json:"newExpiresAt"`
		ExpiresAt    *string `json:"expiresAt"`
		LeaseExpires *string `json:"lease_expires_at"`
	}
	options struct {
		Priority                    int64  `json:"priority"`
		LeaseTime                   int64  `json:"leaseTime"`
		RetryLimit                  int64  `json:"retryLimit"`
		RetryDelay                  int64  `json:"retryDelay"`
		MaxSize                     int64  `json:"maxSize"`
		TTL                         int64  `json:"ttl"`
		DeadLetterQueue             bool   `json:"deadLetterQueue"`
		DLQAfterMaxRetries          bool   `json:"dlqAfterMaxRetries"`
		DelayedProcessing           int64  `json:"delayedProcessing"`
		WindowBuffer                int64  `json:"windowBuffer"`
		RetentionSeconds            int64  `json:"retentionSeconds"`
		CompletedRetentionSeconds   int64  `json:"completedRetentionSeconds"`
		RetentionEnabled            bool   `json:"retentionEnabled"`
		EncryptionEnabled           bool   `json:"encryptionEnabled"`
		MaxWaitTimeSeconds          int64  `json:"maxWaitTimeSeconds"`
		MinPopWaitTime              int64  `json:"minPopWaitTime"`
		DedupWindowSeconds          int64  `json:"dedupWindowSeconds"`
		RetentionSinkHold           string `json:"retentionSinkHold"`
		RetentionSinkHoldMaxSeconds int64  `json:"retentionSinkHoldMaxSeconds"`
	}
	configureAnswer struct {
		Configured  bool    `json:"configured"`
		QueueID     string  `json:"queueId"`
		PartitionID *string `json:"partitionId"`
		Queue       string  `json:"queue"`
		Namespace   string  `json:"namespace"`
		Task        string  `json:"task"`
		Storage     string  `json:"storage"`
		Options     options `json:"options"`
		Warning     string  `json:"warning,omitempty"`
	}
	segmentCounts struct {
		Segments int64 `json:"segments"`
		Messages int64 `json:"messages"`
	}
	queueSummary struct {
		ID            string        `json:"id"`
		Name          string        `json:"name"`
		Namespace     string        `json:"namespace"`
		Task          string        `json:"task"`
		CreatedAt     string        `json:"createdAt"`
		Partitions    int           `json:"partitions"`
		RetainedBytes int64         `json:"retainedBytes"`
		Segments      segmentCounts `json:"segments"`
		Messages      struct {
			Total      int64 `json:"total"`
			Pending    int64 `json:"pending"`
			Processing int64 `json:"processing"`
		} `json:"messages"`
		Damaged int `json:"damagedPartitions,omitempty"`
	}
	queueList struct {
		Queues []queueSummary `json:"queues"`
	}
	counts struct {
		Total      int64  `json:"total"`
		Pending    int64  `json:"pending"`
		Processing int64  `json:"processing"`
		Completed  int64  `json:"completed"`
		Failed     *int64 `json:"failed"`
		DeadLetter int64  `json:"deadLetter"`
	}
	partitionDetail struct {
		ID        string  `json:"id"`
		Name      string  `json:"name"`
		CreatedAt string  `json:"createdAt"`
		Stats     counts  `json:"stats"`
		Oldest    *string `json:"oldestMessage"`
		Newest    *string `json:"newestMessage"`
		Damaged   bool    `json:"damaged,omitempty"`
		File      string  `json:"damagedFile,omitempty"`
		Position  int64   `json:"damagedPosition,omitempty"`
	}
	labelledOptions struct {
		Namespace string `json:"namespace"`
		Task      string `json:"task"`
		options
	}
	queueDetail struct {
		ID            string            `json:"id"`
		Name          string            `json:"name"`
		Namespace     string            `json:"namespace"`
		Task          string            `json:"task"`
		CreatedAt     string            `json:"createdAt"`
		Partitions    []partitionDetail `json:"partitions"`
		Totals        counts            `json:"totals"`
		RetainedBytes int64             `json:"retainedBytes"`
		Segments      segmentCounts     `json:"segments"`
		Options       labelledOptions   `json:"options"`
		// Beyond the documented keys: the list of partitions can be cut.
		PartitionCount int `json:"partitionCount"`
		Damaged        int `json:"damagedPartitions,omitempty"`
	}
	deleteAnswer struct {
		Deleted bool   `json:"deleted"`
		Queue   string `json:"queue"`
		Existed bool   `json:"existed"`
		Message string `json:"message,omitempty"`
	}
	deadLetter struct {
		ID            string          `json:"id"`
		TransactionID string          `json:"transactionId"`
		PartitionID   string          `json:"partitionId"`
		Queue         string          `json:"queue"`
		Partition     string          `json:"partition"`
		Group         string          `json:"consumerGroup"`
		Error         string          `json:"errorMessage"`
		RetryCount    int64           `json:"retryCount"`
		Data          json.RawMessage `json:"data"`
		ProducerSub   *string         `json:"producerSub"`
		CreatedAt     string          `json:"createdAt"`
		FailedAt      string          `json:"failedAt"`
		Encrypted     bool            `json:"isEncrypted,omitempty"`
		Damaged       bool            `json:"damaged,omitempty"`
	}
	deadLetterList struct {
		Messages   []deadLetter `json:"messages"`
		Pagination struct {
			Limit  int `json:"limit"`
			Offset int `json:"offset"`
		} `json:"pagination"`
		Total int `json:"total"`
	}
	addressAnswer struct {
		Success       bool   `json:"success"`
		PartitionID   string `json:"partitionId"`
		TransactionID string `json:"transactionId"`
		Error         string `json:"error,omitempty"`
		Message       string `json:"message"`
	}
	replayAnswer struct {
		Success       bool   `json:"success"`
		Result        string `json:"result"`
		Queue         string `json:"queue"`
		Partition     string `json:"partition"`
		Group         string `json:"consumerGroup"`
		DeadLetterID  string `json:"dlqId"`
		OriginalID    string `json:"originalTransactionId"`
		ReplayedAs    replay `json:"replayedAs"`
		LetterRemoved bool   `json:"dlqRowRemoved"`
	}
	replay struct {
		pushResult
		Offset int64 `json:"offset,omitempty"`
	}
	errorAnswer struct {
		Error string `json:"error"`
	}
)

var rawMessage = reflect.TypeFor[json.RawMessage]()

// decode reads a JSON text into a T. The text has to be compact, and the keys of its
// objects those of T in their order.
func decode[T any](t testing.TB, text []byte) (v T) {
	t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		t.Fatalf("not JSON: %v: %s", err, text)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("decode %T: %v: %s", v, err, text)
	}
	if err := checkKeys(text, reflect.TypeFor[T]()); err != nil {
		t.Fatalf("%T: %v: %s", v, err, text)
	}
	return v
}

// checkKeys compares the keys of text with those of t, all the way down.
func checkKeys(text json.RawMessage, t reflect.Type) error {
	null := string(text) == "null"
	switch {
	case t == rawMessage, t.Kind() == reflect.Pointer:
		return nil
	case null:
		return fmt.Errorf("null for a %s", t)
	case t.Kind() == reflect.Slice:
		var elements []json.RawMessage
		if err := json.Unmarshal(text, &elements); err != nil {
			return err
		}
		for _, e := range elements {
			if err := checkKeys(e, t.Elem()); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Struct:
		return checkObject(text, t)
	}
	return nil
}

func checkObject(text json.RawMessage, t reflect.Type) error {
	keys, values, err := members(text)
	if err != nil {
		return err
	}
	n := 0
	for _, f := range fields(t) {
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if n < len(keys) && keys[n] == name {
			if err := checkKeys(values[n], f.Type); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			n++
		} else if option != "omitempty" {
			return fmt.Errorf("keys %q, want %q at %d", keys, name, n)
		}
	}
	if n < len(keys) {
		return fmt.Errorf("keys %q, no more than %d wanted", keys, n)
	}
	return nil
}

// fields returns the fields of t, those of embedded structs in their place.
func fields(t reflect.Type) (all []reflect.StructField) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			all = append(all, fields(f.Type)...)
		} else {
			all = append(all, f)
		}
	}
	return all
}

// members returns the keys and values of an object, as they stand.
func members(text json.RawMessage) (keys []string, values []json.RawMessage, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, err
		}
		keys, values = append(keys, key.(string)), append(values, value)
	}
	return keys, values, nil
}

var (
	uuidPattern   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	uuidv7Pattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	millisPattern = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	microsPattern = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
	timePattern   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(\d+)Z`)
)

// masked replaces what differs from run to run: each id by a name that it keeps within
// the text, each time by its digits of a second.
func masked(text []byte) string {
	names := map[string]string{}
	s := uuidPattern.ReplaceAllStringFunc(string(text), func(id string) string {
		if names[id] == "" {
			names[id] = fmt.Sprintf("id%d", len(names)+1)
		}
		return names[id]
	})
	return timePattern.ReplaceAllStringFunc(s, func(at string) string {
		return fmt.Sprintf("time.%d", len(at)-len("2006-01-02T15:04:05.Z"))
	})
}
