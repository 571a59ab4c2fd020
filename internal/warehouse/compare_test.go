package warehouse_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"sluice/internal/testkit/pg"
	"sluice/internal/warehouse"
)

var update = flag.Bool("update", false, "write docs/postgres-queries.md anew")

// Queries that PostgreSQL and a warehouse both know give the same rows, names and error codes; the page lists those that do
// not, and is compared with what is.
func TestAnswersOfPostgres(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/compare.sql")
	if err != nil {
		t.Fatal(err)
	}
	srv, _ := start(t, warehouse.Config{})
	ours := connect(t, srv, "olga")
	theirs, err := pgx.Connect(t.Context(), pg.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = theirs.Close(t.Context()) }()
	if _, err := theirs.Exec(t.Context(), "SET TimeZone = 'UTC'"); err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	n, same := 0, 0
	for sql := range strings.Lines(string(raw)) {
		if sql = strings.TrimSpace(sql); sql == "" || strings.HasPrefix(sql, "--") {
			continue
		}
		n++
		a, b := answer(t, theirs, sql), answer(t, ours, sql)
		if a == b {
			same++
			continue
		}
		fmt.Fprintf(&page, "| `%s` | `%s` | `%s` |\n", escapeCell(sql), escapeCell(a), escapeCell(b))
	}
	text := fmt.Sprintf("# Queries compared with PostgreSQL\n\n%d queries of `internal/warehouse/testdata/compare.sql` are sent to PostgreSQL 15 and to a warehouse. %d have the same rows, "+
		"names of columns and SQLSTATEs; these have not (first row of names, then rows; an error is its SQLSTATE). `go test ./internal/warehouse -run TestAnswersOfPostgres -update` writes this page.\n\n"+
		"| query | PostgreSQL | warehouse |\n|---|---|---|\n%s", n, same, page.String())
	const file = "../../docs/postgres-queries.md"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != text {
		t.Errorf("the page is not what was found (%v); now it is\n%s", err, text)
	}
}

func escapeCell(s string) string {
	return strings.NewReplacer("|", "¦", "\n", " ⏎ ", "`", "'").Replace(s)
}

// answer is what a query gives: names and rows as text, or the error's code.
func answer(t *testing.T, c *pgx.Conn, sql string) string {
	t.Helper()
	results, err := c.PgConn().Exec(t.Context(), sql).ReadAll()
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var lines []string
	for _, r := range results {
		var names []string
		for _, f := range r.FieldDescriptions {
			names = append(names, f.Name)
		}
		lines = append(lines, strings.Join(names, ", "))
		for _, row := range r.Rows {
			var cells []string
			for _, v := range row {
				if v == nil {
					cells = append(cells, "NULL")
				} else {
					cells = append(cells, string(v))
				}
			}
			lines = append(lines, strings.Join(cells, ", "))
		}
	}
	return strings.Join(lines, "\n")
}
