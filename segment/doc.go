// Package segment holds the form in which messages lie on disk, and the files
// they lie in.
//
// A batch is what one push adds to one partition. It is encoded once, before its
// place is known: AppendMessage builds the body, AppendBatch compresses it if that
// pays and puts a header in front. Under the partition's lock Seal writes the
// partition, the base offset, the time and the base id into that header. From then
// on the bytes never change: they go to the commit journal, stay in memory as the
// tail, and at a checkpoint are copied as they are into a segment file. A reader
// checks them with Verify, unpacks them with Body and steps with NextMessage.
//
// A segment file starts with a FileHeader. Create or OpenWriter gives the one
// Writer that extends it, from a length the caller knows to be valid; whatever a
// crash left behind that length is cut. Any number of goroutines read it through a
// Reader, and Scan walks its batches from front to back with nothing but the
// batches to go by. What else lies in a segment, an index behind each run of
// batches, is the business of package index. All these records carry Magic and a
// kind at the same two places, so a walk always knows what it stands before.
//
// # Design
//
// Two checksums a batch. The header's is made anew by Seal, which runs under a
// lock and so must not touch the body; the body's is made once, where the body is
// encoded. A single one over both would cost a pass over the body under the lock.
//
// Compression is s2, a batch at a time, and is kept only if it saves an eighth:
// below that, each later read pays for unpacking and gains nothing. See
// compressMin for the size from which it is tried.
package segment
