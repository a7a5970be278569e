package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// drifters is a group whose cursors are moved all the time. A transaction under a lease
// from before such a move must be rolled back, and so must none that only came too close
// be done by half.
const (
	drifters       = "drifters"
	drifterWorkers = 2
)

// drifter acknowledges messages for the group in transactions that push notes, and seeks
// with the group, or deletes it, before others of its own.
type drifter struct {
	*mover
	serial  int
	lacking map[string]bool
}

// run returns when ctx ends.
func (d *drifter) run(ctx context.Context) {
	defer d.hangUp()
	for d.once(ctx) == nil {
		if d.pause(ctx, time.Duration(10+d.rng.IntN(30))*time.Millisecond) != nil {
			return
		}
	}
}

func (d *drifter) once(ctx context.Context) error {
	c, err := d.claim(ctx, d.somewhere().queue, drifters)
	if err != nil || c == nil {
		return err
	}
	t := &transfer{claims: []*claim{c}, loose: true}
	var acks []operation
	for _, part := range c.parts {
		acks = append(acks, ackOf(c, part.legs[len(part.legs)-1], true))
		t.gives = append(t.gives, d.note(), d.note())
	}
	if d.chance(40) {
		moved, err := d.move(ctx, c)
		if err != nil {
			return err
		}
		if moved {
			t.spoilt = "a lease from before a seek or the deletion of its group"
		}
	}
	if err := d.prepare(t, acks); err != nil {
		return err
	}
	return d.send(ctx, t, http.StatusOK)
}

// note makes a message that nobody takes.
func (d *drifter) note() *leg {
	d.serial++
	return &leg{name: fmt.Sprintf("note-%s-%d", d.name, d.serial), receipt: true, at: d.desks[d.rng.IntN(len(d.desks))]}
}

// move ends the leases of c, and reports whether it has.
func (d *drifter) move(ctx context.Context, c *claim) (moved bool, err error) {
	path := "/api/v1/consumer-groups/" + drifters + "/queues/" + url.PathEscape(c.queue)
	method, what, body := http.MethodPost, "seek", `{"toEnd":true}`
	done := func([]byte) error {
		moved = true
		return nil
	}
	switch n := d.rng.IntN(10); {
	case n < 2:
		method, what, body = http.MethodDelete, "group delete", ""
	case n < 6:
		path += "/partitions/" + url.PathEscape(c.parts[0].spot.partition) + "/seek"
	default:
		path += "/seek"
	}
	if body != "" && d.chance(70) {
		body = `{"timestamp":"2000-01-01T00:00:00.000Z"}`
	}
	if err := d.ask(ctx, d.lacking, what, method, path, body, done); err != nil || !moved {
		return false, err
	}
	d.check.count(func(t *totals) {
		if what == "seek" {
			t.seeks++
		} else {
			t.groupDeletes++
		}
	})
	return true, nil
}
