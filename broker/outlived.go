package broker

import "github.com/rs/zerolog"

// outlived counts an error of the store that the broker goes on after, and begins the line of
// log that tells of it. A failed write of the journal is none: nothing goes on after that.
func (b *Broker) outlived(level zerolog.Level, err error) *zerolog.Event {
	b.traffic.counters[StorageErrors].Add(1)
	return b.log.WithLevel(level).Err(err)
}

// refused counts an error of the store that a request is told of, and nobody else.
func (b *Broker) refused(err error) error {
	b.traffic.counters[StorageErrors].Add(1)
	return err
}
