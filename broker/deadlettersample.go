package broker

import "errors"

// DeadLetterSample is the newest dead letters of a queue.
type DeadLetterSample struct {
	Letters []DeadLetter // newest first, without payloads
	All     int64        // how many the queue has
	// Payloads is how many of their payloads were read, and PayloadBytes how long these are.
	Payloads, PayloadBytes int64
}

// SampleDeadLetters describes the newest dead letters of a queue, at most limit of them.
// Payloads are read until they exceed Options.MaxAnswerBytes; those of the rest are not, nor
// are damaged ones.
func (b *Broker) SampleDeadLetters(t Tenant, queueName string, limit int) (s DeadLetterSample, err error) {
	q := b.queue(t, queueName)
	if q == nil {
		return s, ErrQueueNotFound
	}
	s.All = q.dead.count()
	for _, d := range newLetterWalk(q, letterMatch{}).take(min(limit, maxDeadLetterPage)) {
		l := b.describe(q, &d.DeadLetter)
		if s.PayloadBytes < b.o.MaxAnswerBytes {
			switch ok, err := b.loadPayload(&l); {
			case errors.Is(err, ErrPartitionDamaged):
			case err != nil:
				return DeadLetterSample{}, err
			case !ok:
				continue // deleted with its queue, just now
			default:
				s.Payloads++
				s.PayloadBytes += int64(len(l.Payload))
			}
		}
		l.Payload, l.ProducerSub = nil, nil
		s.Letters = append(s.Letters, l)
	}
	return s, nil
}
