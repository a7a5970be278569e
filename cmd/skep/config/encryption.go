package config

import "github.com/skepmq/skep/broker/envelope"

// encryptionSettings is the part of the table that is about payloads on disk.
func encryptionSettings() []setting {
	return []setting{
		{name: "QUEEN_ENCRYPTION_KEY", secret: true, meaning: "key that [encrypts](security.md#encryption-at-rest) the payloads of queues with `encryptionEnabled`",
			kind: words("64 hexadecimal digits", (*Config).setEncryptionKey)},
		{name: "SKEP_ENCRYPTION_KEY_FILE", flag: "encryption-key-file", absent: "none", meaning: "a file whose first line is the key that encrypts payloads, instead of `QUEEN_ENCRYPTION_KEY`. Further lines are keys that were in use before, and decrypt",
			kind: words("a file", func(c *Config, v string) error { c.EncryptionKeyFile = v; return nil })},
		{name: "SKEP_ENCRYPTION_REQUIRED", value: "false", meaning: "whether pushes to queues with `encryptionEnabled` are refused while there is no key. Else they are stored as they are",
			kind: boolean(func(c *Config, on bool) { c.Broker.EncryptionRequired = on })},
	}
}

func (c *Config) setEncryptionKey(v string) error {
	key, err := envelope.ParseKey(v)
	c.EncryptionKey = &key
	return err
}
