package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const (
	spaceInterval = 500 * time.Millisecond
	// enoughFree is never called full by the percentage: on a large disk the last 15 %
	// are more than a broker needs to stay safe.
	enoughFree = 8 << 30
	// minReserve and maxReserve bound what is kept free for everything but pushes:
	// acknowledgements, deletes, and the checkpoints that make room again.
	minReserve = 8 << 20
	maxReserve = 256 << 20
)

// space knows how much more may be pushed. A push is refused before the disk is full, so
// that no write fails: a failed write ends the broker.
type space struct {
	full atomic.Bool
	// mark is what had been written at the latest look, room how much more may be before
	// the next.
	mark, room atomic.Int64
	// beside is what others have written to the disk, see TakeSpace.
	beside atomic.Int64
	// free and total are bytes of the disk at that look.
	free, total atomic.Int64

	mu sync.Mutex // one look at a time
}

// watchSpace is the goroutine that looks at the disk while nobody pushes, and at memory.
func (b *Broker) watchSpace() {
	tick := time.NewTicker(spaceInterval)
	defer tick.Stop()
	for {
		select {
		case <-b.closeC:
			return
		case <-tick.C:
			b.checkSpace()
			b.checkMemory()
		}
	}
}

// hasSpace reports whether a push may grow storage. It looks at the disk only when what
// was pushed since the latest look may have used up what was free then.
func (b *Broker) hasSpace() bool {
	s := &b.space
	if !s.full.Load() && b.written()-s.mark.Load() > s.room.Load() {
		b.checkSpace()
	}
	return !s.full.Load()
}

// written is what has been written to the disk: it only grows.
func (b *Broker) written() int64 { return b.journal.Appended() + b.space.beside.Load() }

// TakeSpace is asked before something that is not the broker's writes n bytes to its disk.
// ErrStorageFull says that they are too much: the rest is for what must not fail.
func (b *Broker) TakeSpace(n int64) error {
	b.space.beside.Add(n)
	if !b.hasSpace() {
		return ErrStorageFull
	}
	return nil
}

// checkSpace looks at the disk. Pushes are refused from the high-water mark on, or when
// what is left would not do for the reserve and for filing what the journal holds; they
// are taken again a little below that.
func (b *Broker) checkSpace() {
	s := &b.space
	s.mu.Lock()
	defer s.mu.Unlock()
	mark, unfiled := b.written(), b.journal.Unfiled()
	free, total, err := b.o.FS.Free(b.o.Dir)
	if err != nil || total <= 0 {
		b.outlived(zerolog.WarnLevel, err).Str("path", b.o.Dir).Msg("free disk space unknown")
		return
	}
	s.free.Store(free)
	s.total.Store(total)
	was := s.full.Load()
	high, spare := int64(b.o.DiskHighPercent), int64(0)
	if was {
		high--
		spare = reserveOf(total) / 4
	}
	room := roomLeft(free, total, unfiled)
	tight := room <= spare
	full := tight || isHigh(free, total, high)
	s.mark.Store(mark)
	s.room.Store(room)
	s.full.Store(full)
	if tight && unfiled > spare {
		b.poke() // filing gives the journal's bytes back
	}
	if full == was {
		return
	}
	event := b.log.Warn()
	if !full {
		event = b.log.Info()
	}
	event.Bool("full", full).Int64("free_bytes", free).Int64("total_bytes", total).Int64("unfiled_bytes", unfiled).
		Int("high_percent", b.o.DiskHighPercent).Str("path", b.o.Dir).Msg("disk space")
}

func reserveOf(total int64) int64 { return max(minReserve, min(total/16, maxReserve)) }

// roomLeft is how much more may be pushed. That is written twice: to the journal, and to a
// segment before the journal lets go of it.
func roomLeft(free, total, unfiled int64) int64 {
	return (free - unfiled - reserveOf(total)) / 2
}

// isHigh reports whether a disk is used up to a percentage.
func isHigh(free, total, percent int64) bool {
	return free < enoughFree && (total-free)*100 >= total*percent
}
