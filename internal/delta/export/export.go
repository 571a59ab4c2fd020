package export

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/internal/delta"
	"sluice/internal/delta/schema"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
)

// CodeTarget is the code of a file that cannot be written because it is there, or is being written.
const CodeTarget sluice.Code = "SLUICE-DELTA-TARGET"

// Engine runs statements: a connection of DuckDB. With tables in S3 it has loaded httpfs.
type Engine interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Options say what is written, and where to.
type Options struct {
	Out   string // path of the file
	Force bool   // replace an existing one
	// Planned is told how many of the files have been looked at, before anything is read.
	Planned func(done, total int64)
	// Writing is told how many rows will be read, before the one statement that reads them.
	Writing func(rows int64)
}

// Result is what was written.
type Result struct {
	Rows    int64   `json:"rows"`
	Files   int64   `json:"files"`
	Bytes   int64   `json:"bytes"`
	Version int64   `json:"version"`
	Out     string  `json:"out"`
	Seconds float64 `json:"seconds"`
}

// batchFiles is how many files are planned at a time: their footers are in memory together.
const batchFiles = 4096

// Run writes the snapshot.
func Run(ctx context.Context, t *delta.Table, s *delta.Snapshot, e Engine, o Options) (Result, error) {
	r, err := run(ctx, t, s, e, o)
	if err != nil {
		return Result{}, during(err, fmt.Sprintf("export version %d of %s", s.Version(), t.URI()))
	}
	return r, nil
}

// during says what was being done, unless the error says so itself.
func during(err error, doing string) error {
	var own *sluice.Error
	if errors.As(err, &own) && own.Doing != "" {
		return err
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func run(ctx context.Context, t *delta.Table, s *delta.Snapshot, e Engine, o Options) (_ Result, err error) {
	start := time.Now()
	if len(s.Schema().Fields) == 0 {
		return Result{}, sluice.E(delta.CodeSchema, "", "the table has no columns", "wait until its writer has given it a schema", nil)
	}
	dst, err := openTarget(o.Out, o.Force)
	if err != nil {
		return Result{}, err
	}
	defer dst.close()
	x := &exporter{t: t, s: s, dst: dst, planned: o.Planned, writing: o.Writing}
	at, err := objstore.ParseLocation(t.URI())
	if err != nil {
		return Result{}, err
	}
	if at.Scheme != objstore.SchemeFile {
		if x.pins, err = servePinned(ctx, t, s.Version()); err != nil {
			return Result{}, err
		}
		defer x.pins.close()
	}
	if err := x.plan(ctx); err != nil {
		return Result{}, err
	}
	if err := x.write(ctx, e); err != nil {
		return Result{}, err
	}
	size, err := dst.publish()
	if err != nil {
		return Result{}, err
	}
	return Result{x.rows, x.files, size, s.Version(), dst.path, time.Since(start).Seconds()}, nil
}

// exporter is one export.
type exporter struct {
	t       *delta.Table
	s       *delta.Snapshot
	dst     *target
	pins    *pins // nil: data files are read by their own names
	planned func(done, total int64)
	writing func(rows int64)

	selects     []string
	rows, files int64
	local       []delta.File // looked at again after they were read
}

// plan makes the statements, and the side files that they need, from some files at a time.
func (x *exporter) plan(ctx context.Context) error {
	total := int64(0)
	if x.planned != nil {
		for _, err := range x.s.Files(ctx) {
			if err != nil {
				return err
			}
			total++
		}
	}
	var batch []delta.File
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := x.planBatch(ctx, batch)
		x.files += int64(len(batch))
		batch = nil
		if x.planned != nil {
			x.planned(x.files, total)
		}
		return err
	}
	for f, err := range x.s.Files(ctx) {
		if err != nil {
			return err
		}
		if batch = append(batch, f); len(batch) == batchFiles {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func (x *exporter) planBatch(ctx context.Context, files []delta.File) error {
	footers, err := x.t.Inspect(ctx, x.s.Version(), files)
	if err != nil {
		return err
	}
	plan, err := delta.NewPlan(x.s.Spec(), files, footers)
	if err != nil {
		return err
	}
	sides := delta.Sides{}
	if plan.Partitioned() {
		sides.Files = x.dst.side("files", len(x.selects))
		if err := create(sides.Files, func(f *os.File) error { return plan.WriteFiles(f) }); err != nil {
			return err
		}
	}
	if plan.Deleted() > 0 {
		vectors, err := x.t.Vectors(ctx, x.s.Version(), files)
		if err != nil {
			return err
		}
		sides.Deleted = x.dst.side("deleted", len(x.selects))
		if err := create(sides.Deleted, func(f *os.File) error { return plan.WriteDeleted(f, vectors) }); err != nil {
			return err
		}
	}
	if x.pins != nil {
		sides.Moved = map[string]string{}
		for i := range files {
			sides.Moved[files[i].URI] = x.pins.add(files[i])
		}
	} else {
		x.local = append(x.local, files...)
	}
	for i := range plan.Groups {
		x.selects = append(x.selects, plan.Groups[i].Select(plan.Columns, sides))
	}
	x.rows += plan.Rows()
	return nil
}

// create writes a file whole.
func create(path string, fill func(*os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Close())
}

// write lets the engine write the rows, and checks them.
func (x *exporter) write(ctx context.Context, e Engine) error {
	query := strings.Join(x.selects, "\nUNION ALL\n")
	if query == "" {
		query = nothing(x.s.Schema())
	}
	for _, set := range []string{"SET TimeZone = 'UTC'", "SET preserve_insertion_order = false"} {
		if _, err := e.ExecContext(ctx, set); err != nil {
			return fmt.Errorf("prepare the engine: %w", err)
		}
	}
	if x.writing != nil {
		x.writing(x.rows)
	}
	var written int64
	err := e.QueryRowContext(ctx, fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet)", query, literal(x.dst.data()))).Scan(&written)
	if x.pins != nil {
		// What the store said is the cause of whatever the engine makes of it.
		if lost := x.pins.failure(); lost != nil {
			return lost
		}
	}
	if gone := x.t.Unchanged(ctx, x.s.Version(), x.local); gone != nil {
		return gone
	}
	if err != nil {
		return fmt.Errorf("read the rows: %w", err)
	}
	var stored int64
	if err := e.QueryRowContext(ctx, fmt.Sprintf("SELECT num_rows FROM parquet_file_metadata(%s)", literal(x.dst.data()))).Scan(&stored); err != nil {
		return fmt.Errorf("read the written file: %w", err)
	}
	if written != x.rows || stored != x.rows {
		return sluice.E(delta.CodeRowCount, "", fmt.Sprintf("%d rows were read and %d written, planned were %d", written, stored, x.rows),
			"nothing was written; report it with the table's log", nil)
	}
	return nil
}

// nothing is a query without rows that has the table's columns.
func nothing(s *schema.Schema) string {
	var columns []string
	for _, f := range s.Fields {
		columns = append(columns, fmt.Sprintf("NULL::%s AS %s", f.Type.SQL(), schema.Quote(f.Name)))
	}
	return "SELECT " + strings.Join(columns, ", ") + " LIMIT 0"
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// partsOf names the directory of a file's parts.
func partsOf(path string) string {
	dir, name := filepath.Split(path)
	return filepath.Join(dir, "."+name+".part")
}
