package model

import (
	"reflect"
	"time"
)

// features are what a broker may or may not offer. Histories use what it does.
type features struct {
	conflation  bool
	groups      bool
	transaction bool
	retention   bool
}

// probe finds out.
func (w *world) probe() (f features, err error) {
	// A broker that knows the parameter refuses it without a group.
	status, _, err := w.call("GET", "/api/v1/pop?namespace=nowhere&conflation=true", nil)
	if err != nil {
		return f, err
	}
	f.conflation = status == 400
	if f.groups, err = w.offers("GET", "/api/v1/consumer-groups"); err != nil {
		return f, err
	}
	f.transaction, err = w.offers("POST", "/api/v1/transaction")
	return f, err
}

// offers reports whether a route exists.
func (w *world) offers(method, path string) (bool, error) {
	status, _, err := w.call(method, path, nil)
	return status != 404 && status != 405, err
}

// retainsOnlyAtOpen keeps a broker that drops old messages from doing so while it serves:
// then it is known when it does. It reports whether the broker drops any.
func (w *world) retainsOnlyAtOpen() bool {
	interval := reflect.ValueOf(&w.options).Elem().FieldByName("RetentionInterval")
	if !interval.IsValid() {
		return false
	}
	interval.Set(reflect.ValueOf(24 * time.Hour))
	return true
}

// operations are those beyond what every broker offers.
func (f *features) operations() (ops []operation) {
	if f.retention {
		ops = append(ops, operation{"retain", 3, (*machine).retainNow})
	}
	if f.transaction {
		ops = append(ops, operation{"transaction", 10, (*machine).transact})
	}
	if f.groups {
		ops = append(ops,
			operation{"seek", 5, (*machine).seek}, operation{"delete group", 2, (*machine).deleteGroup},
			operation{"subscription", 1, (*machine).moveSubscription}, operation{"groups", 6, (*machine).listGroups})
	}
	return ops
}

// retentionChoices are further options where there is retention.
var retentionChoices = []optionChoice{
	{"retentionEnabled", []any{true, false}, func(o *Options, v any) { o.RetentionEnabled = v.(bool) }},
	{"retentionSeconds", []any{0, 1, 5, 2000}, func(o *Options, v any) { o.RetentionSeconds = int64(v.(int)) }},
	{"completedRetentionSeconds", []any{0, 1, 5, 2000}, func(o *Options, v any) { o.CompletedRetentionSeconds = int64(v.(int)) }},
	{"maxWaitTimeSeconds", []any{0, 0, 3, 1000}, func(o *Options, v any) { o.MaxWaitTimeSeconds = int64(v.(int)) }},
}
