package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"pgregory.net/rapid"
)

// raw is a JSON text that is sent as it is.
func raw(text string) json.RawMessage { return json.RawMessage(text) }

type popAnswer struct {
	Success     bool         `json:"success"`
	Queue       string       `json:"queue"`
	Partition   string       `json:"partition"`
	PartitionID string       `json:"partitionId"`
	LeaseID     string       `json:"leaseId"`
	Group       string       `json:"consumerGroup"`
	Messages    []popMessage `json:"messages"`
	Claimed     int          `json:"partitionsClaimed"`
	Conflation  bool         `json:"conflation"`
	Conflict    bool         `json:"conflationConflict"`
}

type popMessage struct {
	ID          string          `json:"id"`
	Key         string          `json:"transactionId"`
	TraceID     *string         `json:"traceId"`
	Data        json.RawMessage `json:"data"`
	CreatedAt   string          `json:"createdAt"`
	PartitionID string          `json:"partitionId"`
	Partition   string          `json:"partition"`
	LeaseID     string          `json:"leaseId"`
	Group       string          `json:"consumerGroup"`
	Offset      int64           `json:"offset"`
	Attempt     int64           `json:"deliveryAttempt"`
}

// know remembers a partition id, for acks after its queue was deleted.
func (x *machine) know(partitionID string) {
	if !slices.Contains(x.partitions, partitionID) {
		x.partitions = append(x.partitions, partitionID)
	}
}

func (x *machine) pop(t *rapid.T) error {
	r := &Pop{
		Queue: pickName(t, queueNames, "queue"), Group: pickName(t, groupNames, "group"),
		Batch:        rapid.SampledFrom([]int{1, 2, 3, 10, 200, 0}).Draw(t, "batch"),
		Partitions:   rapid.SampledFrom([]int{0, 1, 2, 3, -1}).Draw(t, "partitions"),
		LeaseSeconds: rapid.SampledFrom([]int{0, 1, 2, 5, -1}).Draw(t, "leaseSeconds"),
		AutoAck:      chance(t, 5, "autoAck"),
	}
	switch rapid.IntRange(0, 4).Draw(t, "route") {
	case 3:
		r.Pinned, r.Partition = true, pickName(t, partitionNames, "partition")
	case 4:
		r.Discovery, r.Queue = true, ""
		r.Namespace = rapid.SampledFrom([]string{"b", "c", "a"}).Draw(t, "namespace")
		r.Task = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "task")
	}
	r.PartitionsAbsent = r.Partitions == 0 && chance(t, 2, "absent")
	r.Conflation = x.features.conflation && r.Group != "" && !r.AutoAck && chance(t, 4, "conflation")
	x.subscription(t, r)
	return x.sendPop(r, chance(t, 8, "wait"))
}

// subscription draws the parameters of a first contact. Instants in the future stay out:
// where a group starts that waits for one depends on when its place is first looked at.
func (x *machine) subscription(t *rapid.T, r *Pop) {
	r.Mode = rapid.SampledFrom([]string{"", "new", "all", "typo"}).Draw(t, "mode")
	switch rapid.IntRange(0, 7).Draw(t, "from") {
	case 4:
		r.From = "now"
	case 5:
		r.From = "yesterday"
	case 6:
		r.From, r.FromOK = instant(0), true
	case 7:
		if msg := x.anyMessage(t); msg != nil {
			r.FromMs, r.FromOK = min(x.m.nowMs, msg.createdMs+rapid.Int64Range(-1, 1).Draw(t, "off")), true
			r.From = instant(r.FromMs)
		}
	}
}

func target(r *Pop, wait bool) string {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	v.Set("batch", strconv.Itoa(r.Batch))
	if !r.PartitionsAbsent {
		v.Set("partitions", strconv.Itoa(r.Partitions))
	}
	if r.LeaseSeconds != 0 {
		v.Set("leaseSeconds", strconv.Itoa(r.LeaseSeconds))
	}
	if r.AutoAck {
		v.Set("autoAck", "true")
	}
	if r.Conflation {
		v.Set("conflation", "true")
	}
	if wait {
		v.Set("wait", "true")
		v.Set("timeout", "1")
	}
	set("consumerGroup", r.Group)
	set("subscriptionMode", r.Mode)
	set("subscriptionFrom", r.From)
	path := "/api/v1/pop"
	switch {
	case r.Discovery:
		set("namespace", r.Namespace)
		set("task", r.Task)
	case r.Pinned:
		path += "/queue/" + r.Queue + "/partition/" + r.Partition
	default:
		path += "/queue/" + r.Queue
	}
	return path + "?" + v.Encode()
}

func (x *machine) sendPop(r *Pop, wait bool) error {
	to := target(r, wait)
	x.note("%s", to[len("/api/v1/pop"):])
	var a popAnswer
	status, err := x.w.fetch("GET", to, nil, &a, 200, 204)
	if err != nil {
		return err
	}
	for i, m := range a.Messages {
		if i == 0 {
			x.note("-> lease %s:", short(a.LeaseID))
		}
		if i < 8 {
			x.note("%s:%s", m.Partition, short(m.Key))
		}
	}
	x.note("(%d)", len(a.Messages))
	if status == 200 && len(a.Messages) > 0 {
		if err := x.envelope(r, &a); err != nil {
			return err
		}
	}
	for _, m := range a.Messages {
		x.know(m.PartitionID)
	}
	meant := *r
	meant.Mode = cmp.Or(r.Mode, x.w.serves.DefaultSubscriptionMode)
	return x.m.Pop(&meant, &PopAnswer{LeaseID: a.LeaseID, Conflation: a.Conflation, Conflict: a.Conflict, Messages: a.deliveries()})
}

func (a *popAnswer) deliveries() (all []Delivery) {
	for _, m := range a.Messages {
		all = append(all, Delivery{
			ID: m.ID, Key: m.Key, Payload: string(m.Data), TraceID: *cmp.Or(m.TraceID, new(string)),
			PartitionID: m.PartitionID, Partition: m.Partition, CreatedMs: millis(m.CreatedAt), Offset: m.Offset, Attempt: m.Attempt,
		})
	}
	return all
}

// envelope checks what is around the messages of an answer.
func (x *machine) envelope(r *Pop, a *popAnswer) error {
	group, first := cmp.Or(r.Group, QueueMode), a.Messages[0]
	if !a.Success || a.Queue != r.Queue || a.Group != group || a.Partition != first.Partition || a.PartitionID != first.PartitionID {
		return fmt.Errorf("envelope %+v", *a)
	}
	if (a.LeaseID == "") != r.AutoAck || a.LeaseID != "" && slices.Contains(x.leases, a.LeaseID) {
		return fmt.Errorf("lease id %q, autoAck %t, or not fresh", a.LeaseID, r.AutoAck)
	}
	if a.LeaseID != "" {
		x.leases = append(x.leases, a.LeaseID)
	}
	claimed := map[string]bool{}
	for _, m := range a.Messages {
		claimed[m.PartitionID] = true
		if m.LeaseID != a.LeaseID || m.Group != group || (m.Attempt > 0) != x.w.serves.DeliveryDetails {
			return fmt.Errorf("message %+v under lease %q of %q", m, a.LeaseID, group)
		}
	}
	if len(claimed) != a.Claimed {
		return fmt.Errorf("partitionsClaimed %d, want %d", a.Claimed, len(claimed))
	}
	return nil
}
