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
	if s.info.catalog != "postgres" || w.Change.Path == "" || w.Change.Changes != nil {
		return ""
	}
	switch w.Change.Op {
	case sluice.OpCreate, sluice.OpReplace, sluice.OpInsert:
	case sluice.OpMerge, sluice.OpRegister, sluice.OpNothing:
		return ""
	}
	nonce := make([]byte, 4)
	_, _ = rand.Read(nonce) // never fails
	return fmt.Sprintf("%s%s%s-%d-%s-%s.parquet", s.info.dataPath, WriteFolder, strings.ReplaceAll(string(w.StreamID), "-", ""),
		w.Seq+1, w.BatchID, hex.EncodeToString(nonce))
}

// Resolve finds out, on a session of its own, what became of a write whose outcome is Unknown. On a PostgreSQL catalog a
// marker is not enough: the engine may have removed the data files of a snapshot that is committed, so they are looked at
// too. One that is missing is a Failure of outcome Damaged.
func (s *Session) Resolve(ctx context.Context, w Write) (sluice.Outcome, Control, error) {
	c, err := s.ReadControl(ctx, w.StreamID, w.BatchID)
	outcome, c, err := OutcomeOf(w, c, err)
	if outcome != sluice.Done || s.info.catalog != "postgres" {
		return outcome, c, err
	}
	missing, err := s.MissingFiles(ctx, w.StreamID, w.BatchID, c.Marker.Seq)
	if err != nil {
		return sluice.Unknown, c, err
	}
	if len(missing) == 0 {
		return sluice.Done, c, nil
	}
	f := Fail(PhaseResolve, Permanent, sluice.E("SLUICE-LAKE-DAMAGED", fmt.Sprintf("resolve batch %d of run %s", w.BatchIndex, w.RunID),
		fmt.Sprintf("%d data files of the committed batch are missing, such as %s", len(missing), missing[0]),
		"nothing was loaded after it; see SLUICE-LAKE-DAMAGED in docs/errors.md", nil))
	f.Outcome = sluice.Damaged
	return sluice.Damaged, c, f
}

// snapshotsBack is how many snapshots are searched for one of ours, newest first.
const snapshotsBack = 1000

// MissingFiles lists the data and delete files that a batch's snapshot added and that are not there with their right size.
// A snapshot that has expired or is too old to be found has none to speak of.
func (s *Session) MissingFiles(ctx context.Context, id sluice.StreamID, batch sluice.BatchID, seq int64) ([]string, error) {
	type file struct {
		path string
		size int64
	}
	var files []file
	const meta = "__ducklake_metadata_" + Catalog
	err := s.read(ctx, PhaseResolve, fmt.Sprintf("list the files of batch %s", batch), func() error {
		var snapshot int64
		err := s.conn.QueryRow(ctx, "SELECT snapshot_id FROM "+meta+".ducklake_snapshot_changes WHERE commit_extra_info = $1 "+
			fmt.Sprintf("AND snapshot_id > (SELECT max(snapshot_id) - %d FROM %s.ducklake_snapshot)", snapshotsBack, meta),
			commitInfo(id, batch, seq)).Scan(&snapshot)
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
			JOIN %[1]s.ducklake_schema c ON c.schema_id = t.schema_id AND c.begin_snapshot <= $1 AND (c.end_snapshot IS NULL OR c.end_snapshot > $1)`, meta),
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
