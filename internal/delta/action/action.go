package action

import "strconv"

// Add says that a file is part of the table.
type Add struct {
	Path            string // as written: percent-encoded, relative to the table or absolute
	PartitionValues []PartitionValue
	Size            int64
	NumRecords      int64 // physical rows by the statistics, Unknown without usable ones
	DV              *DeletionVector
	BaseRowID       *int64
}

// Unknown stands for a count that nobody wrote down.
const Unknown = -1

// PartitionValue is one entry of partitionValues.
type PartitionValue struct {
	Key   string
	Value string
	Null  bool
}

// Remove says that a file, with the deletion vector named, is no longer part of the table.
type Remove struct {
	Path string
	DV   *DeletionVector
}

// DeletionVector says where the deleted rows of a file are written.
type DeletionVector struct {
	Storage     string `json:"storage"` // u: beside the table's files, p: an absolute URI, i: inline
	Path        string `json:"path"`    // pathOrInlineDv
	Offset      *int64 `json:"offset"`
	Size        int64  `json:"size"`
	Cardinality int64  `json:"cardinality"`
}

// ID is the deletion vector's part in the key of a file; empty without one.
func (d *DeletionVector) ID() string {
	switch {
	case d == nil:
		return ""
	case d.Offset == nil:
		return d.Storage + d.Path
	}
	return d.Storage + d.Path + "@" + strconv.FormatInt(*d.Offset, 10)
}

// Protocol says what a reader must understand.
type Protocol struct {
	MinReader         int64
	MinWriter         int64
	ReaderFeatures    []string
	HasReaderFeatures bool // also of an empty list
}

// Metadata is the table's identity, schema and settings.
type Metadata struct {
	ID               string
	Provider         string
	Schema           string // JSON; empty if there is none
	PartitionColumns []string
	Configuration    map[string]string
}

// CommitInfo is what a commit says about itself.
type CommitInfo struct {
	InCommitTimestamp int64 // milliseconds since 1970, Unknown without one
	Batches           []Batch
	Ignored           int // batch names that could not be used
}

// Batch is a producer's name for what a commit holds.
type Batch struct {
	RunID string `json:"run_id"`
	Index int64  `json:"batch_index"`
}

// Sidecar is a file with a part of a checkpoint's actions.
type Sidecar struct {
	Path string
	Size int64
}

// Sink takes actions. A nil function skips its kind, without decoding it. The PartitionValues of
// an Add are those of the next one after the function has returned; all else is its own to keep.
type Sink struct {
	Add        func(Add) error
	Remove     func(Remove) error
	Protocol   func(Protocol) error
	Metadata   func(Metadata) error
	CommitInfo func(CommitInfo) error
	Sidecar    func(Sidecar) error
	V2         func() error // checkpointMetadata: the checkpoint is of the second form
}
