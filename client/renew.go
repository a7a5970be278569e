package client

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

const (
	// defaultLease is the lease of a queue that nobody configured.
	defaultLease = 60 * time.Second
	// maxRenewal is the longest time between two renewals, however long the lease.
	maxRenewal = 20 * time.Second
	// probeDelay is how long a handler runs before its consumer asks how long the
	// queue's leases are. Most handlers are faster, and never cost that request.
	probeDelay = 500 * time.Millisecond
)

// leaseClock knows how long a lease of this consumer lasts. The pop's answer does not
// tell, so the first renewal finds out. Safe for concurrent use.
type leaseClock struct{ length atomic.Int64 }

func (l *leaseClock) set(d time.Duration) { l.length.Store(int64(d)) }

func (l *leaseClock) known() time.Duration { return time.Duration(l.length.Load()) }

// renew extends the lease until the returned function is called, which returns when the
// renewal is over. It goes on after ctx has
// ended: the handler may still be finishing. lost is called with ErrLeaseLost.
func (c *consumer) renew(ctx context.Context, leaseID string, lost context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		if errors.Is(c.keep(ctx, leaseID), ErrLeaseLost) {
			lost(ErrLeaseLost)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// keep extends the lease whenever half of it has passed. It returns when ctx ends, the
// lease is lost or the broker refuses for good.
func (c *consumer) keep(ctx context.Context, leaseID string) error {
	received := time.Now()
	if c.leases.known() == 0 {
		if err := c.c.sleep(ctx, probeDelay); err != nil {
			return err
		}
		if err := c.probe(ctx, leaseID, received); err != nil {
			return err
		}
	}
	for {
		length := c.leases.known()
		if err := c.c.sleep(ctx, min(length/2, maxRenewal)); err != nil {
			return err
		}
		// Another error than these two is the network's: the lease may yet outlast it.
		if _, err := c.c.ExtendLease(ctx, leaseID, length); errors.Is(err, ErrLeaseLost) || permanent(err) {
			return err
		}
	}
}

// probe learns the length of leases. An extension never shortens, so extending by a
// second tells when the lease ends. When it began there are two answers: received,
// by our clock, which may be wrong; and the time in the lease id, a UUIDv7, by the
// broker's clock, which is too early if the id was minted before a long poll parked.
// The shorter length is taken: too short only costs requests.
func (c *consumer) probe(ctx context.Context, leaseID string, received time.Time) error {
	lease, err := c.c.ExtendLease(ctx, leaseID, time.Second)
	if errors.Is(err, ErrLeaseLost) || ctx.Err() != nil {
		return err
	}
	length := defaultLease
	if err == nil {
		length = leaseLength(lease.ExpiresAt, leaseID, received)
	}
	c.leases.set(length)
	return nil
}

func leaseLength(expires time.Time, leaseID string, received time.Time) time.Duration {
	length := time.Duration(math.MaxInt64)
	if d := expires.Sub(received).Round(time.Second); d >= time.Second {
		length = d
	}
	if granted, ok := mintedAt(leaseID); ok {
		if d := expires.Sub(granted).Round(time.Second); d >= time.Second {
			length = min(length, d)
		}
	}
	if length == math.MaxInt64 {
		return defaultLease
	}
	return length
}

// mintedAt is the time in a UUIDv7.
func mintedAt(id string) (time.Time, bool) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 {
		return time.Time{}, false
	}
	ms := binary.BigEndian.Uint64(u[:8]) >> 16
	return time.UnixMilli(int64(ms)), true
}
