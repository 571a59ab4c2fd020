package lake_test

import (
	"fmt"
	"testing"

	"sluice/internal/lake"
	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
)

// TestReplaceKeepsTheLayout replaces a table that somebody has partitioned, sorted, commented and given options, and goes on
// with it: the new table is laid out as the one before. The options come in a transaction of their own; one that was not
// sent is made good by whoever looks at the commit afterwards.
func TestReplaceKeepsTheLayout(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]house.Options{"duckdb": {}, "postgres": {Postgres: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := house.New(t, opts)
			h.Org("acme")
			s := open(t, h, "acme")
			if err := s.EnsureControl(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
			if err := s.CreateSchema(t.Context(), target.Schema); err != nil {
				t.Fatal(err)
			}
			seq := int64(0)
			apply := func(op sluice.Op) {
				t.Helper()
				is, err := s.DescribeTarget(t.Context(), target)
				if err != nil {
					t.Fatal(err)
				}
				w := write(op, seq, h.File("acme", fmt.Sprint(seq), fmt.Sprintf("SELECT i AS id, 'v' || (i %% 3) AS v FROM range(%d, %d) r(i)", seq*10, seq*10+10)))
				w.TableID, w.Change.WantRows = is.TableID, 10
				if _, err := s.Apply(t.Context(), w); err != nil {
					t.Fatalf("%s: %v", op, err)
				}
				seq++
			}
			apply(sluice.OpCreate)
			c := h.Service("acme")
			for _, q := range []string{
				"ALTER TABLE " + target.SQL() + " SET PARTITIONED BY (v)",
				"ALTER TABLE " + target.SQL() + " SET SORTED BY (id DESC)",
				"COMMENT ON TABLE " + target.SQL() + " IS 'it''s ours'",
				"COMMENT ON COLUMN " + target.SQL() + ".id IS 'the key'",
				fmt.Sprintf("CALL lake.set_option('parquet_compression', 'zstd', schema => '%s', table_name => '%s')", target.Schema, target.Name),
			} {
				if _, err := c.Exec(t.Context(), q); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
			}
			s.Forget(target)
			want := layout(t, s)
			apply(sluice.OpReplace)
			if got := layout(t, s); got != want {
				t.Errorf("after a replace:\n got %s\nwant %s", got, want)
			}
			apply(sluice.OpInsert)
			if got := h.Rows("acme", "SELECT count(*), count(DISTINCT id), min(id) FROM "+target.SQL())[0]; got != "20|20|10" {
				t.Errorf("rows: %s", got)
			}

			// The loader dies between the COMMIT of a replace and the options.
			before, err := s.DescribeTarget(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			apply(sluice.OpReplace)
			if _, err := c.Exec(t.Context(), "DELETE FROM __ducklake_metadata_lake.ducklake_metadata WHERE scope = 'table' AND scope_id <> "+fmt.Sprint(before.TableID)); err != nil {
				t.Fatal(err)
			}
			if got := layout(t, s); got == want {
				t.Fatal("the option should be gone")
			}
			missing, err := open(t, h, "acme").MissingFiles(t.Context(), stream, sluice.BatchID(fmt.Sprintf("b%d", seq-1)), seq)
			if err != nil || len(missing) > 0 {
				t.Fatalf("missing files: %v, %v", missing, err)
			}
			if got := layout(t, s); got != want {
				t.Errorf("after the look:\n got %s\nwant %s", got, want)
			}
		})
	}
}

func layout(t *testing.T, s *lake.Session) string {
	t.Helper()
	l, err := s.DescribeLayout(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(l.Partition, l.Sort, l.Comment, l.Comments, l.Options)
}
