package model

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// item is one message to push; what is empty is not sent.
type item struct {
	Queue     string `json:"queue"`
	Partition string `json:"partition,omitempty"`
	Key       string `json:"transactionId,omitempty"`
	TraceID   string `json:"traceId,omitempty"`
	Payload   any    `json:"payload"`
}

type pushResult struct {
	Index     int    `json:"index"`
	MessageID string `json:"message_id"`
	Key       string `json:"transaction_id"`
	Queue     string `json:"queueName"`
	Status    string `json:"status"`
	Offset    *int64 `json:"offset"`
}

func (r *pushResult) result() PushResult {
	res := PushResult{r.MessageID, r.Key, r.Queue, r.Status, NoOffset}
	if r.Offset != nil {
		res.Offset = *r.Offset
	}
	return res
}

func (x *machine) push(t *rapid.T) error {
	var items []Item
	q, p := pickName(t, queueNames, "queue"), pickName(t, partitionNames, "partition")
	for range rapid.IntRange(1, 5).Draw(t, "items") {
		if chance(t, 4, "elsewhere") {
			q, p = pickName(t, queueNames, "queue"), pickName(t, partitionNames, "partition")
		}
		items = append(items, x.item(q, p, x.key(t)))
	}
	return x.sendPush(items)
}

// item is a message with a payload of its own.
func (x *machine) item(queue, partition, key string) Item {
	x.payloads++
	return Item{Queue: queue, Partition: partition, Key: key, Payload: fmt.Sprintf("%q", fmt.Sprint("payload ", x.payloads))}
}

// key is a transaction id to push: none, one of a few, or that of a stored message.
func (x *machine) key(t *rapid.T) string {
	switch rapid.IntRange(0, 9).Draw(t, "kind of key") {
	case 0, 1, 2:
		return ""
	case 9:
		if msg := x.anyMessage(t); msg != nil {
			return msg.key
		}
	case 8:
		if letters := x.m.lettersOf("", ""); len(letters) > 0 {
			if l := rapid.SampledFrom(letters).Draw(t, "letter"); l.id != "" {
				return "dlq:" + l.id
			}
		}
	}
	return fmt.Sprint("k", rapid.IntRange(0, 7).Draw(t, "key"))
}

func sent(items []Item) (all []item) {
	for _, it := range items {
		i := item{Queue: it.Queue, Partition: it.Partition, Key: it.Key, TraceID: it.TraceID, Payload: raw(it.Payload)}
		if i.Partition == "Default" {
			i.Partition = ""
		}
		all = append(all, i)
	}
	return all
}

func (x *machine) sendPush(items []Item) error {
	var answer []pushResult
	_, err := x.w.fetch("POST", "/api/v1/push", map[string]any{"items": sent(items)}, &answer, 201)
	if err != nil {
		return err
	}
	var got []PushResult
	for i, r := range answer {
		if r.Index != i {
			return fmt.Errorf("index %d at %d", r.Index, i)
		}
		if stored := r.Status == "queued" || r.Status == "duplicate"; (r.Offset != nil) != (stored && x.w.serves.DeliveryDetails) {
			return fmt.Errorf("offset of %+v", r)
		}
		got = append(got, r.result())
	}
	for i, it := range items {
		if i < 6 && i < len(got) {
			x.note("%s/%s:%s=%s", it.Queue, it.Partition, short(got[i].Key), got[i].Status)
		}
	}
	if len(items) > 6 {
		x.note("… %d items", len(items))
	}
	return x.m.Push(items, got)
}

type optionChoice struct {
	name   string
	values []any
	set    func(*Options, any)
}

// optionChoices are the values a configure call draws from. Few, and with deadlines near
// enough for histories to reach them.
var optionChoices = []optionChoice{
	{"leaseTime", []any{0, 1, 5, 60}, func(o *Options, v any) { o.LeaseTime = int64(v.(int)) }},
	{"retryLimit", []any{0, 1, 2, 3}, func(o *Options, v any) { o.RetryLimit = int64(v.(int)) }},
	{"deadLetterQueue", []any{true, false}, func(o *Options, v any) { o.DeadLetterQueue = v.(bool) }},
	{"dlqAfterMaxRetries", []any{true, false}, func(o *Options, v any) { o.DLQAfterMaxRetries = v.(bool) }},
	{"dedupWindowSeconds", []any{0, 1, 5, 2000, -3}, func(o *Options, v any) { o.DedupWindowSeconds = int64(v.(int)) }},
	{"delayedProcessing", []any{0, 1, 3}, func(o *Options, v any) { o.DelayedProcessing = int64(v.(int)) }},
	{"windowBuffer", []any{0, 1, 2}, func(o *Options, v any) { o.WindowBuffer = int64(v.(int)) }},
	{"minPopWaitTime", []any{0, 1, 50, 90_000, -5}, func(o *Options, v any) { o.MinPopWaitTime = int64(v.(int)) }},
	{"namespace", []any{"b", "c"}, func(o *Options, v any) { o.Namespace = v.(string) }},
	{"task", []any{"x", "y"}, func(o *Options, v any) { o.Task = v.(string) }},
}

func (x *machine) configure(t *rapid.T) error {
	name := pickName(t, queueNames, "queue")
	mode := rapid.SampledFrom([]string{"", "merge", "replace"}).Draw(t, "mode")
	options := map[string]any{}
	var changes []func(*Options)
	choices := optionChoices
	if x.features.retention {
		choices = slices.Concat(choices, retentionChoices)
	}
	for _, c := range choices {
		if !chance(t, 3, c.name) {
			continue
		}
		v := rapid.SampledFrom(c.values).Draw(t, c.name)
		options[c.name] = v
		changes = append(changes, func(o *Options) { c.set(o, v) })
	}
	return x.sendConfigure(name, mode, options, changes)
}

func (x *machine) sendConfigure(name, mode string, options map[string]any, changes []func(*Options)) error {
	x.note("%s %s %v", name, mode, options)
	body := map[string]any{"queue": name, "options": options}
	if mode != "" {
		body["mode"] = mode
	}
	var answer struct {
		Configured bool    `json:"configured"`
		QueueID    string  `json:"queueId"`
		Queue      string  `json:"queue"`
		Namespace  string  `json:"namespace"`
		Task       string  `json:"task"`
		Options    Options `json:"options"`
	}
	if _, err := x.w.fetch("POST", "/api/v1/configure", body, &answer, 200); err != nil {
		return err
	}
	want := x.m.Configure(name, mode == "merge", func(o *Options) {
		for _, change := range changes {
			change(o)
		}
	})
	answer.Options.Namespace, answer.Options.Task = answer.Namespace, answer.Task
	if !answer.Configured || answer.Queue != name || answer.Options != want {
		return fmt.Errorf("got %+v, want %+v", answer, want)
	}
	return learn(&x.m.queue(name).id, answer.QueueID)
}

func (x *machine) deleteQueue(t *rapid.T) error {
	name := pickName(t, queueNames, "queue")
	x.note("%s", name)
	var answer struct {
		Deleted bool   `json:"deleted"`
		Queue   string `json:"queue"`
		Existed bool   `json:"existed"`
	}
	if _, err := x.w.fetch("DELETE", "/api/v1/resources/queues/"+name, nil, &answer, 200); err != nil {
		return err
	}
	if existed := x.m.Delete(name); answer.Deleted != existed || answer.Existed != existed || answer.Queue != name {
		return fmt.Errorf("got %+v, existed %t", answer, existed)
	}
	return nil
}

type counts struct {
	Total      int64 `json:"total"`
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Completed  int64 `json:"completed"`
	DeadLetter int64 `json:"deadLetter"`
}

type queueDetail struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	CreatedAt  string `json:"createdAt"`
	Partitions []struct {
		ID        string  `json:"id"`
		Name      string  `json:"name"`
		CreatedAt string  `json:"createdAt"`
		Stats     counts  `json:"stats"`
		Oldest    *string `json:"oldestMessage"`
		Newest    *string `json:"newestMessage"`
	} `json:"partitions"`
	Totals  counts  `json:"totals"`
	Options Options `json:"options"`
}

type depth struct {
	Group      *string `json:"group"`
	Pending    int64   `json:"pending"`
	Processing int64   `json:"processing"`
	Ready      int64   `json:"ready"`

	PartitionsPending int   `json:"partitionsPending"`
	PartitionsReady   int   `json:"partitionsReady"`
	Conflation        bool  `json:"conflation"`
	EffectivePending  int64 `json:"effectivePending"`
	EffectiveReady    int64 `json:"effectiveReady"`
	Partitions        []struct {
		Name       string `json:"partition"`
		Pending    int64  `json:"pending"`
		Processing int64  `json:"processing"`
		Ready      int64  `json:"ready"`
	} `json:"partitions"`
}

func (x *machine) inspect(t *rapid.T) error {
	if chance(t, 5, "all") {
		return x.inspectAll()
	}
	name := pickName(t, queueNames, "queue")
	x.note("%s", name)
	if err := x.compareDetail(name); err != nil {
		return fmt.Errorf("detail: %w", err)
	}
	if err := x.compareDepth(name); err != nil {
		return fmt.Errorf("depth: %w", err)
	}
	return nil
}

func (x *machine) inspectAll() error {
	x.note("everything")
	var list struct {
		Queues []struct {
			ID         string `json:"id"`
			Name       string `json:"name"`
			CreatedAt  string `json:"createdAt"`
			Partitions int    `json:"partitions"`
			Messages   struct {
				Total      int64 `json:"total"`
				Pending    int64 `json:"pending"`
				Processing int64 `json:"processing"`
			} `json:"messages"`
		} `json:"queues"`
	}
	if _, err := x.w.fetch("GET", "/api/v1/resources/queues", nil, &list, 200); err != nil {
		return err
	}
	if len(list.Queues) != len(x.m.queues) {
		return fmt.Errorf("%d queues, want %d", len(list.Queues), len(x.m.queues))
	}
	for _, got := range list.Queues {
		q := x.m.queue(got.Name)
		if q == nil || got.Partitions != len(q.partitions) {
			return fmt.Errorf("queue %q with %d partitions", got.Name, got.Partitions)
		}
		c := Counts{Total: got.Messages.Total, Pending: got.Messages.Pending, Processing: got.Messages.Processing}
		if err := x.m.CompareSum(got.Name, c); err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if err := x.compareDetail(got.Name); err != nil {
			return fmt.Errorf("detail: %w", err)
		}
	}
	return nil
}

func (x *machine) compareDetail(name string) error {
	q, want := x.m.queue(name), 404
	if q != nil {
		want = 200
	}
	var d queueDetail
	if _, err := x.w.fetch("GET", "/api/v1/resources/queues/"+name, nil, &d, want); err != nil || q == nil {
		return err
	}
	if err := learn(&q.id, d.ID); err != nil {
		return fmt.Errorf("id of queue %s: %w", name, err)
	}
	if len(d.Partitions) != len(q.partitions) || d.Options != q.options || millis(d.CreatedAt) != q.createdMs {
		return fmt.Errorf("got %+v, want %d partitions, options %+v, created %d", d, len(q.partitions), q.options, q.createdMs)
	}
	var sum counts
	for _, got := range d.Partitions {
		s := got.Stats
		if s.Total != s.Pending+s.Processing+s.Completed {
			return fmt.Errorf("partition %s does not add up: %+v", got.Name, s)
		}
		if err := x.m.ComparePartition(name, got.Name, Counts{s.Total, s.Pending, s.Processing, s.DeadLetter}); err != nil {
			return err
		}
		p := q.partitions[got.Name]
		if err := learn(&p.id, got.ID); err != nil {
			return fmt.Errorf("id of partition %s: %w", p, err)
		}
		x.know(got.ID)
		if err := p.compareAges(got.CreatedAt, got.Oldest, got.Newest); err != nil {
			return err
		}
		sum.add(s)
	}
	if sum != d.Totals {
		return fmt.Errorf("totals %+v, of the partitions %+v", d.Totals, sum)
	}
	return nil
}

func (c *counts) add(s counts) {
	c.Total += s.Total
	c.Pending += s.Pending
	c.Processing += s.Processing
	c.Completed += s.Completed
	c.DeadLetter += s.DeadLetter
}

func (p *partition) compareAges(created string, oldest, newest *string) error {
	kept := p.retained()
	if millis(created) != p.createdMs || (oldest != nil) != (len(kept) > 0) || (newest != nil) != (len(kept) > 0) {
		return fmt.Errorf("%s: created %s, %d messages", p, created, len(kept))
	}
	if len(kept) > 0 && (millis(*oldest) != kept[0].createdMs || millis(*newest) != kept[len(kept)-1].createdMs) {
		return fmt.Errorf("%s: oldest %s, newest %s, want %d, %d", p, *oldest, *newest, kept[0].createdMs, kept[len(kept)-1].createdMs)
	}
	return nil
}

func (x *machine) compareDepth(name string) error {
	q, want := x.m.queue(name), 404
	if q != nil {
		want = 200
	}
	var d depth
	if _, err := x.w.fetch("GET", "/api/v1/resources/queues/"+name+"/depth", nil, &d, want); err != nil || q == nil {
		return err
	}
	if len(d.Partitions) != len(q.partitions) || d.Group != nil {
		return fmt.Errorf("got %+v, want %d partitions", d, len(q.partitions))
	}
	for _, got := range d.Partitions {
		p := q.partitions[got.Name]
		if p == nil {
			return fmt.Errorf("partition %q was never made", got.Name)
		}
		c := Counts{Total: p.end() - p.start, Pending: got.Ready, Processing: got.Processing, DeadLetters: p.letters()}
		if err := x.m.ComparePartition(name, got.Name, c); err != nil {
			return err
		}
	}
	return d.addsUp()
}

// addsUp checks the sums over the partitions.
func (d *depth) addsUp() error {
	var sum depth
	for _, p := range d.Partitions {
		sum.Pending += p.Pending
		sum.Processing += p.Processing
		sum.Ready += p.Ready
		if p.Ready != p.Pending-p.Processing {
			return fmt.Errorf("partition %+v does not add up", p)
		}
		if p.Pending > 0 {
			sum.PartitionsPending++
		}
		if p.Ready > 0 {
			sum.PartitionsReady++
		}
	}
	sum.EffectivePending, sum.EffectiveReady = sum.Pending, sum.Ready
	if d.Conflation {
		sum.EffectivePending, sum.EffectiveReady = int64(sum.PartitionsPending), int64(sum.PartitionsReady)
	}
	sum.Group, sum.Conflation, sum.Partitions = d.Group, d.Conflation, d.Partitions
	if fmt.Sprintf("%+v", sum) != fmt.Sprintf("%+v", *d) {
		return fmt.Errorf("got %+v, of the partitions %+v", *d, sum)
	}
	return nil
}

// millis reads a time of an answer, in Unix milliseconds.
func millis(text string) int64 {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return -1
	}
	return at.UnixMilli()
}

// instant spells a time.
func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

func escape(s string) string { return url.PathEscape(s) }
