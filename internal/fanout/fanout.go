package fanout

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// SourceKind says how a source table changes.
type SourceKind string

// The kinds of sources.
const (
	SourceChangelog SourceKind = "changelog" // rows are only ever inserted
	SourceTable     SourceKind = "table"     // rows are updated and deleted, too
)

// Mode says what a destination's table holds.
type Mode string

// The modes.
const (
	CurrentState Mode = "current_state" // one row per key, the newest version
	AppendOnly   Mode = "append_only"   // every row of the source
)

// What an operator wants.
const (
	Run   = "run"
	Pause = "pause"
)

// Fanout is one source with its destinations.
type Fanout struct {
	ID      string // UUID
	Name    string
	Lake    sluice.Org // whose lake has the source
	Source  lake.Table
	Def     Definition
	Shards  int
	Desired string // run, pause
	Halt    *Halt  // why the whole fan-out stands; nil: it does not
	Created time.Time
	Updated time.Time
}

// Halt is why something stands until a person acts.
type Halt struct {
	Code   sluice.Code
	Detail string
	At     time.Time
}

// Destination is one team's table in one org's lake.
type Destination struct {
	ID      string // UUID, the same in every process
	Fanout  string
	Org     sluice.Org
	Team    sluice.TeamID
	Route   string // the value of the route column whose rows are its own
	Origin  Origin
	Target  lake.Table // bound when the destination is first seen, never changed by itself
	State   State
	Before  State // what a destination that waits or is paused goes back to
	Code    sluice.Code
	Detail  string
	Since   *time.Time // of the failure
	Tries   int
	RetryAt *time.Time

	MissingPolls int
	// Cursor is a copy of the lake's, for display; Empty says how far it is known that there is nothing behind it.
	Cursor     int64
	Empty      Empty
	Pinned     int64 // snapshot of the source that must not expire; 0: none
	Generation int64 // of the staging table
	Updated    time.Time
}

// Empty is a stretch of the source's snapshots that holds no row for a destination. It stays true, because snapshots do not
// change, for as long as Hash, which is of everything that decides what its rows are, is the same.
type Empty struct {
	From, Through int64
	Hash          string
}

// Origin says who named a destination.
type Origin string

// The origins.
const (
	Static     Origin = "static"     // the fan-out's definition
	Discovered Origin = "discovered" // the control plane
)

// space of the ids of destinations.
var space = uuid.MustParse("5b1c7f0e-6f0b-4a36-9d2e-0a4d5e0c8f11")

// DestinationID is the id of a team's destination in an org.
func DestinationID(fanout string, org sluice.Org, team sluice.TeamID) string {
	return uuid.NewSHA1(space, fmt.Appendf(nil, "%s/%s/%d", fanout, org, team)).String()
}

// Shard is the part of the fan-out that a destination belongs to; a shard has one owner.
func Shard(destination string, shards int) int {
	id := uuid.MustParse(destination)
	return int(binary.BigEndian.Uint64(id[:8]) % uint64(shards)) //nolint:gosec // it is less than shards
}

func hexID(id string) string { return strings.ReplaceAll(id, "-", "") }

// ControlTable is the table in the destination's lake that holds its fence and its cursor.
func ControlTable(destination string) lake.Table {
	return lake.Table{Schema: lake.ControlSchema, Name: "ctl_" + hexID(destination)}
}

// QuarantineTable is the table in the destination's lake that keeps rows which cannot be applied.
func QuarantineTable(destination string) lake.Table {
	return lake.Table{Schema: lake.ControlSchema, Name: "quarantine_" + hexID(destination)}
}

// AwayTable is the table in the destination's lake that remembers the keys which have gone to other destinations, with their
// versions: without them an old row that comes late would be taken for a new one.
func AwayTable(destination string) lake.Table {
	return lake.Table{Schema: lake.ControlSchema, Name: "away_" + hexID(destination)}
}

// StagingTable is where a destination's history is collected before it goes live.
func StagingTable(schema, destination string, generation int64) lake.Table {
	return lake.Table{Schema: schema, Name: fmt.Sprintf("_sluice_stg_%s_%d", hexID(destination)[:16], generation)}
}
