package fanout

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Verdict is how a destination's table compares with what the source says as of the destination's cursor.
type Verdict struct {
	Destination Destination
	Snapshot    int64
	Rows        int64 // of the table
	Missing     int64 // rows of the source that are not in the table as they are
	Surplus     int64 // rows of the table that are not in the source as they are
	Keys        []string
}

// Equal reports whether nothing differs.
func (v Verdict) Equal() bool { return v.Missing == 0 && v.Surplus == 0 }

// verifyKeys is how many keys that differ are named.
const verifyKeys = 20

// Verify computes what destinations must hold from the source's history, and compares row by row.
func (a *Admin) Verify(ctx context.Context, name string, sel Selection) ([]Verdict, error) {
	f, ds, err := a.selected(ctx, name, sel)
	if err != nil {
		return nil, err
	}
	r := &reader{f: f, owner: "verify", sessions: a.Sessions, files: a.Files}
	defer r.close()
	var out []Verdict
	for _, d := range ds {
		if d.State == StateRemoved || d.State == StateNew || d.State == StateSeeding {
			continue
		}
		v, err := a.verify(ctx, f, r, d)
		if err != nil {
			return out, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (a *Admin) verify(ctx context.Context, f *Fanout, r *reader, d Destination) (Verdict, error) {
	v := Verdict{Destination: d}
	src, err := r.session(ctx)
	if err != nil {
		return v, err
	}
	if err := r.look(ctx, src); err != nil {
		return v, err
	}
	script, err := r.script()
	if err != nil {
		return v, err
	}
	s, err := a.Sessions.Open(ctx, d.Org)
	if err != nil {
		return v, err
	}
	defer func() { _ = s.Close() }()
	// The table is compared as of the snapshot in which the cursor was read: it goes on meanwhile.
	var at int64
	is, err := readControl(ctx, s, d)
	if err != nil {
		return v, err
	}
	if err := s.Read(ctx, "look for the newest snapshot", "SELECT max(snapshot_id) FROM "+metadata+".ducklake_snapshot", func(rows pgx.Rows) error { return rows.Scan(&at) }); err != nil {
		return v, err
	}
	if again, err := readControl(ctx, s, d); err != nil || again.Seq != is.Seq {
		if err == nil {
			err = sluice.E("SLUICE-FANOUT-STATE", "verify "+d.text(), "it was written while it was looked at", "try again, or pause it first", nil)
		}
		return v, err
	}
	v.Snapshot = is.Cursor
	ds := []Destination{d}
	read, err := r.write(ctx, src, "read the history of "+d.text(), script, script.HistorySQL(f.Source, is.Cursor, 0, 1, targetsOf(ds)), ds)
	if err != nil {
		return v, expired(err, is.Cursor-1)
	}
	defer func() { _ = dropParts(context.WithoutCancel(ctx), a.Files, read) }()
	var paths []string
	for _, p := range read[d.ID] {
		paths = append(paths, p.Path)
	}
	err = s.Read(ctx, "compare the table of "+d.text(), script.compareSQL(d.Target, at, paths), func(rows pgx.Rows) error {
		var key string
		if err := rows.Scan(&v.Rows, &v.Missing, &v.Surplus, &key); err != nil {
			return err
		}
		if key != "" {
			v.Keys = strings.Split(key, "\n")
		}
		return nil
	})
	return v, err
}

// compareSQL counts the rows of a table, those that only the side files have, and those that only the table has; and names some
// keys. Rows are counted, so that doubled ones show.
func (s Script) compareSQL(table lake.Table, snapshot int64, paths []string) string {
	names := s.names("")
	var text []string
	for _, n := range s.Out.Names() {
		text = append(text, lake.Ident(n)+"::VARCHAR")
	}
	key := strings.Join(text, ", ")
	if len(s.Out.Keys) > 0 {
		text = nil
		for _, n := range s.Out.Keys {
			text = append(text, lake.Ident(n)+"::VARCHAR")
		}
		key = strings.Join(text, ", ")
	}
	should := fmt.Sprintf("SELECT %s FROM %s WHERE false", names, table.SQL())
	if len(paths) > 0 {
		from := fmt.Sprintf("(SELECT * FROM %s WHERE %s = '%s')", sideFiles(paths), kindColumn, kindRow)
		if s.Def.Mode == CurrentState {
			from = "(" + s.marked(paths) + ")"
			should = fmt.Sprintf("SELECT %s FROM %s AS s WHERE s._sluice_is_row", s.aliasedNames(), from)
		} else {
			should = fmt.Sprintf("SELECT %s FROM %s AS s", s.names("s."), from)
		}
	}
	return fmt.Sprintf("WITH a AS MATERIALIZED (%s), t AS MATERIALIZED (SELECT %s FROM %s AT (VERSION => %d)), m AS (FROM a EXCEPT ALL FROM t), x AS (FROM t EXCEPT ALL FROM a) "+
		"SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM m), (SELECT count(*) FROM x), coalesce((SELECT string_agg(k, E'\\n') FROM "+
		"(SELECT DISTINCT concat_ws('/', %s) AS k FROM (FROM m UNION ALL FROM x) ORDER BY 1 LIMIT %d)), '')", should, names, table.SQL(), snapshot, key, verifyKeys)
}

// aliasedNames are markedNames under the columns' own names.
func (s Script) aliasedNames() string {
	var out []string
	for _, n := range s.Out.Names() {
		if s.Def.Tombstones == TombstonesMark && strings.EqualFold(n, s.Out.Deleted) {
			out = append(out, fmt.Sprintf("CASE WHEN s._sluice_after THEN true ELSE s.%[1]s END AS %[1]s", lake.Ident(n)))
			continue
		}
		out = append(out, "s."+lake.Ident(n))
	}
	return strings.Join(out, ", ")
}
