package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/skepmq/skep/client"
)

// line is one line of input, ready to push.
type line struct {
	number int
	item   client.Item
	size   int // bytes of the line
}

// lineFormat says where in a line payload, partition and transaction id are. The zero
// value takes the whole line as the payload.
type lineFormat struct {
	partitionField string
	payloadField   string
	idField        string
}

// parse reads one line, which it copies. The payload keeps its bytes.
func (f lineFormat) parse(number int, text []byte) (line, error) {
	l := line{number: number, size: len(text)}
	raw := json.RawMessage(bytes.Clone(text))
	if err := check(raw); err != nil {
		return l, err
	}
	l.item.Payload = raw
	if f == (lineFormat{}) {
		return l, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return l, errors.New("not an object, so it has no fields")
	}
	var err error
	if f.partitionField != "" {
		if l.item.Partition, err = name(fields, f.partitionField); err != nil {
			return l, err
		}
	}
	if f.idField != "" {
		if l.item.TransactionID, err = name(fields, f.idField); err != nil {
			return l, err
		}
	}
	if f.payloadField != "" {
		payload, ok := fields[f.payloadField]
		if !ok {
			return l, fmt.Errorf("field %q is missing", f.payloadField)
		}
		l.item.Payload = payload
	}
	return l, nil
}

// check reports why raw is not JSON.
func check(raw []byte) error {
	if !json.Valid(raw) {
		var v json.RawMessage
		err := json.Unmarshal(raw, &v)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return fmt.Errorf("not JSON: %w at byte %d", err, syntax.Offset)
		}
		return fmt.Errorf("not JSON: %w", err)
	}
	if !utf8.Valid(raw) {
		return errors.New("not JSON: invalid UTF-8")
	}
	return nil
}

// name reads a field that is a string, or a number, which keeps its digits.
func name(fields map[string]json.RawMessage, field string) (string, error) {
	raw, ok := fields[field]
	if !ok {
		return "", fmt.Errorf("field %q is missing", field)
	}
	switch c := raw[0]; {
	case c == '-' || (c >= '0' && c <= '9'):
		return string(raw), nil
	case c == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", fmt.Errorf("field %q: %w", field, err)
		}
		if s == "" {
			return "", fmt.Errorf("field %q is empty", field)
		}
		return s, nil
	}
	return "", fmt.Errorf("field %q is neither a string nor a number", field)
}
