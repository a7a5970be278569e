// Package rig is what the fault tests run brokers on: processes that are started, killed
// and asked, and file systems of their own whose power can be cut.
//
//   - Brokers starts lives of one broker, a Process each, all with one log file.
//   - Disk is a file system on a loop device. Where a machine cannot have one, OpenDisk
//     says what it lacks, as a Lacking, and the test is skipped.
//   - Verify has the broker check a data directory that nobody serves, if it can.
package rig
