package broker

import "time"

const (
	spaceInterval = 500 * time.Millisecond
	// enoughFree is never called full, whatever the percentage: on a large disk the
	// last 15 % are more than a broker needs to stay safe.
	enoughFree = 8 << 30
)

// watchSpace is the goroutine that knows how full the disk is.
func (b *Broker) watchSpace() {
	tick := time.NewTicker(spaceInterval)
	defer tick.Stop()
	for {
		select {
		case <-b.closeC:
			return
		case <-tick.C:
			b.checkSpace()
		}
	}
}

// checkSpace refuses pushes from the high-water mark on, so that acknowledgements,
// deletes and the checkpoint still have room, and takes them again one percent below it.
func (b *Broker) checkSpace() {
	free, total, err := b.o.FS.Free(b.o.Dir)
	if err != nil || total <= 0 {
		b.log.Warn().Err(err).Str("path", b.o.Dir).Msg("free disk space unknown")
		return
	}
	was := b.full.Load()
	high := int64(b.o.DiskHighPercent)
	if was {
		high--
	}
	full := free < enoughFree && (total-free)*100 >= total*high
	if full == was {
		return
	}
	b.full.Store(full)
	event := b.log.Warn()
	if !full {
		event = b.log.Info()
	}
	event.Bool("full", full).Int64("free_bytes", free).Int64("total_bytes", total).
		Int("high_percent", b.o.DiskHighPercent).Str("path", b.o.Dir).Msg("disk space")
}
