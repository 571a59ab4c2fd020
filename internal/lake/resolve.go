package lake

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"sluice/internal/sluice"
)

// WriteFolder is where, below a lake's data path, files lie that Sluice writes itself and registers.
const WriteFolder = "_sluice/w/"

// writeTo gives a new key for the rows of a write on a PostgreSQL catalog, where the reply to COMMIT can be lost on the way
// between engine and catalog. A redo gets another key, so that it never writes over the file of a COMMIT that is late.
func (s *Session) writeTo(w Write) string {
	if staged := w.Change.Staged; staged != nil {
		return s.stagedKey(w, staged)
	}
	if s.info.catalog != "postgres" || w.Change.Path == "" || w.Change.Changes != nil {
		return ""
	}
	switch w.Change.Op {
	case sluice.OpCreate, sluice.OpReplace, sluice.OpInsert:
		laidOut := len(w.Change.Keep.Partition) > 0
		if !w.Change.remakes() {
			laidOut = len(s.known[w.Change.Target].Layout) > 0
		}
		if laidOut {
			return "" // a file can be registered with a partitioned table only if its path has the keys
		}
		for _, a := range w.Change.Assign {
			if !registrable(a.To.Type) {
				return ""
			}
		}
	case sluice.OpMerge, sluice.OpRegister, sluice.OpNothing:
		return ""
	}
	return s.newKey(w)
}

// registrable reports whether a file with such a column can be made part of a table: the engine takes neither variants nor
// geometries from files that it has not written for the lake itself.
func registrable(t Type) bool {
	return !t.has(func(p Type) bool { return p.Base == "VARIANT" || p.Base == "GEOMETRY" })
}

// newKey gives a key for rows of a write that no other attempt uses.
func (s *Session) newKey(w Write) string {
	nonce := make([]byte, 4)
	_, _ = rand.Read(nonce) // never fails
	return fmt.Sprintf("%s%s%s-%d-%s-%s.parquet", s.info.dataPath, WriteFolder, strings.ReplaceAll(string(w.StreamID), "-", ""),
		w.Seq+1, w.BatchID, hex.EncodeToString(nonce))
}

// metadata is the schema in which the engine shows the lake's own tables.
const metadata = "__ducklake_metadata_" + Catalog

// Resolve finds out, on a session of its own, what became of a write whose outcome is Unknown: Done with the batch's
// marker, NotDone, or a Failure of class NotOurs. Done is not enough on a PostgreSQL catalog, see MissingFiles.
func (s *Session) Resolve(ctx context.Context, w Write) (sluice.Outcome, Control, error) {
	c, err := s.ReadControl(ctx, w.StreamID, w.BatchID)
	return OutcomeOf(w, c, err)
}

// snapshotsBack is how many snapshots are searched for one of ours, newest first.
const snapshotsBack = 1000

// MissingFiles lists the data and delete files that a batch's snapshot added and that are not there with their right size.
// On a PostgreSQL catalog the engine removes files that it has written when the reply to COMMIT is lost, also if the
// snapshot is committed (spec/lake.md rule 3). A snapshot that has expired or is too old to be found has none to speak of.
func (s *Session) MissingFiles(ctx context.Context, id sluice.StreamID, batch sluice.BatchID, seq int64) ([]string, error) {
	if missing, err := s.missingTable(ctx, id, batch); err != nil || len(missing) > 0 || s.info.catalog != "postgres" {
		return missing, err
	}
	return s.MissingOf(ctx, commitInfo(id, batch, seq))
}

// MissingOf lists the files that the commit with an extra info added and that are not there with their right size.
func (s *Session) MissingOf(ctx context.Context, info string) ([]string, error) {
	type file struct {
		path string
		size int64
	}
	var files []file
	err := s.read(ctx, PhaseResolve, "list the files of a commit", func() error {
		snapshot, err := s.snapshotWith(ctx, info)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		rows, err := s.conn.Query(ctx, fmt.Sprintf(`SELECT concat(CASE WHEN f.path_is_relative THEN concat(
				CASE WHEN t.path_is_relative THEN concat(CASE WHEN c.path_is_relative THEN $2 ELSE '' END, c.path) ELSE '' END, t.path) ELSE '' END,
				f.path), f.file_size_bytes
			FROM (SELECT path, path_is_relative, file_size_bytes, table_id FROM %[1]s.ducklake_data_file WHERE begin_snapshot = $1
				UNION ALL SELECT path, path_is_relative, file_size_bytes, table_id FROM %[1]s.ducklake_delete_file WHERE begin_snapshot = $1) AS f
			JOIN %[1]s.ducklake_table t ON t.table_id = f.table_id AND t.begin_snapshot <= $1 AND (t.end_snapshot IS NULL OR t.end_snapshot > $1)
			JOIN %[1]s.ducklake_schema c ON c.schema_id = t.schema_id AND c.begin_snapshot <= $1 AND (c.end_snapshot IS NULL OR c.end_snapshot > $1)`, metadata),
			snapshot, s.info.dataPath)
		if err != nil {
			return err
		}
		files, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (f file, err error) {
			err = row.Scan(&f.path, &f.size)
			return f, err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, f := range files {
		ok, err := s.fileIs(ctx, f.path, f.size)
		if err != nil {
			return nil, err
		}
		if !ok {
			missing = append(missing, f.path)
		}
	}
	return missing, nil
}

// missingTable names the table that a batch has made, if it is not there (see isInPlace). One that is there gets the options of
// the table before it, in case that its loader died before it could say so.
func (s *Session) missingTable(ctx context.Context, id sluice.StreamID, batch sluice.BatchID) (missing []string, err error) {
	doing := fmt.Sprintf("look for the table of batch %s", batch)
	var replaced Table
	var before int64
	err = s.read(ctx, PhaseResolve, doing, func() error {
		var t Table
		var op sluice.Op
		var tableID int64
		err := s.conn.QueryRow(ctx, "SELECT target_schema, target_table, op, target_table_id FROM "+ControlTable(id).SQL()+" WHERE kind = 'marker' AND batch_id = $1",
			string(batch)).Scan(&t.Schema, &t.Name, &op, &tableID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil || op != sluice.OpCreate && op != sluice.OpReplace {
			return err
		}
		ok, now, err := s.tableID(ctx, t)
		switch {
		case err != nil:
			return err
		case !ok:
			missing = append(missing, t.String())
		case op == sluice.OpReplace && now != tableID:
			replaced, before = t, tableID
		}
		return nil
	})
	if err == nil && before != 0 {
		err = s.keepOptions(ctx, replaced, before, doing)
	}
	return missing, err
}

// snapshotOf gives the snapshot of one of our commits, or pgx.ErrNoRows.
func (s *Session) snapshotOf(ctx context.Context, id sluice.StreamID, batch sluice.BatchID, seq int64) (snapshot int64, err error) {
	return s.snapshotWith(ctx, commitInfo(id, batch, seq))
}

func (s *Session) snapshotWith(ctx context.Context, info string) (snapshot int64, err error) {
	err = s.conn.QueryRow(ctx, fmt.Sprintf("SELECT snapshot_id FROM %[1]s.ducklake_snapshot_changes WHERE commit_extra_info = $1 "+
		"AND snapshot_id > (SELECT max(snapshot_id) - %[2]d FROM %[1]s.ducklake_snapshot)", metadata, snapshotsBack), info).Scan(&snapshot)
	return snapshot, err
}

// fileIs looks whether a file is there with its size. A file that is not there breaks nothing.
func (s *Session) fileIs(ctx context.Context, path string, size int64) (bool, error) {
	var have int64
	err := s.conn.QueryRow(ctx, "SELECT coalesce(sum(size), -1)::BIGINT FROM read_blob("+PathLiteral(path)+")").Scan(&have)
	if err == nil {
		return have == size, nil
	}
	f := AsFailure(err, PhaseResolve, "look at file "+path)
	if f.Err.Code == "SLUICE-LOAD-FILE-GONE" {
		return false, nil
	}
	s.broken = true
	return false, f
}
