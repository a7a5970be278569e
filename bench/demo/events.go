package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
)

//go:embed testdata/github-webhooks.ndjson.gz
var webhooks []byte

// event is one message of the demonstration.
type event struct {
	id        string // transaction id, unique over all rounds
	partition string
	payload   []byte
	position  int // in its partition, from 0
}

// loadEvents returns the recorded webhooks rounds times over.
func loadEvents(rounds int) ([]event, error) {
	z, err := gzip.NewReader(bytes.NewReader(webhooks))
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	var events []event
	lengths := map[string]int{}
	for round := range rounds {
		for i, line := range lines {
			var fields struct{ Source string }
			if err := json.Unmarshal(line, &fields); err != nil {
				return nil, fmt.Errorf("webhook in line %d: %w", i+1, err)
			}
			events = append(events, event{
				id:        fmt.Sprintf("round-%d-line-%d", round+1, i+1),
				partition: fields.Source,
				payload:   line,
				position:  lengths[fields.Source],
			})
			lengths[fields.Source]++
		}
	}
	return events, nil
}
