package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/skepmq/skep/broker/envelope"
	"github.com/skepmq/skep/cmd/skep/config"
)

var errTwoKeys = errors.New("QUEEN_ENCRYPTION_KEY and SKEP_ENCRYPTION_KEY_FILE (--encryption-key-file) exclude each other")

// loadKeys gives the broker the keys that payloads are encrypted and decrypted with, if there
// are any. No error shows one.
func loadKeys(c *config.Config) error {
	switch {
	case c.EncryptionKey != nil && c.EncryptionKeyFile != "":
		return errTwoKeys
	case c.EncryptionKey != nil:
		c.Broker.Keys = envelope.New(*c.EncryptionKey)
	case c.EncryptionKeyFile != "":
		text, err := os.ReadFile(c.EncryptionKeyFile)
		if err != nil {
			return fmt.Errorf("SKEP_ENCRYPTION_KEY_FILE (--encryption-key-file): %w", err)
		}
		keys, err := envelope.ParseKeys(string(text))
		if err != nil {
			return fmt.Errorf("SKEP_ENCRYPTION_KEY_FILE (--encryption-key-file) %s: %w", c.EncryptionKeyFile, err)
		}
		c.Broker.Keys = envelope.New(keys[0], keys[1:]...)
	}
	return nil
}
