package dedup

import (
	"github.com/google/uuid"

	"github.com/skepmq/skep/segment"
)

// Key returns what the index knows a message by; nil: nothing. That is its transaction id,
// if the producer has chosen it. A minted one tells the offset by itself, unless it was
// announced before its message was stored: then it is here, as text, like any other.
func Key(m *segment.Message) []byte {
	if m.TransactionID == nil && m.ID != (uuid.UUID{}) {
		return []byte(uuid.UUID(m.ID).String())
	}
	return m.TransactionID
}
