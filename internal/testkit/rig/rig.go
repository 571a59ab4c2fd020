// Package rig gives a test the whole way of a batch, of real parts: an org with its lake behind the PostgreSQL protocol,
// a state DB with its stores, and loaders.
package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/load"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/pg"
)

// Options of a Rig. The zero value is an org of its own over a state DB in SQLite.
type Options struct {
	Postgres bool        // the state DB is PostgreSQL
	Config   load.Config // of the loaders; what is not set is short
	// Sessions wraps how loaders reach the warehouse, for faults.
	Sessions func(load.Sessions) load.Sessions
	// Queue wraps how loaders reach the state DB, for faults.
	Queue func(load.Batches) load.Batches
	// Sources reads what chunks are made of; nil: there are no chunks.
	Sources load.Sources
}

// Rig is one org with everything that is needed to load it, as one test sees it.
type Rig struct {
	House   *house.House
	Org     sluice.Org
	Team    sluice.TeamID
	DB      *statedb.DB
	Control *control.Store
	Streams *stream.Store
	Queue   *queue.Store

	testing.TB
	opts  Options
	dsn   string
	conn  *pgx.Conn // of a person
	files atomic.Int64
	owner atomic.Int64
}

var by = control.By{Who: "test"}

var orgs atomic.Int64

// New provisions an org in a house, with a team, and a state DB that knows them.
func New(t testing.TB, h *house.House, opts Options) *Rig {
	t.Helper()
	r := &Rig{House: h.On(t), Org: sluice.Org(fmt.Sprintf("org-%d", orgs.Add(1))), Team: 1, TB: t, opts: opts}
	r.House.Org(r.Org)
	r.dsn = filepath.Join(t.TempDir(), "state.db")
	if opts.Postgres {
		r.dsn = pg.New(t)
	}
	r.open()
	if err := r.DB.Up(t.Context()); err != nil {
		t.Fatalf("make the state DB: %v", err)
	}
	if _, err := r.Control.CreateOrg(t.Context(), control.NewOrg{Org: r.Org, State: sluice.OrgReady}, by); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Control.CreateTeam(t.Context(), control.NewTeam{Org: r.Org, TeamID: r.Team}, by); err != nil {
		t.Fatal(err)
	}
	return r
}

// open opens the state DB and makes its stores.
func (r *Rig) open() {
	r.Helper()
	var err error
	if r.DB, err = statedb.Open(r.Context(), r.dsn); err != nil {
		r.Fatalf("open the state DB: %v", err)
	}
	db := r.DB
	r.Cleanup(func() { _ = db.Close() })
	r.Control = control.New(db)
	r.Queue = queue.New(db, queue.Config{
		Paths: func(context.Context, sluice.Org, string) error { return nil },
		Pin:   pin,
	})
	r.Streams = stream.New(db, r.Queue)
}

// pin is the size of a file, if there is one.
func pin(_ context.Context, _ sluice.Org, path string) (queue.Pin, bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return queue.Pin{}, false, nil
	}
	return queue.Pin{ByteSize: info.Size()}, true, nil
}

// SaveState copies the state DB (SQLite) as it is now, and gives what puts the copy back in its place. No loader may run.
func (r *Rig) SaveState() (restore func()) {
	r.Helper()
	saved := filepath.Join(r.TempDir(), "saved.db")
	r.closeAndCopy(r.dsn, saved)
	return func() { r.closeAndCopy(saved, r.dsn) }
}

func (r *Rig) closeAndCopy(from, to string) {
	r.Helper()
	if err := r.DB.Close(); err != nil { // which empties the write-ahead log
		r.Fatal(err)
	}
	b, err := os.ReadFile(from)
	if err == nil {
		for _, old := range []string{to, to + "-wal", to + "-shm"} {
			_ = os.Remove(old)
		}
		err = os.WriteFile(to, b, 0o644)
	}
	if err != nil {
		r.Fatalf("copy the state DB: %v", err)
	}
	r.open()
}

// Stream registers a stream, with whatever the changes say. Its name is a table name of its own.
func (r *Rig) Stream(sync sluice.SyncType, changes ...func(*stream.NewStream)) sluice.StreamID {
	r.Helper()
	n := stream.NewStream{
		Org: r.Org, TeamID: r.Team, SourceType: "pg", Name: fmt.Sprintf("t%d", r.files.Add(1)), SyncType: sync,
	}
	if sync == sluice.Incremental || sync == sluice.CDC {
		n.Options.PrimaryKeys = []string{"id"}
	}
	if sync == sluice.CDC {
		n.Options.CDC = &sluice.CDCOptions{OrderColumns: []string{"lsn"}}
	}
	for _, c := range changes {
		c(&n)
	}
	s, err := r.Streams.Add(r.Context(), n, by)
	if err != nil {
		r.Fatal(err)
	}
	return s.StreamID
}

// Count gives a number of its own to each call.
func (r *Rig) Count() int64 { return r.files.Add(1) }

// File writes the rows of a query as a Parquet file and gives its path.
func (r *Rig) File(query string) string {
	r.Helper()
	return r.House.File(r.Org, fmt.Sprintf("f%d", r.files.Add(1)), query)
}

// Copy puts a copy of a file where the org may read it, and gives its path.
func (r *Rig) Copy(file string) string {
	r.Helper()
	return r.House.Copy(r.Org, file)
}

// ReadFile reads a file.
func (r *Rig) ReadFile(path string) []byte {
	r.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		r.Fatal(err)
	}
	return b
}

// WriteFile writes a file anew.
func (r *Rig) WriteFile(path string, b []byte) {
	r.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		r.Fatal(err)
	}
}

// Values is a query of rows, each a SQL tuple without its parentheses; columns is what SELECT makes of them, as in
// "id::BIGINT AS id, v".
func Values(names, columns string, rows ...string) string {
	q := "SELECT " + columns + " FROM (VALUES "
	for i, row := range rows {
		if i > 0 {
			q += ", "
		}
		q += "(" + row + ")"
	}
	return q + ") AS v(" + names + ")"
}

// Enqueue stores files as the batches of a run, the last one final.
func (r *Rig) Enqueue(id sluice.StreamID, run string, files ...string) {
	r.Helper()
	r.EnqueueRun(queue.EnqueueRequest{StreamID: id, RunID: sluice.RunID(run)}, files...)
}

// FirstEver is Enqueue for the first run of a stream.
func (r *Rig) FirstEver(id sluice.StreamID, run string, files ...string) {
	r.Helper()
	r.EnqueueRun(queue.EnqueueRequest{StreamID: id, RunID: sluice.RunID(run), IsFirstEver: true}, files...)
}

// EnqueueWith is Enqueue with options of the run.
func (r *Rig) EnqueueWith(id sluice.StreamID, run string, o sluice.Options, files ...string) {
	r.Helper()
	r.EnqueueRun(queue.EnqueueRequest{StreamID: id, RunID: sluice.RunID(run), Options: o}, files...)
}

// EnqueueRun is Enqueue with all that a call can say; the batches of q come before the files.
func (r *Rig) EnqueueRun(q queue.EnqueueRequest, files ...string) {
	r.Helper()
	for i, f := range files {
		q.Batches = append(q.Batches, queue.NewBatch{BatchIndex: int64(i), Path: f, IsFinal: i == len(files)-1, UpstreamState: sluice.UpstreamNone})
	}
	if _, err := r.Queue.Enqueue(r.Context(), q); err != nil {
		r.Fatal(err)
	}
}

// Session opens a session to the org's lake, as a loader has it.
func (r *Rig) Session() *lake.Session {
	r.Helper()
	s, err := r.House.Dialer().Open(r.Context(), r.Org)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = s.Close() })
	return s
}
