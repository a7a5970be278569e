package model

import (
	"errors"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// tenants share a broker, and a model each: what one does is nothing to the model of
// another. Some histories have one, the default, and some have two, who take turns.
type tenants struct {
	names  []string // as the header has them; "": none
	models []*Model
	at     int
}

func newTenants(t *rapid.T) tenants {
	all := tenants{names: []string{""}, models: []*Model{{}}}
	if rapid.Bool().Draw(t, "two tenants") {
		all.names, all.models = append(all.names, uuid.Nil.String()), append(all.models, &Model{})
	}
	return all
}

// turnTo lets a tenant go on.
func (x *machine) turnTo(at int) {
	x.tenants.at = at
	x.m, x.w.tenant = x.tenants.models[at], x.tenants.names[at]
}

// each does the same as every tenant.
func (x *machine) each(do func() error) (err error) {
	at := x.tenants.at
	for i := range x.tenants.models {
		x.turnTo(i)
		err = errors.Join(err, do())
	}
	x.turnTo(at)
	return err
}

// tick moves the clock, which is everybody's.
func (x *machine) tick(ms int64) {
	now := x.w.tick(ms)
	for _, m := range x.tenants.models {
		m.Tick(now)
	}
}

// buffered is how many messages of all tenants are spooled.
func (x *machine) buffered() (n int) {
	for _, m := range x.tenants.models {
		n += m.Buffered()
	}
	return n
}

// tellOthers lets the models of other tenants know if something was spooled since there
// were before messages in the spool of the one at work.
func (x *machine) tellOthers(before int) {
	for i, m := range x.tenants.models {
		if i != x.tenants.at && x.m.Buffered() > before {
			m.Interrupt()
		}
	}
}
