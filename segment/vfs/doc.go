// Package vfs is the file system below everything Skep writes to disk.
//
// Code that writes files takes an FS and never calls package os, so that a test can
// put faultfs underneath, fail the n-th call, cut the power and look at what is left.
// OS is the real thing and what a nil FS in an Options stands for.
//
// A file lives like this: [MakeDir] makes the directory; Create makes the file;
// WriteAt fills it; Sync puts the bytes on the disk; SyncDir puts the file's *name* on
// the disk. Until both syncs have returned nil a power cut may take the file away. A
// rename and a removal likewise last only after SyncDir.
//
// A failed Sync is final. The kernel may have dropped the dirty pages and answers nil
// to the next call, so a writer that sees an error stops writing that file for good.
package vfs
