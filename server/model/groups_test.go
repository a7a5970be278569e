package model

import (
	"cmp"
	"fmt"

	"pgregory.net/rapid"
)

// allGroups are the groups as paths spell them.
var allGroups = []string{QueueMode, "g", "h"}

func (x *machine) seek(t *rapid.T) error {
	group, queue, partition := pickName(t, allGroups, "group"), pickName(t, queueNames, "queue"), "*"
	path := "/api/v1/consumer-groups/" + group + "/queues/" + queue
	if chance(t, 2, "one partition") {
		partition = pickName(t, partitionNames, "partition")
		path += "/partitions/" + partition
	}
	toEnd, instantMs := chance(t, 2, "toEnd"), int64(0)
	if msg := x.anyMessage(t); msg != nil {
		instantMs = min(x.m.nowMs, msg.createdMs+rapid.Int64Range(-1, 1).Draw(t, "off"))
	}
	body := map[string]any{"timestamp": instant(instantMs)}
	if toEnd {
		body = map[string]any{"toEnd": true}
	}
	x.note("%s in %s/%s %v", group, queue, partition, body)
	var answer struct {
		Success bool `json:"success"`
		Updated any  `json:"updated"`
		Count   int  `json:"partitionsUpdated"`
	}
	status, err := x.w.fetch("POST", path+"/seek", body, &answer, 200, 404)
	if err != nil {
		return err
	}
	n := x.m.Seek(group, queue, partition, toEnd, instantMs)
	if (status == 200) != (n > 0) || answer.Success != (n > 0) || partition == "*" && answer.Count != n {
		return fmt.Errorf("status %d %+v, want %d partitions", status, answer, n)
	}
	return nil
}

func (x *machine) deleteGroup(t *rapid.T) error {
	group, queue := pickName(t, allGroups, "group"), ""
	path := "/api/v1/consumer-groups/" + group
	if chance(t, 2, "one queue") {
		queue = pickName(t, queueNames, "queue")
		path += "/queues/" + queue
	}
	keep := chance(t, 3, "keep")
	x.note("%s in %q, keep %t", group, queue, keep)
	var answer struct {
		Success bool `json:"success"`
		Cursors int  `json:"deletedPartitions"`
	}
	if _, err := x.w.fetch("DELETE", fmt.Sprintf("%s?deleteMetadata=%t", path, !keep), nil, &answer, 200); err != nil {
		return err
	}
	least, most := x.m.DeleteGroup(group, queue, keep)
	if !answer.Success || answer.Cursors < least || answer.Cursors > most {
		return fmt.Errorf("got %+v, want %d to %d cursors", answer, least, most)
	}
	return nil
}

func (x *machine) moveSubscription(t *rapid.T) error {
	group := pickName(t, []string{"g", "h"}, "group")
	instantMs := x.m.nowMs - rapid.SampledFrom([]int64{0, 1, 5, 1000}).Draw(t, "before")
	x.note("%s to %s", group, instant(instantMs))
	var answer struct {
		Success bool `json:"success"`
		Rows    int  `json:"rowsUpdated"`
	}
	body := map[string]any{"subscriptionTimestamp": instant(instantMs)}
	if _, err := x.w.fetch("POST", "/api/v1/consumer-groups/"+group+"/subscription", body, &answer, 200); err != nil {
		return err
	}
	if n := x.m.MoveSubscription(group, instantMs); !answer.Success || answer.Rows != n {
		return fmt.Errorf("got %+v, want %d", answer, n)
	}
	return nil
}

func (x *machine) listGroups(t *rapid.T) error {
	if chance(t, 2, "one") {
		return x.compareGroup(pickName(t, allGroups, "group"), pickName(t, queueNames, "queue"))
	}
	var answer []struct {
		Name       string  `json:"name"`
		Queue      string  `json:"queueName"`
		Members    int     `json:"members"`
		Cursors    int     `json:"partitionCursors"`
		WithLag    int     `json:"partitionsWithLag"`
		Lag        int64   `json:"totalLag"`
		MaxTimeLag int64   `json:"maxTimeLag"`
		Mode       *string `json:"subscriptionMode"`
		Conflation bool    `json:"conflation"`
	}
	if _, err := x.w.fetch("GET", "/api/v1/consumer-groups", nil, &answer, 200); err != nil {
		return err
	}
	var rows []GroupRow
	for _, r := range answer {
		if r.Members != r.Cursors {
			return fmt.Errorf("row %+v", r)
		}
		rows = append(rows, GroupRow{r.Name, r.Queue, r.Cursors, r.WithLag, r.Lag, r.MaxTimeLag, *cmp.Or(r.Mode, new(string)), r.Conflation})
	}
	return x.m.CompareGroups(rows)
}

// compareGroup compares where a group stands in a queue, as two routes tell it.
func (x *machine) compareGroup(group, queue string) error {
	x.note("%s in %s", group, queue)
	var queues map[string]struct {
		Partitions []struct {
			Name        string  `json:"partition"`
			Worker      *string `json:"workerId"`
			Lag         int64   `json:"offsetLag"`
			LeaseActive bool    `json:"leaseActive"`
		} `json:"partitions"`
	}
	if _, err := x.w.fetch("GET", "/api/v1/consumer-groups/"+group, nil, &queues, 200); err != nil || x.m.queue(queue) == nil {
		return err
	}
	seen := map[string]bool{}
	for _, got := range queues[queue].Partitions {
		seen[got.Name] = true
		at, ok := x.m.Place(group, queue, got.Name)
		if ok && (got.Lag != at.Lag || *cmp.Or(got.Worker, new(string)) != at.Holder || got.LeaseActive != (at.Holder != "")) {
			return fmt.Errorf("%s: got %+v, want %+v", got.Name, got, at)
		}
	}
	for name := range x.m.queue(queue).partitions {
		if _, ok := x.m.Place(group, queue, name); ok && !seen[name] {
			return fmt.Errorf("partition %q is missing", name)
		}
	}
	return x.compareGroupDepth(group, queue)
}

func (x *machine) compareGroupDepth(group, queue string) error {
	var d depth
	if _, err := x.w.fetch("GET", "/api/v1/resources/queues/"+queue+"/depth?group="+group, nil, &d, 200); err != nil {
		return fmt.Errorf("depth: %w", err)
	}
	if len(d.Partitions) != len(x.m.queue(queue).partitions) || d.Group == nil || *d.Group != group {
		return fmt.Errorf("depth %+v", d)
	}
	for _, got := range d.Partitions {
		at, _ := x.m.Place(group, queue, got.Name)
		if got.Pending != at.Lag || got.Processing != at.Leased {
			return fmt.Errorf("depth of %s: got %+v, want %+v", got.Name, got, at)
		}
	}
	if want := x.m.queue(queue).registered[group].conflation; d.Conflation != want {
		return fmt.Errorf("depth: conflation %t, want %t", d.Conflation, want)
	}
	return d.addsUp()
}
