package model

import (
	"cmp"
	"encoding/json"
	"fmt"

	"pgregory.net/rapid"
)

type storedMessage struct {
	ID          string          `json:"id"`
	Key         string          `json:"transactionId"`
	PartitionID string          `json:"partitionId"`
	Queue       string          `json:"queue"`
	Partition   string          `json:"partition"`
	Status      string          `json:"status"`
	QueueStatus string          `json:"queueStatus"`
	TraceID     *string         `json:"traceId"`
	CreatedAt   string          `json:"createdAt"`
	LeaseEnds   *string         `json:"leaseExpiresAt"`
	Payload     json.RawMessage `json:"payload"`
	Segment     struct {
		Seq int64 `json:"seq"`
	} `json:"segment"`
	Bus struct {
		DoneBy int `json:"consumedBy"`
		Groups int `json:"totalGroups"`
	} `json:"busStatus"`
}

func (m *storedMessage) stored() Stored {
	return Stored{
		ID: m.ID, Key: m.Key, Partition: m.Partition, Payload: string(m.Payload), TraceID: *cmp.Or(m.TraceID, new(string)),
		CreatedMs: millis(m.CreatedAt), Offset: m.Segment.Seq, Status: m.Status, QueueStatus: m.QueueStatus,
		DoneBy: m.Bus.DoneBy, Groups: m.Bus.Groups, Leased: m.LeaseEnds != nil,
	}
}

// listStored lists the messages of a queue, most times those of one status.
func (x *machine) listStored(t *rapid.T) error {
	queue := pickName(t, queueNames, "queue")
	status := rapid.SampledFrom([]string{"", "pending", "processing", "completed", "dead_letter"}).Draw(t, "status")
	x.note("%s of %s", status, queue)
	var list struct {
		Messages  []storedMessage `json:"messages"`
		Total     int             `json:"total"`
		Truncated bool            `json:"truncated"`
	}
	to := "/api/v1/messages?limit=1000&from=" + instant(0) + "&queue=" + queue + "&status=" + status
	if _, err := x.w.fetch("GET", to, nil, &list, 200); err != nil {
		return err
	}
	x.note("(%d)", list.Total)
	if list.Total != len(list.Messages) || list.Truncated {
		return fmt.Errorf("total %d of %d, truncated %t", list.Total, len(list.Messages), list.Truncated)
	}
	if list.Total == 1000 {
		return nil // a page of more
	}
	var got []Stored
	for i := range list.Messages {
		got = append(got, list.Messages[i].stored())
	}
	return x.m.CompareStored(queue, status, got)
}
