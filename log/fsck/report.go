package fsck

import (
	"cmp"
	"slices"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // something answered is lost, or a broker would not start
	Warning Severity = "warning" // a broker makes it good by itself, at a price
	Note    Severity = "note"    // what a crash may leave, or a file that is not ours
)

// Finding is one thing that is not as it should be, or worth knowing.
type Finding struct {
	Severity  Severity `json:"severity"`
	Code      string   `json:"code"`            // what kind of thing; the texts may change, this does not
	File      string   `json:"file"`            // relative to the data directory
	Position  int64    `json:"position"`        // bytes from the start of the file
	Queue     string   `json:"queue,omitempty"` // where it is known
	Partition string   `json:"partition,omitempty"`
	Offsets   *Offsets `json:"offsets,omitempty"` // of the messages that it concerns
	Problem   string   `json:"problem"`
	Meaning   string   `json:"meaning"`
	Action    string   `json:"action"`
}

// Offsets is a range of messages of a partition, half open.
type Offsets struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// The codes of findings.
const (
	CatalogueDamaged  = "catalogue_damaged"
	CatalogueMissing  = "catalogue_missing"
	OffsetsDamaged    = "offsets_damaged"
	OffsetsMissing    = "offsets_missing"
	JournalDamaged    = "journal_damaged"
	JournalMissing    = "journal_missing"
	SegmentMissing    = "segment_missing"
	SegmentShort      = "segment_short"
	SegmentHeader     = "segment_header"
	SegmentForeign    = "segment_foreign"
	SegmentUnreadable = "segment_unreadable"
	BatchDamaged      = "batch_damaged"
	IndexDamaged      = "index_damaged"
	ChainBroken       = "chain_broken"
	CursorInvalid     = "cursor_invalid"
	DeadLetterInvalid = "dead_letter_invalid"
	DedupDamaged      = "dedup_damaged"
	DedupMissing      = "dedup_missing"
	IDsMissing        = "ids_missing"
	TornTail          = "torn_tail"
	Leftover          = "leftover"
	UnknownFile       = "unknown_file"
)

// explained says of each code how bad it is, what it means and what to do.
var explained = map[string]struct {
	severity        Severity
	meaning, action string
}{
	CatalogueDamaged:  {Error, "the catalogue says what lies where; the broker does not start", "restore the whole directory from a backup"},
	CatalogueMissing:  {Error, "there is data and no catalogue that describes it; the broker does not start", "restore the whole directory from a backup"},
	OffsetsDamaged:    {Error, "the places of consumer groups cannot be read; the broker does not start", "restore the whole directory from a backup"},
	OffsetsMissing:    {Error, "the places of consumer groups are gone; the broker does not start", "restore the whole directory from a backup"},
	JournalDamaged:    {Error, "the newest messages and acks cannot be read from here on; the broker does not start", "restore a backup, or let skep repair cut the journal here"},
	JournalMissing:    {Error, "a part of the newest messages and acks is gone; the broker does not start", "restore a backup, or let skep repair go on without what follows"},
	SegmentMissing:    {Error, "the messages in it are lost; their partitions are out of service", "restore a backup, or let skep repair mark them as lost"},
	SegmentShort:      {Error, "the messages at its end are lost; their partitions are out of service", "restore a backup, or let skep repair mark them as lost"},
	SegmentHeader:     {Error, "the file cannot be opened; its partitions are out of service", "let skep repair write the header again: the catalogue knows it"},
	SegmentForeign:    {Error, "the file is that of another segment; partitions are out of service", "give it back its name, or let skep repair do so"},
	SegmentUnreadable: {Error, "messages and their index are damaged together; their partitions are out of service", "restore a backup, or let skep repair mark the messages as lost"},
	BatchDamaged:      {Error, "these messages are lost; the partition is out of service", "restore a backup, or let skep repair mark them as lost"},
	IndexDamaged:      {Error, "the messages are there and cannot be found; their partitions are out of service", "let skep repair build the index again from the messages"},
	ChainBroken:       {Error, "messages of the partition cannot be found from here on; it is out of service", "let skep repair join what is left; what cannot be found is marked as lost"},
	CursorInvalid:     {Error, "a consumer group stands where there is no message", "restore a backup, or seek the group"},
	DeadLetterInvalid: {Error, "the payload of a dead letter is lost", "restore a backup, or delete the dead letter"},
	DedupDamaged:      {Warning, "the next start reads the ids from the messages again, which takes longer", "nothing, or let skep repair drop it"},
	DedupMissing:      {Note, "the next start makes it from the messages", "nothing"},
	IDsMissing:        {Warning, "the message pushed again would be stored again", "let skep repair drop the index: the next start makes it from the messages"},
	TornTail:          {Note, "the end of a write that was never answered", "nothing: the next start cuts it"},
	Leftover:          {Note, "left by a checkpoint or a rewrite that did not end", "nothing: the next start removes it"},
	UnknownFile:       {Note, "not a file of the broker, or kept by an earlier repair", "nothing: it is never read"},
}

// Summary counts what was found to be there.
type Summary struct {
	Queues       int   `json:"queues"`
	Partitions   int   `json:"partitions"`
	Groups       int   `json:"groups"`
	Messages     int64 `json:"messages"` // kept by all partitions, in segments and in the journal
	Lost         int64 `json:"lost"`     // of these, marked as lost by a repair
	Cursors      int   `json:"cursors"`
	DeadLetters  int   `json:"deadLetters"`
	IDs          int64 `json:"ids"`
	Segments     int   `json:"segments"`
	SegmentBytes int64 `json:"segmentBytes"`
	Extents      int64 `json:"extents"`
	Batches      int64 `json:"batches"` // in segments
	Generations  int   `json:"generations"`
	JournalBytes int64 `json:"journalBytes"`
	Bytes        int64 `json:"bytes"` // read
}

// Report is the result of Verify.
type Report struct {
	Dir      string    `json:"dir"`
	Clean    bool      `json:"clean"` // no errors and no warnings
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Notes    int       `json:"notes"`
	Summary  Summary   `json:"summary"`
	Findings []Finding `json:"findings"` // errors first
	Omitted  int       `json:"omitted"`  // findings beyond the first thousand of their code
}

// maxFindings is how many of one code are told one by one.
const maxFindings = 1000

// finish sorts the findings and counts them.
func (r *Report) finish() {
	rank := map[Severity]int{Error: 0, Warning: 1, Note: 2}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank[a.Severity], rank[b.Severity]), cmp.Compare(a.File, b.File),
			cmp.Compare(a.Position, b.Position))
	})
	r.Clean = r.Errors == 0 && r.Warnings == 0
}
