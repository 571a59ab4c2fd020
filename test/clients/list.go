package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// clients are the rows of the table.
func clients() []client {
	python := func(file string) func(context.Context, target) ([]outcome, error) {
		return script("{deps}/python/bin/python", "{scripts}/"+file)
	}
	return []client{
		{"psql", psql},
		{"pgx", pgxClient},
		{"psycopg 3", python("psycopg3.py")},
		{"SQLAlchemy", python("alchemy.py")},
		{"ADBC", python("adbc.py")},
		{"node-postgres", func(ctx context.Context, t target) ([]outcome, error) {
			got, err := script("node", "{scripts}/node.js")(ctx, t)
			return append(got, outcome{check: "version", note: npmVersion(t.deps, "pg")}), err
		}},
		{"pgjdbc", func(ctx context.Context, t target) ([]outcome, error) {
			jars, _ := filepath.Glob(filepath.Join(t.deps, "java", "postgresql-*.jar"))
			if len(jars) == 0 {
				return nil, errors.New("the driver is not installed")
			}
			got, err := script("java", "-cp", jars[0], "{scripts}/Jdbc.java")(ctx, t)
			version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), "postgresql-"), ".jar")
			return append(got, outcome{check: "version", note: version}), err
		}},
		{"DBeaver's queries", queries("dbeaver.sql")},
		{"Metabase's queries", queries("metabase.sql")},
		{"Grafana's queries", queries("grafana.sql")},
		{"Superset's queries", queries("superset.sql")},
	}
}

// collect runs checks and gathers their outcomes.
func collect(list map[string]func() (string, error)) []outcome {
	var got []outcome
	for _, name := range checks {
		if f := list[name]; f != nil {
			note, err := f()
			if err != nil {
				note = err.Error()
			}
			got = append(got, outcome{check: name, ok: err == nil, note: note})
		}
	}
	return got
}

const slow = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range % 7 = b.range % 3"

func psql(ctx context.Context, t target) ([]outcome, error) {
	dir, err := os.MkdirTemp("", "sluice-psql-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ask := func(commands string, want ...string) error {
		cmd := exec.CommandContext(ctx, "psql", "-X", "-q", "-A", "-t", t.dsn())
		cmd.Env, cmd.Dir, cmd.Stdin = t.env(), dir, strings.NewReader(commands)
		out, err := cmd.CombinedOutput()
		for _, w := range want {
			if !strings.Contains(string(out), w) {
				return fmt.Errorf("%q is not in %q (%w)", w, out, errors.Join(err))
			}
		}
		return nil
	}
	version, err := exec.CommandContext(ctx, "psql", "--version").Output()
	if err != nil {
		return nil, err
	}
	out := collect(map[string]func() (string, error){
		"types, text": func() (string, error) {
			return "", ask("SELECT true, 7::int2, -1.50::numeric(10,2), 'NaN'::float8, '\\xff00'::bytea, DATE '1999-12-31', ARRAY[1,NULL,3], INTERVAL '1 day 02:03:04', NULL;",
				"t|7|-1.50|NaN|\\xff00|1999-12-31|{1,NULL,3}|1 day 02:03:04|\n")
		},
		"prepared statements": func() (string, error) {
			return "", ask("PREPARE p AS SELECT $1::int + 1; EXECUTE p(41);\nSELECT 5 AS a \\gdesc\n", "42\n", "a|integer\n")
		},
		"cursors": func() (string, error) {
			return "", ask("\\set FETCH_COUNT 10\nSELECT range FROM range(95);\nBEGIN; DECLARE c CURSOR FOR SELECT range FROM range(1000); MOVE 900 FROM c; FETCH 1 FROM c; COMMIT;\n", "94\n", "900\n")
		},
		"errors": func() (string, error) {
			return "", ask("\\set VERBOSITY verbose\nSELECT * FROM nowhere;\nSELECT 1+1;\n", "ERROR:  42P01", "2\n")
		},
		"transactions": func() (string, error) {
			return "", ask("CREATE OR REPLACE TABLE psql_tx (i INTEGER); BEGIN; INSERT INTO psql_tx VALUES (1); SAVEPOINT a; RELEASE a; ROLLBACK; SELECT 'n' || count(*) FROM psql_tx;\n", "n0\n")
		},
		"cancel": func() (string, error) {
			cmd := exec.CommandContext(ctx, "psql", "-X", t.dsn(), "-c", slow)
			cmd.Env = t.env()
			go func() { time.Sleep(time.Second); _ = cmd.Process.Signal(os.Interrupt) }()
			if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), "canceling statement due to user request") {
				return "", fmt.Errorf("%q", out)
			}
			return "SIGINT", nil
		},
		"COPY in": func() (string, error) {
			if err := os.WriteFile(filepath.Join(dir, "in.csv"), []byte("i,s\n1,\"a,b\"\n2,\n"), 0o600); err != nil {
				return "", err
			}
			err := ask("CREATE OR REPLACE TABLE psql_copy (i INTEGER, s TEXT);\n\\copy psql_copy FROM in.csv CSV HEADER\nSELECT 'n' || count(*) || count(s) FROM psql_copy;\n", "n21\n")
			return "\\copy with CSV HEADER", err
		},
		"COPY out": func() (string, error) {
			if err := ask("\\copy (SELECT range, 'x' FROM range(3)) TO out.txt\n"); err != nil {
				return "", err
			}
			raw, err := os.ReadFile(filepath.Join(dir, "out.txt"))
			if string(raw) != "0\tx\n1\tx\n2\tx\n" {
				return "", fmt.Errorf("%q, %w", raw, errors.Join(err))
			}
			return "\\copy", nil
		},
		"catalog": func() (string, error) {
			err := ask("CREATE SCHEMA IF NOT EXISTS ps; CREATE OR REPLACE TABLE ps.t (i INTEGER NOT NULL, s TEXT);\n\\d ps.t\n\\dt ps.*\n\\dn\n\\l\n\\df\n\\du\n\\d+ ps.t\n",
				"i|integer||not null|", "ps|t|table|olga", "ps|olga", "acme|olga|UTF8")
			return "\\d, \\dt, \\d table, \\dn, \\l, \\df, \\du", err
		},
	})
	return append(out, outcome{check: "version", note: strings.Fields(string(version))[2]}), nil
}

func pgxClient(ctx context.Context, t target) ([]outcome, error) {
	with := func(f func(c *pgx.Conn) (string, error)) func() (string, error) {
		return func() (string, error) {
			c, err := pgx.Connect(ctx, t.dsn())
			if err != nil {
				return "", err
			}
			defer func() { _ = c.Close(ctx) }()
			return f(c)
		}
	}
	types := func(mode pgx.QueryExecMode) func(c *pgx.Conn) (string, error) {
		return func(c *pgx.Conn) (string, error) {
			values := []struct {
				sql string
				v   any
			}{
				{"bool", true},
				{"int2", int16(-7)},
				{"int4", int32(1 << 30)},
				{"int8", int64(1) << 62},
				{"float8", 1e-300},
				{"text", "ü'\""},
				{"bytea", []byte{0, 255}},
				{"timestamptz", time.Date(2024, 7, 1, 12, 0, 0, 5000, time.UTC)},
				{"int4[]", []int32{1, 2}},
			}
			for _, v := range values {
				var got any
				if err := c.QueryRow(ctx, "SELECT $1::"+v.sql, mode, v.v).Scan(&got); err != nil {
					return "", fmt.Errorf("%s: %w", v.sql, err)
				}
				if at, ok := got.(time.Time); ok {
					got = at.UTC()
				}
				if list, ok := got.([]any); ok {
					got = []int32{list[0].(int32), list[1].(int32)} //nolint:forcetypeassert // what else could int4[] be
				}
				if fmt.Sprint(got) != fmt.Sprint(v.v) {
					return "", fmt.Errorf("%s: sent %v, got %v", v.sql, v.v, got)
				}
			}
			return fmt.Sprintf("%d types", len(values)), nil
		}
	}
	return collect(map[string]func() (string, error){
		"types, text":   with(types(pgx.QueryExecModeSimpleProtocol)),
		"types, binary": with(types(pgx.QueryExecModeCacheStatement)),
		"prepared statements": with(func(c *pgx.Conn) (string, error) {
			batch := &pgx.Batch{}
			for i := range 10 {
				batch.Queue("SELECT $1::int + 1", i)
			}
			br := c.SendBatch(ctx, batch)
			for i := range 10 {
				var n int
				if err := br.QueryRow().Scan(&n); err != nil || n != i+1 {
					return "", fmt.Errorf("%d: %d, %w", i, n, errors.Join(err))
				}
			}
			return "also in a batch", br.Close()
		}),
		"errors": with(func(c *pgx.Conn) (string, error) {
			_, err := c.Exec(ctx, "SELECT * FROM nowhere")
			var pe *pgconn.PgError
			if !errors.As(err, &pe) || pe.Code != "42P01" || pe.Position == 0 {
				return "", fmt.Errorf("got %w", errors.Join(err))
			}
			_, err = c.Exec(ctx, "SELECT 1")
			return "with the place in the statement", err
		}),
		"transactions": with(func(c *pgx.Conn) (string, error) {
			if _, err := c.Exec(ctx, "CREATE OR REPLACE TABLE pgx_tx (i INTEGER)"); err != nil {
				return "", err
			}
			return "", pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, "INSERT INTO pgx_tx VALUES (1)"); return err })
			})
		}),
		"cancel": with(func(c *pgx.Conn) (string, error) {
			go func() { time.Sleep(300 * time.Millisecond); _ = c.PgConn().CancelRequest(ctx) }()
			_, err := c.Exec(ctx, slow)
			var pe *pgconn.PgError
			if !errors.As(err, &pe) || pe.Code != "57014" {
				return "", fmt.Errorf("got %w", errors.Join(err))
			}
			_, err = c.Exec(ctx, "SELECT 1")
			return "", err
		}),
		"COPY in": with(func(c *pgx.Conn) (string, error) {
			if _, err := c.Exec(ctx, "CREATE OR REPLACE TABLE pgx_copy (i BIGINT, s TEXT)"); err != nil {
				return "", err
			}
			n, err := c.CopyFrom(ctx, pgx.Identifier{"pgx_copy"}, []string{"i", "s"}, pgx.CopyFromSlice(1000, func(i int) ([]any, error) { return []any{i, fmt.Sprint(i)}, nil }))
			if n != 1000 {
				err = errors.Join(err, fmt.Errorf("%d rows", n))
			}
			return "CopyFrom", err
		}),
		"catalog": with(func(c *pgx.Conn) (string, error) {
			rows, err := c.Query(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema = $1 AND table_name = ANY($2)", "main", []string{"pgx_copy", "pgx_tx"})
			if err != nil {
				return "", err
			}
			names, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if slices.Sort(names); strings.Join(names, " ") != "pgx_copy pgx_tx" {
				return "", fmt.Errorf("got %v, %w", names, errors.Join(err))
			}
			return "information_schema with parameters", nil
		}),
	}), nil
}

// queries sends the catalog queries of a tool.
func queries(file string) func(context.Context, target) ([]outcome, error) {
	return func(ctx context.Context, t target) ([]outcome, error) {
		raw, err := os.ReadFile(filepath.Join(t.scripts, "catalog", file))
		if err != nil {
			return nil, err
		}
		c, err := pgx.Connect(ctx, t.dsn())
		if err != nil {
			return nil, err
		}
		defer func() { _ = c.Close(ctx) }()
		for _, sql := range []string{
			"CREATE SCHEMA IF NOT EXISTS tools", "CREATE OR REPLACE TABLE tools.orders (id INTEGER NOT NULL, price NUMERIC(10,2) DEFAULT 1.5, tags TEXT[], placed TIMESTAMPTZ)",
			"COMMENT ON COLUMN tools.orders.id IS 'the key'", "CREATE OR REPLACE VIEW tools.cheap AS SELECT id FROM tools.orders",
		} {
			if _, err := c.Exec(ctx, sql); err != nil {
				return nil, err
			}
		}
		var failed []string
		n := 0
		for sql := range strings.Lines(string(raw)) { // one on each line
			if strings.HasPrefix(sql, "--") {
				continue
			}
			n++
			if _, err := c.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
				failed = append(failed, fmt.Sprintf("%.80s…: %s", sql, err))
			}
		}
		o := outcome{check: "catalog", ok: len(failed) == 0, note: fmt.Sprintf("%d queries", n)}
		if !o.ok {
			o.note = strings.Join(failed, "; ")
		}
		return []outcome{o}, nil
	}
}
