package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/skepmq/skep/client"
)

// lineWriter writes batches to out, a line a message.
type lineWriter struct {
	format func(*bytes.Buffer, *client.Message)
	out    io.Writer
	broken context.CancelCauseFunc

	mu   sync.Mutex // guards text, and batches from interleaving
	text bytes.Buffer
}

// maxKept is the largest buffer kept for the next batch.
const maxKept = 4 << 20

// handle writes msgs in one go. When it returns nil they have left the process. An
// output that cannot be written ends the command, and the messages are given back: it
// was no fault of theirs.
func (w *lineWriter) handle(_ context.Context, msgs []client.Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Reset()
	for i := range msgs {
		w.format(&w.text, &msgs[i])
		w.text.WriteByte('\n')
	}
	_, err := w.out.Write(w.text.Bytes())
	if w.text.Cap() > maxKept {
		w.text = bytes.Buffer{}
	}
	if err != nil {
		w.broken(fmt.Errorf("consume: write: %w", err))
		return context.Canceled
	}
	return nil
}

// formatPayload writes the payload as it was pushed.
func formatPayload(w *bytes.Buffer, m *client.Message) { writeOneLine(w, m.Data) }

// formatJSON writes the message as an object, its payload last.
func formatJSON(w *bytes.Buffer, m *client.Message) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	// A struct of strings and a number always encodes.
	_ = enc.Encode(struct {
		ID            string `json:"id"`
		TransactionID string `json:"transactionId"`
		Queue         string `json:"queue"`
		Partition     string `json:"partition"`
		PartitionID   string `json:"partitionId"`
		Group         string `json:"group"`
		CreatedAt     string `json:"createdAt"`
		ProducerSub   string `json:"producerSub,omitempty"`
		Attempt       int    `json:"attempt,omitempty"`
	}{m.ID, m.TransactionID, m.Queue, m.Partition, m.PartitionID, m.Group, stamp(m.CreatedAt), m.ProducerSub, m.Attempt})
	w.Truncate(w.Len() - len("}\n"))
	w.WriteString(`,"data":`)
	writeOneLine(w, m.Data)
	w.WriteByte('}')
}

// stamp is a time as the API writes it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// writeOneLine writes JSON with its line breaks as spaces. They can only stand between
// tokens, where one is as good as the other: inside of a string JSON escapes them.
func writeOneLine(w *bytes.Buffer, data []byte) {
	for len(data) > 0 {
		i := bytes.IndexAny(data, "\r\n")
		if i < 0 {
			w.Write(data)
			return
		}
		w.Write(data[:i])
		w.WriteByte(' ')
		data = data[i+1:]
	}
}
