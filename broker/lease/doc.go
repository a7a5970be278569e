// Package lease holds the two structures in memory that leases need beside the
// cursor they belong to: a timing wheel that says what is due, and a table that
// finds the cursors a lease id stands for. A [Heap], which the wheel needs, serves
// retention as well.
//
// Their life, in order: a pop grants a lease, puts its deadline on the [Wheel] and
// its id into the [Table]. Renewing moves the deadline in the cursor alone; the
// entry on the wheel stays where it is and, when it fires early, is put back for
// the later time. An acknowledgement looks the id up in the table, and whoever
// ends the lease removes it there; the entry on the wheel is left to fire and is
// then ignored. Nothing here is written to disk: after a restart the broker grants
// again from the deadlines it has recorded.
//
// There is no goroutine and no clock in this package. The owner asks [Wheel.Next]
// how long it may sleep and tells [Wheel.Advance] what time it is, so a test moves
// through a day of leases without waiting for any of it.
package lease
