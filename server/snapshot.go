package server

import (
	"errors"
	"io"
	"time"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/log/backup"
)

var tarType = []byte("application/x-tar")

// snapshot answers POST /api/v1/system/snapshot. It is about the whole broker, whoever owns
// what is in it.
func (r *request) snapshot() {
	r.abandonBody()
	s, err := r.broker.Snapshot()
	if err != nil {
		r.fail(err)
		return
	}
	notes := r.server.holdNotes()
	files := append(s.Files, notes.files...)
	body := &snapshotBody{server: r.server, conn: r.conn, snapshot: s, notes: notes, began: time.Now(), archive: backup.Archive{
		Version: r.server.opts.Version, Commit: r.server.opts.Commit, CreatedAt: s.At, Files: files, Proceed: s.Proceed,
	}}
	size, err := body.archive.Size()
	if err != nil {
		notes.release()
		s.Close()
		r.fail(err)
		return
	}
	r.server.log.Info().Int64("bytes", size).Int("files", len(files)).Msg("snapshot begins")
	response := &r.ctx.Response
	response.Header.SetContentTypeBytes(tarType)
	response.SetBodyStream(body, int(size))
}

// snapshotBody is an answer that is made while it is written. An error on the way closes the
// connection, so that the client sees its end missing.
type snapshotBody struct {
	archive  backup.Archive
	server   *Server
	conn     *conn
	snapshot *broker.Snapshot
	notes    *notes
	began    time.Time
	written  int64
	err      error
}

// WriteTo implements io.WriterTo, which fasthttp prefers.
func (b *snapshotBody) WriteTo(w io.Writer) (int64, error) {
	b.written, b.err = b.archive.WriteTo(&patientWriter{w, b.conn, b.server.opts.WriteTimeout})
	return b.written, b.err
}

// Read is never called.
func (b *snapshotBody) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Close ends the snapshot. fasthttp calls it once, also when nothing was written.
func (b *snapshotBody) Close() error {
	b.notes.release()
	b.snapshot.Close()
	b.server.log.Info().Err(b.err).Int64("bytes", b.written).Str("took", time.Since(b.began).Round(time.Millisecond).String()).Msg("snapshot ends")
	return nil
}

// patientWriter gives each piece the time that an answer has as a whole otherwise.
type patientWriter struct {
	w    io.Writer
	conn *conn
	time time.Duration
}

func (p *patientWriter) Write(b []byte) (int, error) {
	if err := p.conn.SetWriteDeadline(time.Now().Add(p.time)); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}
