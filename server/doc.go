// Package server is the HTTP face of the broker: it turns requests into calls of
// package broker and the outcomes into the bytes that clients expect. It decides
// nothing about messages.
//
// # The life of a request
//
//   - The listener wraps each connection (listener.go, conn.go), so that a parked request can ask
//     whether its client is still there, and a lease whose answer could not be written
//     goes back to the broker at once.
//   - fasthttp reads the header and at most 8 KiB of the body. What two programs could
//     read in two ways is refused (framing.go). A larger body is streamed: memory for it
//     is taken as bytes arrive, never as they are announced, out of one budget for the
//     whole process (body.go, budget.go), and then for what it is decoded to (room.go).
//   - route finds the handler (routes.go): the raw path is split at '/', and each
//     parameter is percent-decoded once, afterwards.
//   - The handler decodes with package codec, calls the broker and appends its answer to
//     a pooled buffer (request.go). The buffer is lent to the connection and comes back
//     when the answer has been written, so that an idle or parked connection holds none.
//   - A refusal of the broker becomes a status in errors.go and nowhere else.
//
// # Borrowed memory
//
// What fasthttp hands out, and the pooled buffers here, are overwritten by the next
// request. Strings that outlive the handler are copied: names given to Pop, Configure
// and the resource routes. Push and Acknowledge get borrowed bytes and copy what they
// keep.
//
// # Memory
//
// A parked poll costs about 19 KB, measured on Linux with a thousand of them: 8 KiB
// for the reader, 1 KiB for the writer, 4 KiB of stack and 5 KB of objects, kernel
// buffers not counted. TestParkedMemory keeps it so. The collector may hold garbage of
// the same size on top.
//
// Bodies with what they are decoded to, answers and lists are bounded for the process as a
// whole. At a bound a request waits, or is refused before it has changed anything; small
// ones are not counted and go on. docs/operations.md adds it all up.
//
// # Goroutines
//
// Serve starts one, which ends the minutes of the metrics, folds old ones and removes old traces
// (minutes.go), and, unless Options.LogRatesEvery is 0, one that logs what goes through
// (rates.go); it waits for both. fasthttp runs one per connection; Shutdown returns when they
// are gone, or closes their connections when its context ends.
//
// # Snapshots
//
// A snapshot is written while it is read from disk (snapshot.go), 256 KiB at a time, by the
// goroutine of its connection, which has WriteTimeout for each of these pieces instead of for
// the answer. There is one at a time. An error closes the connection: the status has been sent.
// The files of metrics and traces are held for it, and nothing about them is such an error
// (snapshotnotes.go).
//
// # Metrics
//
// What passes is counted by the broker (broker/traffic.go) and here (requests.go), in
// atomics that are found by number. Each scrape reads them (prometheus.go). At the end of every
// minute their growth goes to package history, on disk, with the totals that the next process
// begins from. Series are made of these minutes (series.go) by whoever asks for them.
//
// # Tenants
//
// Whose queues a request is about is found before its handler runs (tenant.go): the default
// tenant's, unless Options.TenancyHeader is set and the header names another. What is about the
// whole broker does not read the header.
//
// # Traces
//
// What consumers note about messages does not go to the broker but to package trace, beside it
// in the data directory (traces.go).
//
// # The document
//
// Package openapi describes every route. The tests compare every answer with it that they get.
package server
