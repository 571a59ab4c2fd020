package lake

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/sluice"
)

// Chunk is what one batch of a chunk run does (backfill.md §5). The planner stores it with the batch; the loader reads it
// back. Which step it is follows from the batch's op: create makes the staging table, insert and register fill it, replace
// verifies it and swaps it in.
type Chunk struct {
	Generation int64   `json:"generation"`
	PlanHash   string  `json:"plan_hash"`
	Columns    Columns `json:"columns,omitempty"`    // create, replace: the final schema
	KeepExtra  bool    `json:"keep_extra,omitempty"` // create: columns that only the live table has stay, as NULL
	// Source is the chunk's part of the source, in the words of whoever reads it.
	Source json.RawMessage `json:"source,omitempty"`
	Rows   int64           `json:"rows"` // that the chunk, or for replace the whole staging table, must have; negative: not known
	// ExpectedTableID is the live table's id when the run was planned; 0: there was none. For replace.
	ExpectedTableID int64   `json:"expected_table_id,omitempty"`
	Rewrite         bool    `json:"rewrite,omitempty"` // replace: keep the live table's identity where both are of one shape
	Verify          *Verify `json:"verify,omitempty"`  // replace
}

// StagingPrefix begins the names of tables that are being filled. They are hidden from catalogs.
const StagingPrefix = "_sluice_stg_"

// StagingTable is where the chunks of a stream's plan go. The name never comes from the target's, which may have the longest
// length; the generation in it keeps a stale worker off a newer plan's table.
func StagingTable(schema string, id sluice.StreamID, generation int64) Table {
	return Table{Schema: schema, Name: fmt.Sprintf("%s%s_%d", StagingPrefix, strings.ReplaceAll(string(id), "-", "")[:16], generation)}
}

// Part is one statement's worth of a chunk: a SELECT that gives the named columns in the staging table's types.
type Part struct {
	SQL     string
	Columns []string
	Rows    int64    // that it must give; negative: not known
	Files   []string // instead of SQL: Parquet files of our own that become part of the table as they are
	Hive    bool     // Files have partition values in their paths
}

// Staged is a change of a staging table, or its swap.
type Staged struct {
	Layout Layout // create: columns, partition, sort order and comments
	Parts  []Part // insert, register
	Swap   *Swap  // replace
}

// Swap puts a staging table in the place of the live one.
type Swap struct {
	Staging   Table
	StagingID int64
	LiveID    int64 // 0: there is no live table
	Rewrite   bool  // the live table keeps its identity: it is emptied and filled
	Columns   []string
	Covered   []Marker // of batches whose rows the staging table holds
	WriteTo   string   // rewrite: a key of our own for the rows; empty: the engine writes them itself
}

// statements builds the statements of a staged change; t is the staging table, or for a swap the live one.
func (s *Staged) statements(t Table, op sluice.Op, writeTo string) []Statement {
	var out []Statement
	ddl := func(format string, a ...any) {
		out = append(out, Statement{SQL: fmt.Sprintf(format, a...), WantRows: -1})
	}
	switch {
	case s.Swap != nil:
		return s.Swap.statements(t)
	case op == sluice.OpCreate:
		ddl("DROP TABLE IF EXISTS %s", t.SQL()) // of a former try of this step
		ddl("CREATE TABLE %s (%s)", t.SQL(), columnDefs(s.Layout.Columns))
		for _, q := range s.Layout.shape(t) {
			ddl("%s", q)
		}
		return out
	}
	for i, p := range s.Parts {
		switch {
		case len(p.Files) > 0:
			out = append(out, registerFiles(t, p.Files, p.Hive))
		case writeTo == "":
			out = append(out, Statement{SQL: fmt.Sprintf("INSERT INTO %s (%s) %s", t.SQL(), identList(p.Columns), p.SQL), Data: true, WantRows: p.Rows})
		default:
			file := partKey(writeTo, i)
			out = append(
				out,
				Statement{SQL: fmt.Sprintf("COPY (SELECT * FROM (%s) AS p(%s)) TO %s (FORMAT parquet)", p.SQL, identList(p.Columns), Literal(file)), Data: true, WantRows: p.Rows},
				register(t, file),
			)
		}
	}
	return out
}

// partKey is the key of the i-th part of a write.
func partKey(writeTo string, i int) string {
	if i == 0 {
		return writeTo
	}
	return strings.TrimSuffix(writeTo, ".parquet") + fmt.Sprintf("-%d.parquet", i)
}

func (w *Swap) statements(live Table) []Statement {
	var out []Statement
	ddl := func(format string, a ...any) {
		out = append(out, Statement{SQL: fmt.Sprintf(format, a...), WantRows: -1})
	}
	if w.Rewrite {
		all := fmt.Sprintf("SELECT %[1]s FROM %[2]s", identList(w.Columns), w.Staging.SQL())
		ddl("DELETE FROM %s", live.SQL())
		if w.WriteTo == "" {
			return append(out, Statement{SQL: fmt.Sprintf("INSERT INTO %s (%s) %s", live.SQL(), identList(w.Columns), all), Data: true, WantRows: -1})
		}
		return append(
			out,
			Statement{SQL: fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet)", all, Literal(w.WriteTo)), Data: true, WantRows: -1},
			register(live, w.WriteTo),
		)
	}
	// Never the other way round, and nothing else of the table in one transaction (duckdb/ducklake#1070, #1332).
	if w.LiveID != 0 {
		ddl("DROP TABLE %s", live.SQL())
	}
	ddl("ALTER TABLE %s RENAME TO %s", w.Staging.SQL(), Ident(live.Name))
	return out
}

// inlined is how many rows of one INSERT the control table keeps in the catalog. More would become a data file, which a lost
// reply to COMMIT takes away (docs/adr/0100).
const inlined = 10

// coveredMarkers gives the INSERTs of the markers of covered batches that have none yet.
func coveredMarkers(id sluice.StreamID, seq, tableID int64, target Table, covered []Marker) []Statement {
	ctl := ControlTable(id).SQL()
	var out []Statement
	for part := range slices.Chunk(covered, inlined) {
		rows := make([]string, len(part))
		for i, m := range part {
			rows[i] = fmt.Sprintf("(%d, %d, %s, %s)", m.RunSeq, m.BatchIndex, Literal(string(m.RunID)), Literal(string(m.BatchID)))
		}
		out = append(out, Statement{WantRows: -1, SQL: fmt.Sprintf(`INSERT INTO %[1]s SELECT 'marker', %[2]d, c.run_seq, c.batch_index, c.run_id, c.batch_id, `+
			`'covered', %[3]s, %[4]s, %[5]d, 0, now() FROM (VALUES %[6]s) AS c(run_seq, batch_index, run_id, batch_id) `+
			`WHERE NOT EXISTS (SELECT 1 FROM %[1]s AS m WHERE m.kind = 'marker' AND m.batch_id = c.batch_id)`,
			ctl, seq, Literal(target.Schema), Literal(target.Name), tableID, strings.Join(rows, ", "))})
	}
	return out
}

// registerFiles makes files part of a table, all in one call: each call reads the table's state anew.
func registerFiles(t Table, files []string, hive bool) Statement {
	list := make([]string, len(files))
	for i, f := range files {
		list[i] = Literal(f)
	}
	return Statement{
		SQL: fmt.Sprintf("CALL ducklake_add_data_files(%s, %s, [%s], schema => %s, allow_missing => true, hive_partitioning => %t)",
			Literal(Catalog), Literal(t.Name), strings.Join(list, ", "), Literal(t.Schema), hive),
		WantRows: -1,
	}
}

// MarshalText renders a type as the engine writes it.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText has written.
func (t *Type) UnmarshalText(text []byte) (err error) {
	*t, err = ParseType(string(text))
	return err
}
