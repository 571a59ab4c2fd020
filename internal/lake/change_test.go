package lake

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"sluice/internal/sluice"
)

func TestQuoting(t *testing.T) {
	t.Parallel()
	if got := Ident(`a"b`); got != `"a""b"` {
		t.Errorf("identifier: %s", got)
	}
	if got := (Table{"s.x", `t"`}).SQL(); got != `lake."s.x"."t"""` {
		t.Errorf("table: %s", got)
	}
	if got := PathLiteral(`/d/it's*[x]?%.parquet`); got != `'/d/it''s[*][[]x][?]%.parquet'` {
		t.Errorf("path: %s", got)
	}
	if got := ControlTable("0b0f4a86-9a0e-0b9a-3f3a-201300000001").Name; got != "ctl_0b0f4a869a0e0b9a3f3a201300000001" {
		t.Errorf("control table: %s", got)
	}
}

func typ(t *testing.T, s string) Type {
	t.Helper()
	out, err := ParseType(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestStatements(t *testing.T) {
	t.Parallel()
	id, v := Column{"id", typ(t, "BIGINT")}, Column{"v", typ(t, "VARCHAR")}
	assign := []Assignment{{To: id, From: "ID", Cast: true}, {To: v, From: "v"}}
	target := Table{"s", "t"}
	for name, c := range map[string]struct {
		change Change
		want   []string
	}{
		"create": {
			Change{Op: sluice.OpCreate, Target: target, Path: "/f", Columns: Columns{id, v}, Assign: assign, WantRows: 3},
			[]string{
				`CREATE TABLE lake."s"."t" ("id" BIGINT, "v" VARCHAR)`,
				`INSERT INTO lake."s"."t" ("id", "v") SELECT CAST(f."ID" AS BIGINT) AS "id", f."v" AS "v" FROM read_parquet('/f') AS f`,
			},
		},
		"replace, newest row of a key": {
			Change{Op: sluice.OpReplace, Target: target, Path: "/f", Columns: Columns{id, v}, Assign: assign, Keys: []string{"id"}, DedupeOrder: []string{"v"}},
			[]string{
				`CREATE OR REPLACE TABLE lake."s"."t" ("id" BIGINT, "v" VARCHAR)`,
				`INSERT INTO lake."s"."t" ("id", "v") SELECT CAST(f."ID" AS BIGINT) AS "id", f."v" AS "v" ` +
					`FROM read_parquet('/f', file_row_number = true) AS f QUALIFY row_number() OVER ` +
					`(PARTITION BY CAST(f."ID" AS BIGINT) ORDER BY f."v" DESC NULLS LAST, f.file_row_number DESC) = 1`,
			},
		},
		"replace keeping the table": {
			Change{Op: sluice.OpReplace, Target: target, Path: "/f", Assign: assign, Rewrite: true},
			[]string{
				`DELETE FROM lake."s"."t"`,
				`INSERT INTO lake."s"."t" ("id", "v") SELECT CAST(f."ID" AS BIGINT) AS "id", f."v" AS "v" FROM read_parquet('/f') AS f`,
			},
		},
		"empty refresh": {Change{Op: sluice.OpReplace, Target: target}, []string{`DELETE FROM lake."s"."t"`}},
		"nothing":       {Change{Op: sluice.OpNothing, Target: target}, nil},
		"merge": {
			Change{Op: sluice.OpMerge, Target: target, Path: "/f", Assign: assign, Keys: []string{"id"}, OnlyChanged: true, Add: Columns{v}, Widen: Columns{id}},
			[]string{
				`ALTER TABLE lake."s"."t" ADD COLUMN "v" VARCHAR`,
				`ALTER TABLE lake."s"."t" ALTER COLUMN "id" SET DATA TYPE BIGINT`,
				`MERGE INTO lake."s"."t" AS t USING (SELECT CAST(f."ID" AS BIGINT) AS "id", f."v" AS "v" ` +
					`FROM read_parquet('/f', file_row_number = true) AS f QUALIFY row_number() OVER ` +
					`(PARTITION BY CAST(f."ID" AS BIGINT) ORDER BY f.file_row_number DESC) = 1) AS s ON t."id" = s."id" ` +
					`WHEN MATCHED AND (t."v" IS DISTINCT FROM s."v") THEN UPDATE SET "v" = s."v" ` +
					`WHEN NOT MATCHED THEN INSERT ("id", "v") VALUES (s."id", s."v")`,
			},
		},
		"merge of an all-key table, NULL equal to NULL": {
			Change{Op: sluice.OpMerge, Target: target, Path: "/f", Assign: assign[:1], Keys: []string{"id"}, NullsMatch: true},
			[]string{
				`MERGE INTO lake."s"."t" AS t USING (SELECT CAST(f."ID" AS BIGINT) AS "id" FROM read_parquet('/f', file_row_number = true) AS f ` +
					`QUALIFY row_number() OVER (PARTITION BY CAST(f."ID" AS BIGINT) ORDER BY f.file_row_number DESC) = 1) AS s ` +
					`ON t."id" IS NOT DISTINCT FROM s."id" WHEN NOT MATCHED THEN INSERT ("id") VALUES (s."id")`,
			},
		},
	} {
		var got []string
		for _, st := range c.change.Statements() {
			got = append(got, st.SQL)
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// TestClassification has a row for each rule of failure.go and for what never came back from the server.
func TestClassification(t *testing.T) {
	t.Parallel()
	pg := func(state, msg string) error { return &pgconn.PgError{Code: state, Message: msg} }
	for _, c := range []struct {
		err   error
		phase Phase
		class Class
		code  sluice.Code
	}{
		{pg("28P01", "password authentication failed"), PhaseConnect, Deferred, "SLUICE-LOAD-CREDENTIAL"},
		{pg("3D000", "database does not exist"), PhaseConnect, Deferred, "SLUICE-LOAD-CONNECT"},
		{pg("57P03", "starting up"), PhaseConnect, Deferred, "SLUICE-LOAD-CONNECT"},
		{pg("53300", "too many connections"), PhaseConnect, Deferred, "SLUICE-LOAD-CONNECT"},
		{pg("57P01", "terminating"), PhaseData, Deferred, "SLUICE-LOAD-CONNECT"},
		{pg("08006", "lost"), PhaseData, Deferred, "SLUICE-LOAD-CONNECT"},
		{pg("40001", "x"), PhaseData, Conflict, "SLUICE-LAKE-CONFLICT"},
		{pg("XX000", "TransactionContext Error: Failed to commit: Transaction conflict - attempting to insert"), PhaseData, Conflict, "SLUICE-LAKE-CONFLICT"},
		{pg("XX000", "Exceeded the maximum retry count of 50"), PhaseData, Conflict, "SLUICE-LAKE-CONFLICT"},
		{pg("58030", `IO Error: No files found that match the pattern "/x"`), PhaseDescribe, SecondLook, "SLUICE-LOAD-FILE-GONE"},
		{pg("58030", "HTTP 404 (Not Found)"), PhaseDescribe, SecondLook, "SLUICE-LOAD-FILE-GONE"},
		{pg("58030", "HTTP 403 (Forbidden)"), PhaseDescribe, Counted, "SLUICE-LOAD-FILE-DENIED"},
		{pg("58030", "HTTP 412 (Precondition Failed)"), PhaseData, Permanent, "SLUICE-LOAD-FILE-CHANGED"},
		{pg("58030", "HTTP 503 (Slow Down)"), PhaseData, Deferred, "SLUICE-LOAD-STORE-AWAY"},
		{pg("XX000", `ETag on reading file "s3://x/f" was initially "a" and now it returned "b"`), PhaseData, Permanent, "SLUICE-LOAD-FILE-CHANGED"},
		{pg("XX000", "Transferred a partial file"), PhaseData, Deferred, "SLUICE-LOAD-STORE-AWAY"},
		{pg("58030", "Could not connect to server error for HTTP HEAD to 'http://x'"), PhaseData, Deferred, "SLUICE-LOAD-STORE-AWAY"},
		{pg("58030", "HTTP 429"), PhaseData, Deferred, "SLUICE-LOAD-STORE-AWAY"},
		{pg("22000", "Invalid Input Error: No magic bytes found at end of file '/x'"), PhaseDescribe, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("22000", "File '/x' too small to be a Parquet file"), PhaseDescribe, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("22000", `Failed to read file "/x": ZSTD Decompression failure`), PhaseData, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("22000", "Failed to read Parquet file"), PhaseData, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("22000", "TProtocolException: Invalid data"), PhaseDescribe, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("22000", "Footer length error in file"), PhaseDescribe, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("XX000", "don't know what type: \x0f"), PhaseDescribe, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("XX000", "Payload value bigger than allowed. Corrupted file?"), PhaseData, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("XX000", "Failed to decompress GZIP block: data error"), PhaseData, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("XX000", "Input is invalid/unsupported GZIP stream"), PhaseData, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("XX000", "Out of buffer"), PhaseData, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("22000", `Invalid string encoding found in Parquet file "/x": value "\xFF"`), PhaseData, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("22000", "Parquet file: Corrupt page"), PhaseData, Reread, "SLUICE-LOAD-FILE-CORRUPT"},
		{pg("58030", `Cannot open file "/lake/a.parquet"`), PhaseData, Permanent, "SLUICE-LAKE-DAMAGED"},
		{pg("XX000", "Unable to connect to Postgres"), PhaseData, Deferred, "SLUICE-LAKE-CATALOG-DOWN"},
		{pg("XX000", "database is locked"), PhaseData, Deferred, "SLUICE-LAKE-LOCKED"},
		{pg("55P03", "lock"), PhaseData, Deferred, "SLUICE-LAKE-LOCKED"},
		{pg("XX000", "Conflicting lock is held in process 7"), PhaseData, Deferred, "SLUICE-LAKE-IN-USE"},
		{pg("42701", "Column with name v already exists"), PhaseControl, Permanent, "SLUICE-LAKE-BRICKED"},
		{pg("53200", "no"), PhaseData, Counted, "SLUICE-LOAD-MEMORY"},
		{pg("XX000", "Out of Memory Error"), PhaseData, Counted, "SLUICE-LOAD-MEMORY"},
		{pg("53100", "no"), PhaseData, Deferred, "SLUICE-LOAD-DISK"},
		{pg("58030", "No space left on device"), PhaseData, Deferred, "SLUICE-LOAD-DISK"},
		{pg("57014", "cancelled"), PhaseData, Counted, "SLUICE-LOAD-TIMEOUT"},
		{pg("22P02", "bad"), PhaseData, Permanent, "SLUICE-LOAD-TYPE-CONFLICT"},
		{pg("22003", "range"), PhaseData, Permanent, "SLUICE-LOAD-TYPE-CONFLICT"},
		{pg("XX000", "Conversion Error: Could not convert"), PhaseData, Permanent, "SLUICE-LOAD-TYPE-CONFLICT"},
		{pg("42501", "no"), PhaseData, Deferred, "SLUICE-LOAD-DENIED"},
		{pg("42703", "no"), PhaseData, Permanent, "SLUICE-LOAD-STATEMENT"},
		{pg("25P02", "aborted"), PhaseData, Counted, "SLUICE-LOAD-UNCLASSIFIED"},
		{pg("XX000", "something else"), PhaseData, Counted, "SLUICE-LOAD-UNCLASSIFIED"},
		{io.EOF, PhaseData, Deferred, "SLUICE-LOAD-CONNECT"},
		{io.ErrUnexpectedEOF, PhaseData, Deferred, "SLUICE-LOAD-CONNECT"},
		{errors.New("conn closed"), PhaseData, Deferred, "SLUICE-LOAD-CONNECT"},
	} {
		f := AsFailure(c.err, c.phase, "apply")
		if f.Class != c.class || f.Err.Code != c.code || f.Outcome != sluice.NotDone {
			t.Errorf("%v in %s: got %s %s %s, want %s %s", c.err, c.phase, f.Class, f.Err.Code, f.Outcome, c.class, c.code)
		}
		if f := AsFailure(c.err, PhaseCommit, "apply"); f.Outcome != sluice.Unknown {
			t.Errorf("%v of COMMIT: got outcome %s, want unknown", c.err, f.Outcome)
		}
	}
}
