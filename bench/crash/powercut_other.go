//go:build !linux

package main

// openPowerStore says that only Linux can do this.
func openPowerStore(string) (s store, why string, err error) {
	return nil, "not Linux", nil
}
