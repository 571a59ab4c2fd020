package demo

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"sluice/examples/flights"
	"sluice/internal/api"
	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// verify compares the tables with the files, by SQL over the wire.
func verify(ctx context.Context, a *app.App, cfg *config.Loaded, streams map[string]api.Stream, history string, batches []batch, report *Report) error {
	conn, err := connect(ctx, a)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var wrong []string
	for _, name := range tableNames() {
		t, err := compare(ctx, conn, name, history, batches)
		if err != nil {
			return err
		}
		report.Tables = append(report.Tables, t)
		if !t.OK {
			wrong = append(wrong, fmt.Sprintf("%s has %d rows instead of %d, %d missing, %d extra", t.Table, t.Rows, t.Expected, t.Missing, t.Extra))
		}
		n, err := markers(ctx, conn, streams[name], name, batches)
		if err != nil {
			return err
		}
		report.Markers += n
	}
	if report.Markers != report.Batches {
		wrong = append(wrong, fmt.Sprintf("%d batches are marked as applied instead of %d", report.Markers, report.Batches))
	}
	if covered := int64(3); report.Covered != covered {
		wrong = append(wrong, fmt.Sprintf("%d batches are covered by the history instead of %d", report.Covered, covered))
	}
	seen, more, err := flightsAnswer(ctx, conn, batches)
	if err != nil {
		return err
	}
	report.Flights = seen
	if wrong = append(wrong, more...); len(wrong) > 0 {
		return mismatch(cfg, wrong)
	}
	return nil
}

func tableNames() []string {
	var names []string
	seen := map[string]bool{}
	for _, e := range flights.Extracts {
		if !seen[e.Stream] {
			seen[e.Stream], names = true, append(names, e.Stream)
		}
	}
	return names
}

// connect opens a session with the rights of a loader: it may read the files as well as the tables.
func connect(ctx context.Context, a *app.App) (*pgx.Conn, error) {
	cred, err := a.LoaderCredential(ctx, Org)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(a.WarehouseAddr())
	if err != nil {
		return nil, fmt.Errorf("connect to the warehouse: %w", err)
	}
	c, err := pgx.ParseConfig("sslmode=disable application_name=sluice-demo")
	if err != nil {
		return nil, fmt.Errorf("connect to the warehouse: %w", err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("connect to the warehouse: %w", err)
	}
	c.Host, c.Port, c.User, c.Password, c.Database = host, uint16(n), cred.User, cred.Password, Org
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("connect to the warehouse: %w", err)
	}
	return conn, nil
}

// tableOf is the table of a stream, as a reader would write it.
func tableOf(name string) string { return Schema + "." + sourceType + "_" + name }

// files are the paths of a stream's extracts: those that came first, and the corrections over them.
func files(name string, batches []batch) (first, corrections []string) {
	for _, b := range batches {
		switch {
		case b.stream != name, b.inHistory: // what the history holds is read from there
		case strings.Contains(b.path, "-corrections"):
			corrections = append(corrections, lake.Literal(b.path))
		default:
			first = append(first, lake.Literal(b.path))
		}
	}
	return first, corrections
}

// want is a query of the rows that a table must have, made from the files alone.
func want(name, history string, batches []batch) string {
	first, corrections := files(name, batches)
	if name == "flights" { // ten appends: each file of the table is in its newest version
		first = append(first, lake.Literal(filepath.Join(history, "*.parquet")))
	}
	q := "SELECT * FROM read_parquet([" + strings.Join(first, ", ") + "])"
	if len(corrections) == 0 {
		return q
	}
	c := "read_parquet([" + strings.Join(corrections, ", ") + "])"
	return fmt.Sprintf("SELECT * FROM (%s) WHERE id NOT IN (SELECT id FROM %s) UNION ALL SELECT * FROM %s", q, c, c)
}

func compare(ctx context.Context, conn *pgx.Conn, name, history string, batches []batch) (Table, error) {
	t := Table{Table: tableOf(name)}
	for _, b := range batches {
		if b.stream == name {
			t.Batches++
		}
	}
	is := "SELECT * FROM " + t.Table
	for _, q := range []struct {
		sql string
		to  *int64
	}{
		{"SELECT count(*) FROM (" + is + ")", &t.Rows},
		{"SELECT count(*) FROM (" + want(name, history, batches) + ")", &t.Expected},
		{"SELECT count(*) FROM (" + want(name, history, batches) + " EXCEPT ALL " + is + ")", &t.Missing},
		{"SELECT count(*) FROM (" + is + " EXCEPT ALL (" + want(name, history, batches) + "))", &t.Extra},
	} {
		if err := conn.QueryRow(ctx, q.sql).Scan(q.to); err != nil {
			return t, fmt.Errorf("compare %s with its files: %w", t.Table, err)
		}
	}
	t.OK = t.Rows == t.Expected && t.Missing == 0 && t.Extra == 0
	return t, nil
}

// markers counts the stream's batches that have exactly one marker.
func markers(ctx context.Context, conn *pgx.Conn, s api.Stream, name string, batches []batch) (int64, error) {
	rows, err := conn.Query(ctx, "SELECT batch_id, count(*) FROM "+lake.ControlTable(s.StreamID).SQL()+" WHERE kind = 'marker' GROUP BY batch_id")
	if err != nil {
		return 0, fmt.Errorf("read the markers of %s: %w", name, err)
	}
	count := map[string]int64{}
	var id string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error {
		count[id] = n
		return nil
	}); err != nil {
		return 0, fmt.Errorf("read the markers of %s: %w", name, err)
	}
	var once int64
	for _, b := range batches {
		if b.stream == name && count[string(b.id)] == 1 {
			once++
		}
	}
	return once, nil
}

// flightsAnswer compares the flights with the right answer that comes with the sample.
func flightsAnswer(ctx context.Context, conn *pgx.Conn, batches []batch) (seen Flights, wrong []string, err error) {
	var got flights.Answer
	t := tableOf("flights")
	err = conn.QueryRow(ctx, "SELECT count(*), count(DISTINCT id), sum(id)::BIGINT, sum(dep_delay)::BIGINT, sum(arr_delay)::BIGINT FROM "+t).
		Scan(&got.Rows, &seen.IDs, &got.IDs, &got.DepDelay, &got.ArrDelay)
	if err != nil {
		return seen, nil, fmt.Errorf("sum up %s: %w", t, err)
	}
	_, corrections := files("flights", batches)
	err = conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM %s t JOIN read_parquet([%s]) c USING (id) WHERE t.arr_delay = c.arr_delay", t, strings.Join(corrections, ", "))).Scan(&seen.Corrected)
	if err != nil {
		return seen, nil, fmt.Errorf("count the corrections of %s: %w", t, err)
	}
	seen.Rows = got.Rows
	if got != flights.WholeYear || seen.IDs != got.Rows {
		wrong = append(wrong, fmt.Sprintf("flights sum up to %+v with %d ids instead of %+v", got, seen.IDs, flights.WholeYear))
	}
	if seen.Corrected != flights.CorrectedRows {
		wrong = append(wrong, fmt.Sprintf("%d delays are corrected instead of %d", seen.Corrected, flights.CorrectedRows))
	}
	return seen, wrong, nil
}

func mismatch(cfg *config.Loaded, wrong []string) error {
	return sluice.E("SLUICE-DEMO-MISMATCH", "compare the tables with the files", strings.Join(wrong, "; "), "look at "+cfg.Data+" and report this", nil)
}
