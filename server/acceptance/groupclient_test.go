package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// The answers of the routes of consumer groups.
type (
	groupSummary struct {
		Name              string   `json:"name"`
		Topics            []string `json:"topics"`
		Queue             string   `json:"queueName"`
		Members           int      `json:"members"`
		Cursors           int      `json:"partitionCursors"`
		PartitionsWithLag int      `json:"partitionsWithLag"`
		Lag               int64    `json:"totalLag"`
		LagSeconds        int64    `json:"maxTimeLag"`
		State             string   `json:"state"`
		Storage           string   `json:"storage"`
		Mode              *string  `json:"subscriptionMode"`
		Instant           *string  `json:"subscriptionTimestamp"`
		CreatedAt         *string  `json:"subscriptionCreatedAt"`
		Conflation        bool     `json:"conflation"`
		EvictedUnread     int64    `json:"evictedUnread"`
	}
	laggingRow struct {
		Group        string  `json:"consumer_group"`
		Queue        string  `json:"queue_name"`
		Partition    string  `json:"partition_name"`
		PartitionID  string  `json:"partition_id"`
		Worker       *string `json:"worker_id"`
		Lag          int64   `json:"offset_lag"`
		LagSeconds   int64   `json:"time_lag_seconds"`
		LagHours     float64 `json:"lag_hours"`
		Oldest       string  `json:"oldest_unconsumed_at"`
		LastConsumed *string `json:"last_consumed_at"`
	}
	groupPartition struct {
		Partition    string  `json:"partition"`
		Worker       *string `json:"workerId"`
		LastConsumed *string `json:"lastConsumedAt"`
		Consumed     int64   `json:"totalConsumed"`
		Lag          int64   `json:"offsetLag"`
		LagSeconds   int64   `json:"timeLagSeconds"`
		LeaseActive  bool    `json:"leaseActive"`
	}
	groupQueue struct {
		Conflation    bool             `json:"conflation"`
		EvictedUnread int64            `json:"evictedUnread"`
		Partitions    []groupPartition `json:"partitions"`
		Count         int              `json:"partitionCount"`
		Truncated     bool             `json:"partitionsTruncated,omitempty"`
	}
	groupDeleted struct {
		Success  bool   `json:"success"`
		Group    string `json:"consumerGroup"`
		Queue    string `json:"queueName,omitempty"`
		Deleted  int    `json:"deletedPartitions"`
		Metadata bool   `json:"metadataDeleted"`
	}
	subscriptionMoved struct {
		Success bool   `json:"success"`
		Group   string `json:"consumerGroup"`
		Instant string `json:"newTimestamp"`
		Rows    int    `json:"rowsUpdated"`
	}
	seekAnswer struct {
		Success bool    `json:"success"`
		Group   string  `json:"consumerGroup"`
		Queue   string  `json:"queueName"`
		ToEnd   bool    `json:"seekToEnd"`
		Target  *string `json:"targetTimestamp"`
		Updated int     `json:"partitionsUpdated"`
	}
	partitionSeekAnswer struct {
		Success   bool    `json:"success"`
		Group     string  `json:"consumerGroup"`
		Queue     string  `json:"queueName"`
		Partition string  `json:"partitionName"`
		ToEnd     bool    `json:"seekToEnd"`
		Target    *string `json:"targetTimestamp"`
		Updated   bool    `json:"updated"`
	}
	depthPartition struct {
		Partition  string `json:"partition"`
		Pending    int64  `json:"pending"`
		Processing int64  `json:"processing"`
		Ready      int64  `json:"ready"`
	}
	depthAnswer struct {
		Queue             string           `json:"queue"`
		Group             *string          `json:"group"`
		Pending           int64            `json:"pending"`
		Processing        int64            `json:"processing"`
		Ready             int64            `json:"ready"`
		PartitionsPending int64            `json:"partitionsPending"`
		PartitionsReady   int64            `json:"partitionsReady"`
		Conflation        bool             `json:"conflation"`
		EffectivePending  int64            `json:"effectivePending"`
		EffectiveReady    int64            `json:"effectiveReady"`
		Partitions        []depthPartition `json:"partitions"`
	}
)

func groupPath(group string) string { return "/api/v1/consumer-groups/" + url.PathEscape(group) }

// get makes a GET that has to succeed.
func (w *world) get(target string) []byte {
	w.t.Helper()
	a := w.call("GET", target, "")
	if a.status != http.StatusOK {
		w.t.Fatalf("GET %s: %d %s", target, a.status, a.body)
	}
	return a.body
}

// groups lists the groups and checks what holds for every list.
func (w *world) groups() []groupSummary {
	w.t.Helper()
	list := decode[[]groupSummary](w.t, w.get("/api/v1/consumer-groups"))
	for i, g := range list {
		if len(g.Topics) != 1 || g.Topics[0] != g.Queue || g.Members != g.Cursors || g.Storage != "segments" {
			w.t.Errorf("group %+v", g)
		}
		if i > 0 && (list[i-1].Name > g.Name || list[i-1].Name == g.Name && list[i-1].Queue >= g.Queue) {
			w.t.Errorf("group %s of %s after %s of %s", g.Name, g.Queue, list[i-1].Name, list[i-1].Queue)
		}
	}
	return list
}

// group finds one group of one queue in the list; nil: it is not there.
func (w *world) group(name, queue string) *groupSummary {
	w.t.Helper()
	for _, g := range w.groups() {
		if g.Name == name && g.Queue == queue {
			return &g
		}
	}
	return nil
}

// groupDetail describes a group, by queue.
func (w *world) groupDetail(name string, params ...string) map[string]groupQueue {
	w.t.Helper()
	raw := decode[map[string]json.RawMessage](w.t, w.get(groupPath(name)+"?"+query(params)))
	detail := map[string]groupQueue{}
	for queue, text := range raw {
		detail[queue] = decode[groupQueue](w.t, text)
	}
	return detail
}

// lagging lists where groups are behind; params as in pop.
func (w *world) lagging(params ...string) []laggingRow {
	w.t.Helper()
	return decode[[]laggingRow](w.t, w.get("/api/v1/consumer-groups/lagging?"+query(params)))
}

// depth asks for the depth of a queue, of one group or, with "", of the slowest.
func (w *world) depth(queue, group string) depthAnswer {
	w.t.Helper()
	target := "/api/v1/resources/queues/" + url.PathEscape(queue) + "/depth"
	if group != "" {
		target += "?group=" + url.QueryEscape(group)
	}
	d := decode[depthAnswer](w.t, w.get(target))
	var pending, processing int64
	for _, p := range d.Partitions {
		if p.Ready != p.Pending-p.Processing {
			w.t.Errorf("depth of %s: %+v", queue, p)
		}
		pending += p.Pending
		processing += p.Processing
	}
	if d.Pending != pending || d.Processing != processing || d.Ready != pending-processing || (d.Group == nil) != (group == "") {
		w.t.Errorf("depth: %+v", d)
	}
	return d
}

// seek moves a group in a queue; to is the body.
func (w *world) seek(group, queue, to string) seekAnswer {
	w.t.Helper()
	a := w.call("POST", groupPath(group)+"/queues/"+url.PathEscape(queue)+"/seek", to)
	if a.status != http.StatusOK {
		w.t.Fatalf("seek %s: %d %s", to, a.status, a.body)
	}
	s := decode[seekAnswer](w.t, a.body)
	if !s.Success || s.Group != group || s.Queue != queue || s.ToEnd != (s.Target == nil) {
		w.t.Errorf("seek %s: %s", to, a.body)
	}
	return s
}

// seekIn moves a group in one partition.
func (w *world) seekIn(group, queue, partition, to string) {
	w.t.Helper()
	a := w.call("POST", groupPath(group)+"/queues/"+url.PathEscape(queue)+"/partitions/"+url.PathEscape(partition)+"/seek", to)
	if a.status != http.StatusOK {
		w.t.Fatalf("seek %s: %d %s", to, a.status, a.body)
	}
	s := decode[partitionSeekAnswer](w.t, a.body)
	if !s.Success || s.Group != group || s.Queue != queue || s.Partition != partition || !s.Updated || s.ToEnd != (s.Target == nil) {
		w.t.Errorf("seek %s: %s", to, a.body)
	}
}

const (
	toEnd   = `{"toEnd":true}`
	toBegin = `{"timestamp":"1970-01-01T00:00:00Z"}`
)

// since is the body of a seek to an instant.
func since(at time.Time) string { return fmt.Sprintf(`{"timestamp":%q}`, stamp(at)) }

// deleteGroup deletes a group, in one queue or, with "", in all.
func (w *world) deleteGroup(group, queue string, params ...string) groupDeleted {
	w.t.Helper()
	target := groupPath(group)
	if queue != "" {
		target += "/queues/" + url.PathEscape(queue)
	}
	a := w.call("DELETE", target+"?"+query(params), "")
	if a.status != http.StatusOK {
		w.t.Fatalf("DELETE %s: %d %s", target, a.status, a.body)
	}
	d := decode[groupDeleted](w.t, a.body)
	if !d.Success || d.Group != group || d.Queue != queue {
		w.t.Errorf("DELETE %s: %s", target, a.body)
	}
	return d
}

// moveSubscription changes the stored instant of a group.
func (w *world) moveSubscription(group string, at time.Time) subscriptionMoved {
	w.t.Helper()
	a := w.call("POST", groupPath(group)+"/subscription", fmt.Sprintf(`{"subscriptionTimestamp":%q}`, stamp(at)))
	if a.status != http.StatusOK {
		w.t.Fatalf("subscription: %d %s", a.status, a.body)
	}
	m := decode[subscriptionMoved](w.t, a.body)
	if !m.Success || m.Group != group || m.Instant != stamp(at) {
		w.t.Errorf("subscription: %s", a.body)
	}
	return m
}

// drain takes all that a group is owed, and returns the ids in order of delivery.
func (w *world) drain(group, queue string, params ...string) (ids []string) {
	w.t.Helper()
	params = append(params, "consumerGroup="+group, "autoAck=true", "partitions=0")
	for {
		p := w.pop(queue, params...)
		if p == nil {
			return ids
		}
		ids = append(ids, p.ids()...)
	}
}
