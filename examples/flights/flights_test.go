package flights_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"sluice/examples/flights"
	"sluice/internal/sluice"
)

func TestExtractsAreThere(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	var rows int64
	for _, e := range flights.Extracts {
		listed[e.Path] = true
		content, err := flights.FS.ReadFile(e.Path)
		if err != nil {
			t.Fatal(err)
		}
		magic := []byte("PAR1")
		if !bytes.HasPrefix(content, magic) || !bytes.HasSuffix(content, magic) {
			t.Errorf("%s is not Parquet", e.Path)
		}
		if e.Stream == "flights" {
			rows += e.Rows
		}
	}
	files, err := fs.Glob(flights.FS, "batches/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !listed[f] {
			t.Errorf("%s is not among the extracts", f)
		}
	}
	if rows-flights.CorrectedRows != flights.ExtractsOnly.Rows {
		t.Errorf("the extracts have %d rows", rows)
	}
}

// The history's commits name the runs of the extracts that they were written from, and their rows add up.
func TestHistoryNamesItsRuns(t *testing.T) {
	t.Parallel()
	logs, err := fs.Glob(flights.History, "delta/_delta_log/*.json")
	if err != nil {
		t.Fatal(err)
	}
	committed := map[sluice.RunID]bool{}
	var rows int64
	for _, path := range logs {
		content, err := flights.History.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
			var action struct {
				Add *struct {
					Path  string
					Stats string
				}
				CommitInfo *struct {
					RunID sluice.RunID `json:"run_id"`
				} `json:"commitInfo"`
			}
			if err := json.Unmarshal(lines.Bytes(), &action); err != nil {
				t.Fatal(err)
			}
			if action.CommitInfo != nil {
				committed[action.CommitInfo.RunID] = true
			}
			if action.Add == nil {
				continue
			}
			if _, err := fs.Stat(flights.History, "delta/"+action.Add.Path); err != nil {
				t.Error(err)
			}
			var stats struct {
				NumRecords int64 `json:"numRecords"`
			}
			if err := json.Unmarshal([]byte(action.Add.Stats), &stats); err != nil {
				t.Fatal(err)
			}
			rows += stats.NumRecords
		}
	}
	if rows != flights.HistoryOnly.Rows {
		t.Errorf("the history has %d rows", rows)
	}
	for month := range strings.FieldsSeq("01 02 03 04 05 06 07 08 09 10") {
		if !committed[flights.MonthRun(month)] {
			t.Errorf("no commit names the run of month %s", month)
		}
	}
	for _, e := range flights.Extracts {
		if committed[e.RunID] != e.InHistory {
			t.Errorf("%s: in the history %v, want %v", e.Path, committed[e.RunID], e.InHistory)
		}
	}
}
