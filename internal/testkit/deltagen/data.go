package deltagen

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	_ "github.com/duckdb/duckdb-go/v2" // the engine writes the Parquet files
)

var engine = sync.OnceValues(func() (*sql.DB, error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	_, err = db.Exec("SET TimeZone = 'UTC'; SET threads = 2; SET preserve_insertion_order = true")
	return db, err
})

// Engine is the engine that writes files, shared by the tests of a process. They may ask it as well, to compare rows.
func (g *Table) Engine() *sql.DB {
	g.t.Helper()
	db, err := engine()
	g.must(err)
	return db
}

// Quote writes a text of SQL.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Copy writes the rows of a query as a Parquet file; options as in COPY, such as FIELD_IDS.
func (g *Table) Copy(path, query string, options ...string) {
	g.t.Helper()
	g.must(os.MkdirAll(filepath.Dir(path), 0o755))
	// The engine reads some characters of a name as its own: it writes under a plain one.
	temp, err := os.CreateTemp(filepath.Dir(path), "deltagen-*.tmp")
	g.must(err)
	g.must(temp.Close())
	_, err = g.Engine().Exec(fmt.Sprintf("COPY (%s) TO %s (%s)", query, Quote(temp.Name()), strings.Join(append([]string{"FORMAT parquet"}, options...), ", ")))
	if err != nil {
		err = fmt.Errorf("%w in: %s", err, query)
	}
	g.must(err)
	g.must(os.Rename(temp.Name(), path))
}

// Data writes a data file with the rows of a query, under a key of the table, and gives the add that names it, with the
// number of rows as its statistics.
func (g *Table) Data(key, query string, options ...string) Add {
	g.t.Helper()
	path := g.Path(key)
	g.Copy(path, query, options...)
	add := g.describe(path)
	add.Path = Escape(key)
	return add
}

// DataAt writes a data file anywhere; the path of the add is its absolute path, as given.
func (g *Table) DataAt(path, query string, options ...string) Add {
	g.t.Helper()
	g.Copy(path, query, options...)
	add := g.describe(path)
	add.Path = Escape(path)
	return add
}

func (g *Table) describe(path string) Add {
	g.t.Helper()
	info, err := os.Stat(path)
	g.must(err)
	add := Add{Size: info.Size(), ModificationTime: 1_700_000_000_000, DataChange: true}
	f, err := os.Open(path)
	g.must(err)
	defer f.Close()
	// By a plain name again.
	link := filepath.Join(g.t.TempDir(), "link.parquet")
	g.must(os.Symlink(path, link))
	g.must(g.Engine().QueryRow("SELECT count(*) FROM read_parquet(" + Quote(link) + ")").Scan(&add.Rows))
	add.Stats = Text(fmt.Sprintf(`{"numRecords":%d}`, add.Rows))
	return add
}

// FieldIDs is the COPY option that writes field ids, in the engine's notation: {a: 1, b: {__duckdb_field_id: 2, c: 3}}.
func FieldIDs(ids string) string { return "FIELD_IDS " + ids }
