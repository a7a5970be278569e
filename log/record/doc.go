// Package record is the codec of facts: what the commit journal and the home logs
// hold. The broker decides under its locks; a record says what was decided, with
// every id, offset and timestamp in it, so applying one never decides again.
//
// A fact is a frame: a kind, a length and a body. Several frames stand one behind the
// other in one entry of a log, and the entry is the unit that is whole or absent: a
// transaction is one entry. Frames carry no checksum of their own: the entry has one
// (log/wal), and so has the batch inside a KindBatch frame (segment).
//
// # Design
//
// Applying is idempotent. A batch says its base offset, so a home that holds it
// already is told by a comparison; every other record is the whole new state of its
// key, so the last one wins, and replaying an old one is mended by the newer one that
// must follow it in the same journal.
//
// Integers are little-endian. A string is a uvarint length and its bytes. A changed
// body takes a new kind; kinds are never reused.
package record
