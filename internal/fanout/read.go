package fanout

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Sessions opens sessions to warehouses.
type Sessions interface {
	Open(ctx context.Context, org sluice.Org) (*lake.Session, error)
}

// Part is one side file of a destination.
type Part struct {
	Path  string
	Rows  int64 // to be applied
	Live  int64 // of these, rows: neither marks nor deletes
	Bad   int64 // to be quarantined
	Bytes int64
}

// reader reads the source of one fan-out. It is used by one goroutine at a time.
type reader struct {
	f        *Fanout
	owner    string
	sessions Sessions
	files    Files

	s       *lake.Session
	table   SourceTableID
	columns lake.Columns
	seq     int64
}

const metadata = "__ducklake_metadata_" + lake.Catalog

// maxSessionAge bounds how long a session is used.
const maxSessionAge = 10 * time.Minute

func fresh(s *lake.Session) bool {
	return s != nil && !s.Broken() && time.Since(s.Opened) < maxSessionAge && time.Until(s.Expires) > time.Minute
}

func (r *reader) session(ctx context.Context) (*lake.Session, error) {
	if fresh(r.s) {
		return r.s, nil
	}
	r.close()
	s, err := r.sessions.Open(ctx, r.f.Lake)
	if err != nil {
		return nil, err
	}
	r.s = s
	return s, nil
}

func (r *reader) close() {
	if r.s != nil {
		_ = r.s.Close()
		r.s = nil
	}
}

// look finds the source table as it is now. Whether it is the one that a destination was filled from is for who follows to tell.
func (r *reader) look(ctx context.Context, s *lake.Session) error {
	doing := "look at the source of fan-out " + r.f.Name
	var now SourceTableID
	err := s.Read(ctx, doing, `SELECT t.table_id, t.table_uuid::VARCHAR FROM `+metadata+`.ducklake_table t JOIN `+metadata+`.ducklake_schema s ON s.schema_id = t.schema_id `+
		`AND s.end_snapshot IS NULL WHERE t.end_snapshot IS NULL AND lower(s.schema_name) = lower($1) AND lower(t.table_name) = lower($2)`, func(rows pgx.Rows) error {
		return rows.Scan(&now.ID, &now.UUID)
	}, r.f.Source.Schema, r.f.Source.Name)
	if err != nil {
		return err
	}
	if now.UUID == "" {
		return sluice.E("SLUICE-FANOUT-SOURCE-RECREATED", doing, fmt.Sprintf("table %s is gone", r.f.Source),
			"look who did it; then `sluice fanout reseed` takes the new table", nil)
	}
	if r.table == now && r.columns != nil {
		return nil
	}
	s.Forget(r.f.Source)
	t, err := s.DescribeTarget(ctx, r.f.Source)
	if err != nil {
		return err
	}
	r.table, r.columns = now, t.Columns
	return nil
}

// head is the newest snapshot of the source's lake.
func (r *reader) head(ctx context.Context, s *lake.Session) (head int64, err error) {
	err = s.Read(ctx, "look for the newest snapshot", "SELECT max(snapshot_id) FROM "+metadata+".ducklake_snapshot", func(rows pgx.Rows) error { return rows.Scan(&head) })
	return head, err
}

// exists reports whether a snapshot of the source's lake is still there.
func (r *reader) exists(ctx context.Context, s *lake.Session, snapshot int64) (ok bool, err error) {
	err = s.Read(ctx, "look for a snapshot", "SELECT count(*) > 0 FROM "+metadata+".ducklake_snapshot WHERE snapshot_id = $1", func(rows pgx.Rows) error {
		return rows.Scan(&ok)
	}, snapshot)
	return ok, err
}

// list gives the snapshots behind a position.
func (r *reader) list(ctx context.Context, s *lake.Session, position int64) ([]Snapshot, error) {
	var out []Snapshot
	err := s.Read(ctx, "list the snapshots of the source", fmt.Sprintf(`SELECT s.snapshot_id, coalesce(c.changes_made, ''), coalesce((SELECT sum(d.record_count) `+
		`FROM %[1]s.ducklake_data_file d WHERE d.table_id = %[2]d AND d.begin_snapshot = s.snapshot_id), 0)::BIGINT FROM %[1]s.ducklake_snapshot s `+
		`LEFT JOIN %[1]s.ducklake_snapshot_changes c ON c.snapshot_id = s.snapshot_id WHERE s.snapshot_id > %[3]d ORDER BY s.snapshot_id LIMIT %[4]d`,
		metadata, r.table.ID, position, WindowSnapshots), func(rows pgx.Rows) error {
		var n Snapshot
		if err := rows.Scan(&n.ID, &n.Changes, &n.Rows); err != nil {
			return err
		}
		out = append(out, n)
		return nil
	})
	return out, err
}

// Read is what one window of the source holds.
type Read struct {
	Window   Window
	Parts    map[string][]Part // by destination
	Unrouted map[string]int64  // rows by the value of a route that leads nowhere
	Rows     int64
	Took     time.Duration
}

// next reads the window behind a position for destinations. ok is false if there is nothing behind it.
func (r *reader) next(ctx context.Context, position int64, ds []Destination) (out Read, ok bool, err error) {
	s, err := r.session(ctx)
	if err != nil {
		return out, false, err
	}
	list, err := r.list(ctx, s, position)
	if err != nil || len(list) == 0 {
		if err == nil {
			err = r.notBack(ctx, s, position)
		}
		return out, false, err
	}
	if out.Window, ok, err = NextWindow(r.f.Def.Kind, r.table, position, list); err != nil || !ok {
		return out, false, err
	}
	if out.Window.Altered {
		r.columns = nil
	}
	if !out.Window.Read {
		return out, true, nil
	}
	begin := time.Now()
	if err := r.look(ctx, s); err != nil {
		return out, false, err
	}
	script, err := r.script()
	if err != nil {
		return out, false, err
	}
	targets := targetsOf(ds)
	doing := fmt.Sprintf("read snapshots %d to %d of %s", out.Window.From, out.Window.To, r.f.Source)
	out.Parts, err = r.write(ctx, s, doing, script, script.WindowSQL(r.f.Source, out.Window, targets), ds)
	if err != nil {
		return out, false, expired(err, out.Window.From-1)
	}
	for _, parts := range out.Parts {
		for _, p := range parts {
			out.Rows += p.Rows + p.Bad
		}
	}
	out.Unrouted = map[string]int64{}
	err = s.Read(ctx, doing, script.UnroutedSQL(r.f.Source, out.Window, targets), func(rows pgx.Rows) error {
		var route string
		var n int64
		err := rows.Scan(&route, &n)
		out.Unrouted[route] = n
		return err
	})
	out.Took = time.Since(begin)
	return out, err == nil, expired(err, out.Window.From-1)
}

// notBack finds out that a lake has gone back to an earlier state, as after a restore.
func (r *reader) notBack(ctx context.Context, s *lake.Session, position int64) error {
	head, err := r.head(ctx, s)
	if err == nil && head < position {
		err = sluice.E("SLUICE-FANOUT-SOURCE-RECREATED", "read the source of fan-out "+r.f.Name,
			fmt.Sprintf("the lake's newest snapshot is %d, and %d has been read already", head, position), "the lake was restored: `sluice fanout reseed`", nil)
	}
	return err
}

// expired tells the engine's error about a snapshot that is gone from others.
func expired(err error, position int64) error {
	if err != nil && strings.Contains(err.Error(), "No snapshot found") {
		return Gap(position, position+1)
	}
	return err
}

func targetsOf(ds []Destination) []Target {
	out := make([]Target, len(ds))
	for i, d := range ds {
		out[i] = Target{d.Route, string(d.Org), d.ID}
	}
	return out
}

// script plans the columns without a look at any destination's table.
func (r *reader) script() (Script, error) {
	p, err := Project(r.f.Def, r.columns, nil)
	return Script{r.f.Def, p}, err
}

// write runs a query of rows for destinations into side files, one folder per destination, and says what is in them.
func (r *reader) write(ctx context.Context, s *lake.Session, doing string, script Script, query string, ds []Destination) (map[string][]Part, error) {
	r.seq++
	folder := fmt.Sprintf("%s_sluice/f/%s/%s-%d-%s", s.DataPath(), hexID(r.f.ID), fileSafe(r.owner), r.seq, uuid.NewString()[:8])
	if err := r.files.Folder(ctx, folder); err != nil {
		return nil, err
	}
	defer func() { _ = r.files.Remove(context.WithoutCancel(ctx), folder) }() // what is left over is swept
	if script.whole() {
		return r.writeWhole(ctx, s, doing, script, query, folder, ds)
	}
	if err := r.copy(ctx, s, doing, query, folder, "PARTITION_BY (org, dest), OVERWRITE_OR_IGNORE"); err != nil {
		return nil, err
	}
	byHex := map[string]Destination{}
	for _, d := range ds {
		byHex[hexID(d.ID)] = d
	}
	return r.collect(ctx, s, doing, folder, "/*/*/*.parquet", func(path string) (Destination, bool) {
		d, ok := byHex[strings.TrimPrefix(filepath.Base(filepath.Dir(path)), "dest=")]
		return d, ok
	})
}

// writeWhole is write where each destination is told of rows that are elsewhere.
func (r *reader) writeWhole(ctx context.Context, s *lake.Session, doing string, script Script, query, folder string, ds []Destination) (map[string][]Part, error) {
	all := folder + "/all.parquet"
	if err := r.copy(ctx, s, doing, query, all, ""); err != nil {
		return nil, err
	}
	of := map[string]Destination{}
	for _, d := range ds {
		path := fmt.Sprintf("%s/%s.away.parquet", folder, hexID(d.ID))
		of[path] = d
		if err := r.copy(ctx, s, doing, script.AwaySQL(all, d.ID), path, ""); err != nil {
			return nil, err
		}
	}
	return r.collect(ctx, s, doing, folder, "/*.away.parquet", func(path string) (Destination, bool) {
		d, ok := of[path]
		return d, ok
	})
}

func (r *reader) copy(ctx context.Context, s *lake.Session, doing, query, to, options string) error {
	if options != "" {
		options = ", " + options
	}
	tx, err := s.Begin(ctx, false, doing) // one snapshot for the query, closed afterwards
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet%s)", query, lake.Literal(to), options)); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// collect counts what is in the files of a folder and places them where the destinations can read them.
func (r *reader) collect(ctx context.Context, s *lake.Session, doing, folder, glob string, whose func(path string) (Destination, bool)) (map[string][]Part, error) {
	var paths []string
	parts := map[string]*Part{}
	if err := s.Look(ctx, doing, "SELECT file FROM glob("+lake.Literal(folder+glob)+")", func(rows pgx.Rows) error {
		var path string
		err := rows.Scan(&path)
		paths = append(paths, path)
		return err
	}); err != nil || len(paths) == 0 {
		return nil, err // nothing for anybody
	}
	good := fmt.Sprintf("%s IN ('%s', '%s', '%s', '%s')", kindColumn, kindRow, kindTomb, kindDelete, kindAway)
	if err := s.Look(ctx, doing, fmt.Sprintf("SELECT filename, count(*) FILTER (WHERE %[1]s), count(*) FILTER (WHERE %[2]s = '%[3]s'), count(*) FILTER (WHERE NOT %[1]s) "+
		"FROM read_parquet(%[4]s, filename = true, hive_partitioning = false, union_by_name = true) GROUP BY 1", good, kindColumn, kindRow, pathList(paths)),
		func(rows pgx.Rows) error {
			var p Part
			err := rows.Scan(&p.Path, &p.Rows, &p.Live, &p.Bad)
			parts[p.Path] = &p
			return err
		}); err != nil {
		return nil, err
	}
	out := map[string][]Part{}
	for path, p := range parts {
		d, ok := whose(path)
		if !ok || p.Rows+p.Bad == 0 {
			continue
		}
		name := fmt.Sprintf("%s/%s-%s", hexID(d.ID), filepath.Base(folder), filepath.Base(path))
		placed, err := r.files.Place(ctx, path, d.Org, name)
		if err != nil {
			return nil, errors.Join(err, dropParts(ctx, r.files, out))
		}
		p.Path, p.Bytes = placed, p.Rows*100
		out[d.ID] = append(out[d.ID], *p)
	}
	return out, nil
}

func dropParts(ctx context.Context, files Files, parts map[string][]Part) error {
	var errs []error
	for _, list := range parts {
		for _, p := range list {
			errs = append(errs, files.Remove(ctx, p.Path))
		}
	}
	return errors.Join(errs...)
}

// fileSafe keeps what may be part of a file's name.
func fileSafe(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
			return c
		}
		return '_'
	}, s)
}
