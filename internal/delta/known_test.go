package delta_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sluice/internal/delta"
)

// Figures of tables of other writers that were found by other readers.
func TestCountsOfKnownTables(t *testing.T) {
	t.Parallel()
	conformanceDir(t)
	for name, want := range map[string][3]int64{ // version, files, rows
		"java_kernel/basic-dv-with-checkpoint":                  {46, 2, 454},
		"kernel_data/table-with-dv-small":                       {1, 1, 8},
		"kernel_data/v2-checkpoints-parquet-with-sidecars":      {6, 101, 1233},
		"kernel_golden/multi-part-checkpoint":                   {1, 10, 31},
		"delta_rs/table_with_deletion_logs":                     {20, 1, 98},
		"kernel_data/with-short-dv":                             {0, 2, 7},
		"duckdb_delta/inlined/issue_303_partitioned/delta_lake": {11, 12, 16},
		"delta_rs/COVID-19_NYT":                                 {0, 8, 1_111_930},
		"delta_rs_invalid/table_a":                              {13, 130, 130},
	} {
		table, ok := others(t, name)
		if !ok {
			t.Errorf("%s is missing", name)
			continue
		}
		counts(t, table, delta.Latest, want[1], want[2])
		if s, err := table.Snapshot(t.Context(), delta.Latest); err != nil || s.Version() != want[0] {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The flights sample: ten commits, each of which names the batch that it holds.
func TestBatchesOfTheFlights(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(conformanceDir(t), "..", "..", "data", "flights", "delta")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the flights as a Delta table are not here")
	}
	table := openAt(t, dir, localFiles, delta.Options{Cache: delta.NewCache(0)})
	for upTo, want := range map[int64]int{9: 10, 7: 8, 0: 1} {
		c, err := table.Covered(t.Context(), upTo)
		if err != nil || len(c.Batches) != want || c.Earliest != 0 || c.Ignored != 0 {
			t.Errorf("up to version %d: %d batches, %v", upTo, len(c.Batches), err)
			continue
		}
		runs := map[string]bool{}
		for _, b := range c.List() {
			runs[b.RunID] = true
			if b.Index != 0 {
				t.Errorf("up to version %d there is %+v", upTo, b)
			}
		}
		if len(runs) != want {
			t.Errorf("up to version %d there are %s", upTo, fmt.Sprint(runs))
		}
	}
}
