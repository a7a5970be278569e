package fsck

import (
	"errors"
	"syscall"
)

// readOnly reports that a lock could not be taken because nobody may write there.
func readOnly(err error) bool { return errors.Is(err, syscall.EROFS) }
