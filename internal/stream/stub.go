package stream

import (
	"context"
	"errors"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Heads is what the registry needs of the queue: the row that says what may be worked on.
type Heads interface {
	// Created makes the lease row of a new stream.
	Created(ctx context.Context, tx *statedb.Tx, s sluice.Stream) error
	// Changed recomputes the head of a stream whose lifecycle or state has changed.
	Changed(ctx context.Context, tx *statedb.Tx, id sluice.StreamID) error
}

// Store is the registry in a state DB.
type Store struct{}

// New makes a Store; *queue.Store is its Heads.
func New(db *statedb.DB, heads Heads) *Store { return &Store{} }

// NewStream is what a caller says about a stream; StreamID empty means a new UUID.
type NewStream struct {
	StreamID   sluice.StreamID
	Org        sluice.Org
	TeamID     sluice.TeamID
	SourceType string
	Prefix     string
	Name       string
	SyncType   sluice.SyncType
	DeltaURI   string
	Options    sluice.Options
}

// Filter of List; empty fields do not filter.
type Filter struct {
	Org    sluice.Org
	TeamID *sluice.TeamID
	After  sluice.StreamID // cursor: streams are listed by stream_id
	Limit  int             // 0: 100; at most 1,000
}

// Binding is the stored name of a stream's table.
type Binding struct {
	TargetSchema string `json:"target_schema"`
	TargetTable  string `json:"target_table"`
	Raw          string `json:"raw"`
	Cut          bool   `json:"cut"`
	Collided     bool   `json:"collided"`
	Bound        bool   `json:"bound"` // false: it was bound before
}

// BindOptions say what is known about existing tables.
type BindOptions struct {
	Table  string                                                        // the operator's or the producer's choice
	Exists func(ctx context.Context, schema, table string) (bool, error) // nil: no table exists
	DryRun bool
}

// By names who changes something.
type By struct{ Who, RequestID string }

// Add registers a stream, with its lease row. Without a Delta table there is no history to load, so the stream is primed
// at once; otherwise it waits for the planner.
func (s *Store) Add(ctx context.Context, n NewStream, by By) (sluice.Stream, error) {
	return sluice.Stream{}, errors.ErrUnsupported
}

// Get gives a stream, or SLUICE-LOAD-NO-STREAM.
func (s *Store) Get(ctx context.Context, id sluice.StreamID) (sluice.Stream, error) {
	return sluice.Stream{}, errors.ErrUnsupported
}

// List lists streams by id.
func (s *Store) List(ctx context.Context, f Filter) ([]sluice.Stream, error) {
	return nil, errors.ErrUnsupported
}

// Bind gives the stream its table name, once: a bound stream keeps what it has.
func (s *Store) Bind(ctx context.Context, id sluice.StreamID, o BindOptions, by By) (Binding, error) {
	return Binding{}, errors.ErrUnsupported
}

// SetEnabled switches a stream on or off.
func (s *Store) SetEnabled(ctx context.Context, id sluice.StreamID, enabled bool, by By) error {
	return errors.ErrUnsupported
}

// SetPaused pauses a stream or lets it go on; a batch that is being applied ends first.
func (s *Store) SetPaused(ctx context.Context, id sluice.StreamID, paused bool, by By) error {
	return errors.ErrUnsupported
}

// Remove deletes a stream; its table stays.
func (s *Store) Remove(ctx context.Context, id sluice.StreamID, by By) error {
	return errors.ErrUnsupported
}
