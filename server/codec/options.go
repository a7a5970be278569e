package codec

import "unicode/utf8"

// OptInt is an optional whole number. Set and Null are never both true; with neither
// it is absent. What counts as one: whole numbers however they are written (5, 5.0,
// 1e2), strings that hold one, true and false for 1 and 0.
type OptInt struct {
	Value     int64
	Set, Null bool
}

// OptBool is an optional truth value. What counts as one: true, false, the strings
// "true" and "false", and the numbers 1 and 0.
type OptBool struct {
	Value     bool
	Set, Null bool
}

// OptString is an optional string. Only a string counts as one.
type OptString struct {
	Value     string
	Set, Null bool
}

// Options are the options of a queue, each of them optional.
type Options struct {
	Namespace                   OptString
	Task                        OptString
	LeaseTime                   OptInt // seconds
	RetryLimit                  OptInt
	DeadLetterQueue             OptBool
	DLQAfterMaxRetries          OptBool
	DedupWindowSeconds          OptInt
	DelayedProcessing           OptInt // seconds
	WindowBuffer                OptInt // seconds
	MinPopWaitTime              OptInt // milliseconds
	RetentionEnabled            OptBool
	RetentionSeconds            OptInt
	CompletedRetentionSeconds   OptInt
	MaxWaitTimeSeconds          OptInt
	EncryptionEnabled           OptBool
	Priority                    OptInt
	RetryDelay                  OptInt // milliseconds
	TTL                         OptInt // seconds
	MaxSize                     OptInt
	RetentionSinkHold           OptString
	RetentionSinkHoldMaxSeconds OptInt
}

// Places of the labels in optionNames: they have rules of their own.
const (
	namespaceOption = 0
	taskOption      = 1
)

// optionNames are the keys of the options on the wire.
var optionNames = [...]string{
	namespaceOption: "namespace",
	taskOption:      "task",
	2:               "leaseTime",
	3:               "retryLimit",
	4:               "deadLetterQueue",
	5:               "dlqAfterMaxRetries",
	6:               "dedupWindowSeconds",
	7:               "delayedProcessing",
	8:               "windowBuffer",
	9:               "minPopWaitTime",
	10:              "retentionEnabled",
	11:              "retentionSeconds",
	12:              "completedRetentionSeconds",
	13:              "maxWaitTimeSeconds",
	14:              "encryptionEnabled",
	15:              "priority",
	16:              "retryDelay",
	17:              "ttl",
	18:              "maxSize",
	19:              "retentionSinkHold",
	20:              "retentionSinkHoldMaxSeconds",
}

// optional is an OptInt, OptBool or OptString.
type optional interface {
	// cast takes the value of f. It reports false if that is of no use.
	cast(s *scanner, f field) bool
	want() string
}

// all returns the options in the order of optionNames.
func (o *Options) all() [len(optionNames)]optional {
	return [...]optional{
		&o.Namespace, &o.Task, &o.LeaseTime, &o.RetryLimit, &o.DeadLetterQueue,
		&o.DLQAfterMaxRetries, &o.DedupWindowSeconds, &o.DelayedProcessing, &o.WindowBuffer, &o.MinPopWaitTime,
		&o.RetentionEnabled, &o.RetentionSeconds, &o.CompletedRetentionSeconds, &o.MaxWaitTimeSeconds, &o.EncryptionEnabled,
		&o.Priority, &o.RetryDelay, &o.TTL, &o.MaxSize, &o.RetentionSinkHold,
		&o.RetentionSinkHoldMaxSeconds,
	}
}

// OptionError says that the value of an option is of no use to it.
type OptionError struct {
	Name  string // of the option
	Value string // as it was sent, cut after 64 bytes
	Want  string // what the option takes, as in "an integer"
}

// Error names option and value.
func (e *OptionError) Error() string {
	return "option " + e.Name + ": " + e.Value + " is not " + e.Want
}

func newOptionError(name string, raw []byte, want string) *OptionError {
	return &OptionError{Name: name, Value: excerpt(raw), Want: want}
}

// excerpt returns value, or as many of its characters as fit a message. It may be no
// UTF-8 at all.
func excerpt(value []byte) string {
	const limit = 64
	if len(value) <= limit {
		return string(value)
	}
	n := limit
	for n > limit-utf8.UTFMax && !utf8.RuneStart(value[n]) {
		n--
	}
	return string(value[:n]) + "..."
}

// Or returns the value, or def if there is none.
func (o OptInt) Or(def int64) int64 {
	if o.Set {
		return o.Value
	}
	return def
}

// Or returns the value, or def if there is none.
func (o OptBool) Or(def bool) bool {
	if o.Set {
		return o.Value
	}
	return def
}

// Or returns the value, or def if there is none.
func (o OptString) Or(def string) string {
	if o.Set {
		return o.Value
	}
	return def
}

func (o *OptInt) want() string    { return "an integer" }
func (o *OptBool) want() string   { return "a boolean" }
func (o *OptString) want() string { return "a string" }

func (o *OptInt) cast(s *scanner, f field) bool {
	switch raw := s.raw(f); raw[0] {
	case 'n':
		*o = OptInt{Null: true}
		return true
	case 't', 'f':
		*o = OptInt{Set: true}
		if raw[0] == 't' {
			o.Value = 1
		}
	case '"':
		*o = OptInt{Set: true}
		o.Value, o.Set = numericString(s.text(f))
	default:
		*o = OptInt{}
		o.Value, o.Set = wholeNumber(raw)
	}
	return o.Set
}

func (o *OptBool) cast(s *scanner, f field) bool {
	switch raw := s.raw(f); raw[0] {
	case 'n':
		*o = OptBool{Null: true}
		return true
	case 't', 'f':
		*o = OptBool{Value: raw[0] == 't', Set: true}
	case '"':
		text := string(s.text(f))
		*o = OptBool{Value: text == "true", Set: text == "true" || text == "false"}
	default:
		n, ok := wholeNumber(raw)
		*o = OptBool{Value: n == 1, Set: ok && (n == 0 || n == 1)}
	}
	return o.Set
}

func (o *OptString) cast(s *scanner, f field) bool {
	switch s.body[f.from] {
	case 'n':
		*o = OptString{Null: true}
		return true
	case '"':
		*o = OptString{Value: string(s.text(f)), Set: true}
	default:
		*o = OptString{}
	}
	return o.Set
}

// numericString gives the value of a string that holds a whole number, written as
// JSON writes numbers.
func numericString(text []byte) (int64, bool) {
	var s scanner
	s.reset(text)
	if len(text) == 0 || s.skip(0, 0) != len(text) {
		return 0, false
	}
	return wholeNumber(text)
}
