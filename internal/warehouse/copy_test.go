package warehouse_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"sluice/internal/testkit/house"
	"sluice/internal/warehouse"
)

const allTypes = `CREATE TABLE %s (b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INTEGER, i8 BIGINT, u1 UTINYINT, u2 USMALLINT, u4 UINTEGER, u8 UBIGINT,
	n DECIMAL(10,2), h DECIMAL(38,10), f FLOAT, d DOUBLE, t VARCHAR, x BLOB, j JSON, day DATE, clock TIME, ts TIMESTAMP, tz TIMESTAMPTZ, u UUID, gap INTERVAL,
	li INTEGER[], lt VARCHAR[], st STRUCT(a INTEGER, b VARCHAR))`

const allValues = `INSERT INTO %s VALUES
	(true, -128, -32768, -2147483648, -9223372036854775808, 255, 65535, 4294967295, 18446744073709551615, -12345678.90, 1234567890123456789012345678.0123456789,
	 1.5, -2.25e-300, 'tab	 "q" \ ,', '\x00\xFF'::BLOB, '{"a": [1, null]}', '1999-12-31', '23:59:59.999999', '2000-01-01 00:00:00.000001', '2024-07-01 12:00:00+02',
	 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', INTERVAL '1 year 2 months 3 days 04:05:06.5', [1, NULL, -3], ['a b', 'c"d', NULL, ''], {'a': 1, 'b': 'x'}),
	(false, 127, 32767, 2147483647, 9223372036854775807, 0, 0, 0, 0, 0.01, -0.0000000001, 'nan', 'infinity', '', ''::BLOB, 'null', '0001-01-01', '00:00:00',
	 '1970-01-01', '1970-01-01 00:00:00+00', '00000000-0000-0000-0000-000000000000', INTERVAL '0', [], [], {'a': NULL, 'b': NULL}),
	(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`

// All types go out and come in again unchanged, in each format.
func TestCopyRoundTrip(t *testing.T) {
	t.Parallel()
	h := house.New(t, house.Options{})
	h.Org("acme")
	c := dial(t, h, "olga", "x")
	for _, sql := range []string{fmt.Sprintf(allTypes, "src"), fmt.Sprintf(allValues, "src")} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for i, options := range []string{"", "(FORMAT csv, HEADER)", "(FORMAT binary)", "CSV DELIMITER ';' QUOTE '''' ESCAPE E'\\\\' NULL '-' FORCE QUOTE *"} {
		table := fmt.Sprintf("dst%d", i)
		if _, err := c.Exec(t.Context(), fmt.Sprintf(allTypes, table)); err != nil {
			t.Fatal(err)
		}
		var data bytes.Buffer
		tag, err := c.PgConn().CopyTo(t.Context(), &data, "COPY src TO STDOUT "+options)
		if err != nil || tag.String() != "COPY 3" {
			t.Fatal(options, tag, err)
		}
		shown := data.String()
		options = strings.Replace(options, " FORCE QUOTE *", "", 1)
		tag, err = c.PgConn().CopyFrom(t.Context(), &data, "COPY "+table+" FROM STDIN "+options)
		if err != nil || tag.String() != "COPY 3" {
			t.Fatal(options, tag, err, shown)
		}
		var differ int
		query := fmt.Sprintf("SELECT count(*) FROM ((SELECT * FROM src EXCEPT ALL SELECT * FROM %[1]s) UNION ALL (SELECT * FROM %[1]s EXCEPT ALL SELECT * FROM src))", table)
		if err := c.QueryRow(t.Context(), query).Scan(&differ); err != nil || differ != 0 {
			t.Errorf("%s: %d rows differ, %v\n%s", options, differ, err, shown)
		}
	}
}

func TestCopyIn(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	if _, err := c.Exec(t.Context(), "CREATE TABLE t (i INTEGER NOT NULL, s VARCHAR DEFAULT 'none', d DATE, n DECIMAL(5,2), z TIMESTAMPTZ)"); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		sql, data, want string // the tag, or the code and what stands in the error
	}{
		{"COPY t FROM STDIN", "1\tx\t2024-02-29\t1.005\t2024-01-01 10:00:00-0330\n", "COPY 1"},
		{"COPY t (i, s) FROM STDIN", "2\ty\n3\t\\N\n", "COPY 2"},
		{"COPY t (i) FROM STDIN", "4", "COPY 1"},
		{"COPY t FROM STDIN", "", "COPY 0"},
		{"COPY t (i, d) FROM STDIN", "5\t1 Jan 2024\n", "22007|COPY t, line 1, column d"},
		{"COPY t (d, i) FROM STDIN", "20240229\t5\n", "22007|COPY t, line 1, column d"},
		{"COPY t (i, s) FROM STDIN", "6\tx\nseven\ty\n", `22P02|COPY t, line 2, column i: "seven"`},
		{"COPY t (i) FROM STDIN", "3000000000\n", "22003|line 1, column i"},
		{"COPY t (i, n) FROM STDIN", "6\t1000\n", "22003|line 1, column n"},
		{"COPY t (i, s) FROM STDIN", "6\t\xff\n", "22021|line 1, column s"},
		{"COPY t (i, s) FROM STDIN", "6\n", `22P04|missing data for column "s"`},
		{"COPY t (i, s) FROM STDIN", "6\tx\ty\n", "22P04|extra data"},
		{"COPY t (i, s) FROM STDIN", "\\N\tx\n", "23502|line 1"},
		{"COPY t (nope) FROM STDIN", "1\n", "42703|"},
		{"COPY nowhere FROM STDIN", "1\n", "42P01|"},
		{"COPY t FROM STDIN (FORMAT binary)", "rubbish that is long enough", "22P04|signature"},
	} {
		tag, err := c.PgConn().CopyFrom(t.Context(), strings.NewReader(x.data), x.sql)
		want, part, fails := strings.Cut(x.want, "|")
		if !fails {
			if err != nil || tag.String() != want {
				t.Errorf("%s %q: %s, %v", x.sql, x.data, tag, err)
			}
			continue
		}
		var pe *pgconn.PgError
		if !errors.As(err, &pe) || pe.Code != want || !strings.Contains(pe.Message+" "+pe.Where, part) {
			t.Errorf("%s %q: %v (%+v)", x.sql, x.data, err, pe)
		}
		if st := c.PgConn().TxStatus(); st != 'I' {
			t.Errorf("%s: status %c", x.sql, st)
		}
	}
	rows, err := c.Query(t.Context(), "SELECT concat_ws('|', i, coalesce(s, 'ø'), d, n, z AT TIME ZONE 'UTC') FROM t ORDER BY i")
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if want := "1|x|2024-02-29|1.01|2024-01-01 13:30:00, 2|y, 3|ø, 4|none"; err != nil || strings.Join(got, ", ") != want {
		t.Fatalf("got %s, want %s (%v)", strings.Join(got, ", "), want, err)
	}
	// inside a block
	runSteps(t, c, []step{{"BEGIN", "BEGIN", 'T'}})
	if _, err := c.PgConn().CopyFrom(t.Context(), strings.NewReader("8\n9\n"), "COPY t (i) FROM STDIN"); err != nil {
		t.Fatal(err)
	}
	runSteps(t, c, []step{{"SELECT i FROM t", "SELECT 6", 'T'}, {"ROLLBACK", "ROLLBACK", 'I'}, {"SELECT i FROM t", "SELECT 4", 'I'}})
	// a client that gives up, a block that is failed, a reader
	broken := io.MultiReader(strings.NewReader("10\n"), errReader{})
	if _, err := c.PgConn().CopyFrom(t.Context(), broken, "COPY t (i) FROM STDIN"); code(err) != "57014" {
		t.Error(err)
	}
	runSteps(t, c, []step{{"BEGIN; SELECT nope", "BEGIN; 42703", 'E'}})
	if _, err := c.PgConn().CopyFrom(t.Context(), strings.NewReader("8\n"), "COPY t (i) FROM STDIN"); code(err) != "25P02" {
		t.Error(err)
	}
	runSteps(t, c, []step{{"ROLLBACK", "ROLLBACK", 'I'}, {"SET default_transaction_read_only = on", "SET", 'I'}})
	if _, err := c.PgConn().CopyFrom(t.Context(), strings.NewReader("8\n"), "COPY t (i) FROM STDIN"); code(err) != "25006" {
		t.Error(err)
	}
	var out bytes.Buffer
	if _, err := c.PgConn().CopyTo(t.Context(), &out, "COPY (SELECT i FROM t ORDER BY i) TO STDOUT"); err != nil || out.String() != "1\n2\n3\n4\n" {
		t.Error(out.String(), err)
	}
	r := connect(t, srv, "rita")
	if _, err := r.PgConn().CopyFrom(t.Context(), strings.NewReader("8\n"), "COPY t (i) FROM STDIN"); code(err) != "42501" {
		t.Error(err)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("no more") }

// pgx's CopyFrom is binary, and describes the table first.
func TestCopyFromOfPgx(t *testing.T) {
	t.Parallel()
	h := house.New(t, house.Options{})
	h.Org("acme")
	c := dial(t, h, "olga", "x")
	if _, err := c.Exec(t.Context(), "CREATE TABLE t (i BIGINT, s VARCHAR, \"at\" TIMESTAMPTZ, n NUMERIC(12,3), tags VARCHAR[])"); err != nil {
		t.Fatal(err)
	}
	const rows = 250_000
	at := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	n, err := c.CopyFrom(t.Context(), pgx.Identifier{"t"}, []string{"i", "s", "at", "n", "tags"}, pgx.CopyFromSlice(rows, func(i int) ([]any, error) {
		return []any{i, fmt.Sprintf("row number %d", i), at.Add(time.Duration(i) * time.Second), fmt.Sprintf("%d.125", i), []string{"a", fmt.Sprint(i % 7)}}, nil
	}))
	if err != nil || n != rows {
		t.Fatal(n, err)
	}
	var good int
	err = c.QueryRow(t.Context(), `SELECT count(*) FROM t WHERE s = 'row number ' || i AND "at" = TIMESTAMPTZ '2024-05-06 07:08:09+00' + to_seconds(i) AND n = i + 0.125
		AND tags[1] = 'a' AND tags[2] = (i % 7)::VARCHAR`).Scan(&good)
	if err != nil || good != rows {
		t.Fatal(good, err)
	}
}

// A cancel ends a COPY that waits for its client, and leaves the session as it was.
func TestCopyIsCancelled(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	if _, err := c.Exec(t.Context(), "CREATE TABLE t (i INTEGER)"); err != nil {
		t.Fatal(err)
	}
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := c.PgConn().CopyFrom(context.Background(), in, "COPY t FROM STDIN")
		done <- err
	}()
	if _, err := out.Write([]byte("1\n2\n")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(150 * time.Millisecond) // past the time after which a client is looked after
	if err := c.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { // pgx sees the error when it sends on
		for {
			if _, err := out.Write([]byte("3\n")); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	err := <-done
	_ = in.Close()
	if code(err) != "57014" {
		t.Fatal(err)
	}
	runSteps(t, c, []step{{"SELECT * FROM t", "SELECT 0", 'I'}})
}
