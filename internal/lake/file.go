package lake

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"sluice/internal/sluice"
)

// footers looks at the footers of files in one statement: what is in them, and a hash of the schema, from which the columns
// follow (spec/loader.md §6.7). The footer of a GeoParquet file also says which columns are geometries.
const footers = `SELECT parquet_file_metadata[1].file_name, parquet_file_metadata[1].num_rows, parquet_file_metadata[1].file_size_bytes::BIGINT,
	md5(concat([[n."name", n."type", n.type_length, n.repetition_type, n.num_children::VARCHAR, n.converted_type, n.scale::VARCHAR, n."precision"::VARCHAR,
		n.logical_type, n.duckdb_type] for n in parquet_schema]::VARCHAR, list_contains([kv."key" for kv in parquet_kv_metadata], 'geo'::BLOB))),
	md5([[c.row_group_id::VARCHAR, c.column_id::VARCHAR, c.num_values::VARCHAR, c.stats_null_count::VARCHAR, c.stats_min_value, c.stats_max_value,
		c.total_compressed_size::VARCHAR, c.data_page_offset::VARCHAR] for c in parquet_metadata]::VARCHAR)
	FROM parquet_full_metadata([%s])`

// DescribeFile reads the footer of a Parquet file. It touches no lake, needs no transaction and leaves none behind.
func (s *Session) DescribeFile(ctx context.Context, path string) (File, error) {
	files, err := s.DescribeFiles(ctx, []string{path})
	if err != nil {
		return File{}, err
	}
	return files[path], nil
}

// DescribeFiles reads the footers of several files at once, which costs little more than one of them. If any of them cannot
// be read it is an error. An error of the engine about more than one leaves the session as it was: it does not say whose it is.
func (s *Session) DescribeFiles(ctx context.Context, paths []string) (map[string]File, error) {
	doing := "describe file " + paths[0]
	if n := len(paths) - 1; n > 0 {
		doing += fmt.Sprintf(" and %d after it", n)
	}
	literals := make([]string, len(paths))
	for i, p := range paths {
		literals[i] = PathLiteral(p)
	}
	fail := func(err error) error {
		if len(paths) > 1 && sqlState(err) != "" {
			return AsFailure(err, PhaseDescribe, doing)
		}
		return s.fail(err, PhaseDescribe, doing)
	}
	type look struct {
		path, schema string
		File
	}
	rows, err := s.conn.Query(ctx, fmt.Sprintf(footers, strings.Join(literals, ", ")))
	if err != nil {
		return nil, fail(err)
	}
	looks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l look, err error) {
		return l, row.Scan(&l.path, &l.Rows, &l.SizeBytes, &l.schema, &l.Tag)
	})
	if err != nil {
		return nil, fail(err)
	}
	out := make(map[string]File, len(paths))
	for _, l := range looks {
		if l.Columns, err = s.columnsOf(ctx, l.path, l.schema); err != nil {
			return nil, fail(err)
		}
		l.Tag = sluice.FooterTag + l.Tag
		out[l.path] = l.File
	}
	for _, p := range paths {
		if _, ok := out[p]; !ok {
			return nil, s.fail(internalFailure(PhaseDescribe, "the engine does not say what is in file %s", p), PhaseDescribe, doing)
		}
	}
	return out, nil
}

// schemasKept bounds what a session remembers of schemas.
const schemasKept = 64

// columnsOf gives the columns that the engine makes of a file's schema. A session asks once for each schema.
func (s *Session) columnsOf(ctx context.Context, path, schema string) (Columns, error) {
	if known, ok := s.schemas[schema]; ok {
		return slices.Clone(known), nil
	}
	columns, err := s.describe(ctx, "SELECT * FROM "+readParquet(path, false))
	if err != nil {
		return nil, err
	}
	odd := false
	err = s.conn.QueryRow(ctx, fmt.Sprintf("SELECT coalesce(bool_or(%s), false) OR count(*) > count(DISTINCT lower(name)) FROM parquet_schema(%s)",
		misread, PathLiteral(path))).Scan(&odd)
	if err == nil && odd {
		err = s.correct(ctx, path, columns)
	}
	if err != nil {
		return nil, err
	}
	if len(s.schemas) >= schemasKept {
		clear(s.schemas)
	}
	s.schemas[schema] = columns
	return slices.Clone(columns), nil
}
