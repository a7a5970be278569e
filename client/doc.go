// Package client talks to a Skep broker over its HTTP API.
//
// A program makes one Client and shares it: it is safe for concurrent use and keeps
// a pool of connections. Queue, Group, Batch and the other chained calls build a
// Queue, a small value that only describes a request; nothing is sent until Push,
// Pop, Consume or one of the administrative calls runs it, and a description may be
// kept, copied and varied.
//
//	c, err := client.New("http://127.0.0.1:6632")
//	…
//	orders := c.Queue("orders")
//	_, err = orders.Partition("customer-42").Push(ctx, client.Item{Payload: order})
//	…
//	err = orders.Group("billing").Batch(50).Consume(ctx, func(ctx context.Context, msgs []client.Message) error {
//		return bill(ctx, msgs)
//	})
//
// # Life of a request
//
// A call encodes its body once, so that every attempt sends the same bytes and the
// same transaction ids. An attempt that meets a network error, a 5xx or a 429 is
// repeated after a pause that doubles and is spread by chance, or after the pause
// that Retry-After asks for; any other 4xx is final. When the attempts are used up
// the last error is returned. The end of the context stops everything at once, a
// parked long poll included.
//
// # What may be repeated
//
// A push carries a transaction id on every item, minted here where the caller named
// none, and the broker stores an id once: repeating it is safe. Acks, lease
// extensions and configuration end in the same state when they arrive twice. The
// repetition of an ack whose answer was lost may be refused, because the first one
// released the lease; that is reported as it is.
//
// A pop is different: if the answer is lost, its messages are leased, and with
// AutoAck they are gone. A pop is repeated when no connection could be made or when
// the broker answered 5xx or 429, and never after it may have taken effect: when no
// answer came, or one that says that a write has failed. net/http would silently repeat
// a GET on a kept connection that turned out to be closed; pops are built so that it
// cannot.
//
// # Life of a consumer
//
// Consume runs workers that long-poll, hand what they get to the handler and
// acknowledge what it returned: nil completes the messages, an error or a panic
// fails them with its text. While a handler runs its lease is extended; when the
// lease is lost all the same, the handler's context ends with ErrLeaseLost. When the
// context given to Consume ends, polls are aborted, handlers see their context end,
// and what they return is still acknowledged, with a deadline of its own. Messages
// that no handler has seen are given back at once and uncharged. Consume returns
// when its workers, and every goroutine they started, are gone.
package client
