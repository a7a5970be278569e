// Command skep is the broker and its command line.
//
// serve runs a broker. push and consume move messages between a broker and the
// standard streams, for scripts and for people; they use the same client as any Go
// program. backup copies the state of a running broker, and restore makes a data directory of
// such a copy. verify checks the data directory of a stopped broker, and repair repairs it.
// config prints what serve is configured with, health asks whether it is healthy, and
// version tells what was built.
//
// Results go to standard output and nothing else does. Errors, one summary line and,
// on a terminal, a progress line go to standard error. The exit status is 0 when
// everything asked for was done, 1 when not, and 2 when the command line was wrong. verify
// and repair exit with 1 when the directory is not in order, and with 2 when they could not
// look.
package main
