// Package backup is the form of a backup: how it is written, read, checked and restored.
//
// A backup is a copy of a data directory as it was at one moment, and a manifest that says
// what there is of it, with checksums. Its life: a broker's snapshot lists files and lengths;
// Archive writes them as one tar, hashing as it goes, the manifest last; Read takes the tar
// apart and believes nothing that the manifest does not bear out. Save keeps it in a
// directory, Restore makes a data directory of either.
//
// # Format
//
// A tar of regular files in the form of POSIX.1-1988 (of GNU from 8 GiB on), with the names that they have in the
// data directory. The last one is MANIFEST.json:
//
//	{"format": 1, "version": …, "commit": …, "createdAt": …,
//	 "files": [{"name": "catalog/…/…", "size": 4096, "sha256": "…"}, …]}
//
// The manifest is also the mark of the end: a stream that was cut has none. As a directory a
// backup is the same files, the manifest written last. Another form takes another format
// number; an older one stays readable.
//
// # Crashes
//
// A directory gets its journal first, and its catalogue under a name that no broker takes for
// one: a journal without a catalogue is refused, not taken for a new directory. When everything is
// on disk the catalogue gets its name, in one step. So a restore that was cut off is refused
// by a broker, and a saved backup that was cut off has no manifest, or not what it lists.
package backup
