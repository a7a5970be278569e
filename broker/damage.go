package broker

import (
	"errors"
	"path/filepath"
	"sync"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment"
)

// Damage says where a partition was found damaged. Its File is below the data directory.
type Damage struct {
	File     string
	Position int64 // in bytes, of what fails its checksum
}

// damages lists the partitions that are out of service. It is kept as they are found, so
// that what is not damaged costs nothing.
type damages struct {
	mu      sync.Mutex
	byQueue map[*queue]map[*partition]Damage
	total   int
}

func (d *damages) note(p *partition, at Damage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byQueue == nil {
		d.byQueue = map[*queue]map[*partition]Damage{}
	}
	if d.byQueue[p.queue] == nil {
		d.byQueue[p.queue] = map[*partition]Damage{}
	}
	d.byQueue[p.queue][p] = at
	d.total++
}

// clear takes off the list a partition that was on it.
func (d *damages) clear(p *partition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.byQueue[p.queue][p]; ok {
		delete(d.byQueue[p.queue], p)
		d.total--
	}
}

// forget takes off the list the partitions of a deleted queue.
func (d *damages) forget(q *queue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total -= len(d.byQueue[q])
	delete(d.byQueue, q)
}

// of returns where p is damaged, nil if it is not.
func (d *damages) of(p *partition) *Damage {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ok := d.byQueue[p.queue][p]; ok {
		return &at
	}
	return nil
}

// in returns how many partitions of a queue are damaged.
func (d *damages) in(q *queue) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.byQueue[q])
}

func (d *damages) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

// DamagedPartitions returns how many partitions are out of service because a batch or an
// index failed its checksum, those that hold dead letters included.
func (b *Broker) DamagedPartitions() int { return b.damages.count() }

// damageLocked takes p out of service if err is a failed checksum.
func (b *Broker) damageLocked(p *partition, err error) error {
	var corrupt *segment.CorruptError
	if !errors.As(err, &corrupt) && !errors.Is(err, segment.ErrCorrupt) {
		return err
	}
	if !p.damaged && !p.goneLocked() {
		p.damaged = true
		var at Damage
		if corrupt != nil {
			at = Damage{corrupt.Path, corrupt.Position}
			if file, relErr := filepath.Rel(b.o.Dir, at.File); relErr == nil {
				at.File = filepath.ToSlash(file)
			}
		}
		b.damages.note(p, at)
		b.outlived(zerolog.ErrorLevel, err).Str("queue", p.queue.name).Str("partition", p.name).Msg("partition damaged, out of service")
	}
	return errors.Join(ErrPartitionDamaged, err)
}

// mendLocked puts p back into service: what was damaged is gone.
func (b *Broker) mendLocked(p *partition) {
	if p.damaged {
		p.damaged = false
		b.damages.clear(p)
	}
}
