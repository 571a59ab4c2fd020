package changelog

import (
	"encoding/json"
	"time"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Changelog is one topic that is kept in a table.
type Changelog struct {
	ID      string // UUID
	Name    string
	Lake    sluice.Org // whose lake has the table
	Table   lake.Table
	Cluster string // a key of kafka.clusters, or default
	Topic   string
	TopicID string
	Slots   int
	Desired string // run, pause
	Status  string // starting, running, paused, halted: for display
	Halt    *Halt
	Def     Definition
	Values  *Values // the list of include_values, as last accepted
	Created time.Time
	Updated time.Time
}

// Halt is why a changelog stands until a person resumes it.
type Halt struct {
	Code   sluice.Code
	Detail string
	At     time.Time
}

// What an operator wants.
const (
	Run   = "run"
	Pause = "pause"
)

// Statuses.
const (
	StatusStarting = "starting"
	StatusRunning  = "running"
	StatusPaused   = "paused"
	StatusHalted   = "halted"
)

// commitInfo is what the commit message of a flush says.
type commitInfo struct {
	ChangelogID   string     `json:"changelog_id"`
	Slot          int        `json:"slot"`
	Seq           int64      `json:"seq"`
	Ranges        [][3]int64 `json:"ranges,omitempty"` // partition, from, below
	FilterVersion int64      `json:"filter_version,omitempty"`
}

func (i commitInfo) text() string {
	out, _ := json.Marshal(i) // numbers and text always can be written
	return string(out)
}
