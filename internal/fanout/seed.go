package fanout

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// chunkRows is how many rows of the source a chunk of a history has at most.
const chunkRows = 5_000_000

// seedTries is how often a seed begins anew because the snapshot it was taken from has expired.
const seedTries = 3

// begin brings a destination that is not followed yet to where it is: from its cursor, or by seeding it. r is a reader of its
// own, so that a long history does not hold up the others.
func (a *applier) begin(ctx context.Context, store *Store, r *reader, d Destination) (Control, error) {
	is, err := a.control(ctx, d)
	if err != nil {
		return is, err
	}
	if is.Phase == PhaseFollowing && is.Generation >= d.Generation {
		return is, nil
	}
	src, err := r.session(ctx)
	if err != nil {
		return is, err
	}
	if err := r.look(ctx, src); err != nil {
		return is, err
	}
	if a.f.Def.Seed == SeedHead && is.Generation == 0 && d.Generation <= 1 {
		return a.fromHead(ctx, store, r, d, is)
	}
	for try := 1; ; try++ {
		is, err = a.seed(ctx, store, r, d, is)
		if sluice.CodeOf(err) != "SLUICE-FANOUT-GAP" || try >= seedTries {
			break
		}
	}
	if err == nil {
		err = store.Pin(ctx, d.ID, 0)
	}
	return is, err
}

// control reads a destination's control table, and makes it if there is none.
func (a *applier) control(ctx context.Context, d Destination) (Control, error) {
	s, err := a.pool.get(ctx, d.Org)
	if err != nil {
		return Control{}, err
	}
	defer a.pool.put(s)
	is, err := readControl(ctx, s, d)
	if !errors.Is(err, lake.ErrNoControl) {
		return is, err
	}
	if err := makeControl(ctx, s, d, a.f.Lake); err != nil {
		return is, err
	}
	return readControl(ctx, s, d)
}

// fromHead follows from now on: the table is made in the transaction that sets the cursor.
func (a *applier) fromHead(ctx context.Context, store *Store, r *reader, d Destination, is Control) (Control, error) {
	src, err := r.session(ctx)
	if err != nil {
		return is, err
	}
	to := is
	if to.Cursor, err = r.head(ctx, src); err != nil {
		return is, err
	}
	if err := store.Pin(ctx, d.ID, to.Cursor); err != nil {
		return is, err
	}
	to.Source, to.Lake, to.Phase, to.Generation = r.table, a.f.Lake, PhaseFollowing, max(d.Generation, 1)
	if is, err = a.makeTable(ctx, d, is, r, d.Target, to); err != nil {
		return is, err
	}
	return is, store.Pin(ctx, d.ID, 0)
}

// makeTable makes a table with the projection's columns where there is none, in the transaction that moves the control. A table
// that is there must fit, and have each key once.
func (a *applier) makeTable(ctx context.Context, d Destination, is Control, r *reader, table lake.Table, to Control) (Control, error) {
	after, _, err := a.write(ctx, d, is, to, "make", func(ctx context.Context, s *lake.Session) (bool, func(context.Context, *lake.Txn) error, error) {
		s.Forget(table)
		t, err := s.DescribeTarget(ctx, table)
		if err != nil {
			return false, nil, err
		}
		if t.Exists {
			p, err := Project(a.f.Def, r.columns, t.Columns)
			if err == nil && a.f.Def.Mode == CurrentState {
				err = uniqueKeys(ctx, s, table, p)
			}
			return false, nil, err
		}
		p, err := Project(a.f.Def, r.columns, nil)
		if err != nil {
			return false, nil, err
		}
		return true, func(ctx context.Context, tx *lake.Txn) error {
			for _, q := range createSQL(table, p, a.f.Def.Partition) {
				if _, err := tx.Exec(ctx, q); err != nil {
					return err
				}
			}
			return nil
		}, nil
	})
	if err != nil {
		return after, err
	}
	// The engine has put tables into other schemas (docs/adr/0009): look, and remember which one it is.
	id, err := a.tableID(ctx, d, table)
	if err != nil || table != d.Target {
		return after, err
	}
	named := after
	named.TableID = id
	after, _, err = a.write(ctx, d, after, named, "name", nothing)
	return after, err
}

// nothing is the work of a transaction that only moves the control.
func nothing(context.Context, *lake.Session) (bool, func(context.Context, *lake.Txn) error, error) {
	return false, nil, nil
}

func (a *applier) tableID(ctx context.Context, d Destination, table lake.Table) (int64, error) {
	s, err := a.pool.get(ctx, d.Org)
	if err != nil {
		return 0, err
	}
	defer a.pool.put(s)
	s.Forget(table)
	t, err := s.DescribeTarget(ctx, table)
	if err == nil && !t.Exists {
		err = sluice.E("SLUICE-FANOUT-TARGET-MISSING", "look for the table of "+d.text(), fmt.Sprintf("table %s is not there after its COMMIT", table),
			"`sluice fanout reseed` builds it anew", nil)
	}
	return t.TableID, err
}

func createSQL(table lake.Table, p Projection, partition []string) []string {
	columns := ""
	for i, c := range p.TableColumns() {
		if i > 0 {
			columns += ", "
		}
		columns += lake.Ident(c.Name) + " " + c.Type.String()
	}
	out := []string{
		"CREATE SCHEMA IF NOT EXISTS " + lake.Catalog + "." + lake.Ident(table.Schema),
		fmt.Sprintf("CREATE TABLE %s (%s)", table.SQL(), columns),
	}
	if len(partition) > 0 {
		by := ""
		for i, c := range partition {
			if i > 0 {
				by += ", "
			}
			by += c
		}
		out = append(out, fmt.Sprintf("ALTER TABLE %s SET PARTITIONED BY (%s)", table.SQL(), by))
	}
	return out
}

func uniqueKeys(ctx context.Context, s *lake.Session, table lake.Table, p Projection) error {
	keys := Script{Out: p}.keys()
	var n int64
	if err := s.Read(ctx, "look for keys of "+table.String(), fmt.Sprintf("SELECT count(*) FROM (SELECT %s FROM %s GROUP BY ALL HAVING count(*) > 1)", keys, table.SQL()),
		func(rows pgx.Rows) error { return rows.Scan(&n) }); err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	return sluice.E("SLUICE-FANOUT-KEY-NOT-UNIQUE", "look for keys of "+table.String(), fmt.Sprintf("%d keys are there more than once", n),
		"remove the doubled rows, then `sluice fanout resume`", nil)
}

// seed collects a destination's history as of one snapshot, chunk by chunk, and puts it in place of its table.
func (a *applier) seed(ctx context.Context, store *Store, r *reader, d Destination, is Control) (Control, error) {
	src, err := r.session(ctx)
	if err != nil {
		return is, err
	}
	staging := d.Target
	if a.f.Def.Into == IntoStaging {
		staging = StagingTable(d.Target.Schema, d.ID, d.Generation)
	}
	resumed := is.Phase == PhaseSeeding && is.Generation == d.Generation && is.Chunks > 0 && is.Source == r.table
	if resumed {
		if resumed, err = r.exists(ctx, src, is.Snapshot); err != nil {
			return is, err
		}
	}
	if !resumed {
		if is, err = a.beginSeed(ctx, store, r, d, is, staging); err != nil {
			return is, err
		}
	}
	for is.Chunk < is.Chunks {
		if is, err = a.seedChunk(ctx, r, d, is, staging); err != nil {
			return is, err
		}
	}
	return a.swap(ctx, d, is, staging)
}

// beginSeed chooses the snapshot and makes the staging table, or empties it.
func (a *applier) beginSeed(ctx context.Context, store *Store, r *reader, d Destination, is Control, staging lake.Table) (Control, error) {
	src, err := r.session(ctx)
	if err != nil {
		return is, err
	}
	to := is
	if to.Snapshot, err = r.head(ctx, src); err != nil {
		return is, err
	}
	if err := store.Pin(ctx, d.ID, to.Snapshot); err != nil {
		return is, err
	}
	if ok, err := r.exists(ctx, src, to.Snapshot); err != nil || !ok { // pinned too late
		return is, errors.Join(err, Gap(to.Snapshot-1, to.Snapshot+1))
	}
	var rows int64
	if err := src.Read(ctx, "count the history of "+d.text(), fmt.Sprintf("SELECT count(*) FROM %s AT (VERSION => %d) WHERE CAST(%s AS VARCHAR) = $1",
		a.f.Source.SQL(), to.Snapshot, lake.Ident(a.f.Def.Route)), func(rs pgx.Rows) error { return rs.Scan(&rows) }, d.Route); err != nil {
		return is, expired(err, to.Snapshot-1)
	}
	to.Source, to.Lake, to.Phase, to.Generation = r.table, a.f.Lake, PhaseSeeding, d.Generation
	to.Chunk, to.Chunks, to.Rows = 0, int(max(1, (rows+chunkRows-1)/chunkRows)), 0
	if err := a.fits(ctx, r, d); err != nil {
		return is, err
	}
	if staging == d.Target {
		return a.makeTable(ctx, d, is, r, staging, to)
	}
	after, _, err := a.write(ctx, d, is, to, "begin seed", func(ctx context.Context, s *lake.Session) (bool, func(context.Context, *lake.Txn) error, error) {
		ok, err := s.TableExists(ctx, staging)
		if err != nil {
			return false, nil, err
		}
		p, err := Project(a.f.Def, r.columns, nil)
		if err != nil {
			return false, nil, err
		}
		statements := createSQL(staging, p, a.f.Def.Partition)
		if ok {
			statements = []string{"DELETE FROM " + staging.SQL()}
		}
		if d.Generation > 1 { // a seed that was given up
			before := StagingTable(staging.Schema, d.ID, d.Generation-1)
			left, err := s.TableExists(ctx, before)
			if err != nil {
				return false, nil, err
			}
			if left {
				ok, statements = false, append(statements, "DROP TABLE "+before.SQL())
			}
		}
		return !ok, func(ctx context.Context, tx *lake.Txn) error {
			for _, q := range statements {
				if _, err := tx.Exec(ctx, q); err != nil {
					return err
				}
			}
			return nil
		}, nil
	})
	if err != nil {
		return after, err
	}
	_, err = a.tableID(ctx, d, staging)
	return after, err
}

// fits refuses to take the place of a table that is not of the projection's shape.
func (a *applier) fits(ctx context.Context, r *reader, d Destination) error {
	s, err := a.pool.get(ctx, d.Org)
	if err != nil {
		return err
	}
	defer a.pool.put(s)
	s.Forget(d.Target)
	t, err := s.DescribeTarget(ctx, d.Target)
	if err != nil || !t.Exists {
		return err
	}
	_, err = Project(a.f.Def, r.columns, t.Columns)
	return err
}

// seedChunk reads one chunk of the history and adds it to the staging table.
func (a *applier) seedChunk(ctx context.Context, r *reader, d Destination, is Control, staging lake.Table) (Control, error) {
	src, err := r.session(ctx)
	if err != nil {
		return is, err
	}
	script, err := r.script()
	if err != nil {
		return is, err
	}
	ds := []Destination{d}
	read, err := r.write(ctx, src, fmt.Sprintf("read chunk %d of the history of %s", is.Chunk, d.text()), script,
		script.HistorySQL(a.f.Source, is.Snapshot, is.Chunk, is.Chunks, targetsOf(ds)), ds)
	if err != nil {
		return is, expired(err, is.Snapshot-1)
	}
	parts := read[d.ID]
	defer func() { _ = dropParts(context.WithoutCancel(ctx), a.files, read) }()
	var paths []string
	var rows, live, bad int64
	for _, p := range parts {
		paths, rows, live, bad = append(paths, p.Path), rows+p.Rows, live+p.Live, bad+p.Bad
	}
	to := is
	to.Chunk++
	if staging == d.Target {
		if to.Chunk == to.Chunks {
			to.Phase, to.Cursor = PhaseFollowing, to.Snapshot
		}
	} else {
		to.Rows += live
	}
	after, _, err := a.write(ctx, d, is, to, "seed", func(ctx context.Context, s *lake.Session) (bool, func(context.Context, *lake.Txn) error, error) {
		if err := a.ensure(ctx, s, d, script, bad > 0); err != nil {
			return false, nil, err
		}
		return false, func(ctx context.Context, tx *lake.Txn) error {
			if staging == d.Target && rows > 0 {
				if _, err := a.rows(ctx, tx, script, d, staging, paths); err != nil {
					return err
				}
			}
			if staging != d.Target && script.whole() && rows > 0 {
				for _, q := range script.awaySQL(d.ID, paths) {
					if _, err := tx.Exec(ctx, q); err != nil {
						return err
					}
				}
			}
			if staging != d.Target && live > 0 {
				n, err := tx.Exec(ctx, script.InsertSQL(staging, paths))
				if err != nil {
					return err
				}
				if n != live {
					tx.Rollback()
					return sluice.E("SLUICE-FANOUT-DAMAGED", "seed "+d.text(), fmt.Sprintf("%d rows were read, %d stored", live, n), "the table is built anew by itself", nil)
				}
			}
			if bad > 0 {
				_, err := tx.Exec(ctx, script.QuarantineSQL(d.ID, paths))
				return err
			}
			return nil
		}, nil
	})
	return after, err
}

// swap puts the staging table in place of the live one: readers see the old table, then the new one, never a part.
func (a *applier) swap(ctx context.Context, d Destination, is Control, staging lake.Table) (Control, error) {
	if staging == d.Target {
		return is, nil
	}
	to := is
	to.Phase, to.Cursor = PhaseFollowing, is.Snapshot
	var err error
	if to.TableID, err = a.counted(ctx, d, is, staging); err != nil {
		return is, err
	}
	after, _, err := a.write(ctx, d, is, to, "swap", func(context.Context, *lake.Session) (bool, func(context.Context, *lake.Txn) error, error) {
		return true, func(ctx context.Context, tx *lake.Txn) error {
			for _, q := range []string{
				"DROP TABLE IF EXISTS " + d.Target.SQL(),
				fmt.Sprintf("ALTER TABLE %s RENAME TO %s", staging.SQL(), lake.Ident(d.Target.Name)),
			} {
				if _, err := tx.Exec(ctx, q); err != nil {
					return err
				}
			}
			return nil
		}, nil
	})
	if err != nil {
		return after, err
	}
	id, err := a.tableID(ctx, d, d.Target)
	if err == nil && id != after.TableID {
		err = sluice.E("SLUICE-FANOUT-TARGET-ID", "seed "+d.text(), fmt.Sprintf("table %s is not the one that was filled", d.Target), "`sluice fanout reseed` builds it anew", nil)
	}
	return after, err
}

// counted compares the staging table with what was put into it, and gives its id.
func (a *applier) counted(ctx context.Context, d Destination, is Control, staging lake.Table) (int64, error) {
	s, err := a.pool.get(ctx, d.Org)
	if err != nil {
		return 0, err
	}
	defer a.pool.put(s)
	s.Forget(staging)
	t, err := s.DescribeTarget(ctx, staging)
	if err != nil {
		return 0, err
	}
	if !t.Exists {
		return 0, sluice.E("SLUICE-FANOUT-DAMAGED", "seed "+d.text(), "its staging table is gone", "the table is built anew by itself", nil)
	}
	var n int64
	// The rows are read for it: what the catalog says of them would not show that a file is gone.
	if err := s.Read(ctx, "count the staging table of "+d.text(), fmt.Sprintf("SELECT count(*) FILTER (WHERE hash(x) IS NOT NULL) FROM %s AS x", staging.SQL()),
		func(rows pgx.Rows) error { return rows.Scan(&n) }); err != nil {
		return 0, err
	}
	if n != is.Rows {
		return 0, sluice.E("SLUICE-FANOUT-DAMAGED", "seed "+d.text(), fmt.Sprintf("the staging table has %d rows, %d were put into it", n, is.Rows),
			"the table is built anew by itself", nil)
	}
	return t.TableID, nil
}
