package segment

import (
	"fmt"
	"strconv"
)

const (
	nameSuffix = ".seg"
	nameLen    = 8 + len(nameSuffix)
)

// FileName is the name of the segment file with this id, without its directory:
// eight hexadecimal digits and ".seg", so that names sort as ids do.
func FileName(id uint32) string { return fmt.Sprintf("%08x%s", id, nameSuffix) }

// ParseFileName is the reverse of FileName. ok is false for any other name.
func ParseFileName(name string) (id uint32, ok bool) {
	if len(name) != nameLen {
		return 0, false
	}
	n, err := strconv.ParseUint(name[:8], 16, 32)
	id = uint32(n)
	return id, err == nil && FileName(id) == name
}
