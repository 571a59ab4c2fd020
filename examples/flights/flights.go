// Package flights is the sample data of the demo and the tests: all departures from the three New York airports in 2013.
// It owns the files, what they are, and the right answer after loading them; README.md tells where they come from.
package flights

import (
	"embed"

	"github.com/google/uuid"

	"sluice/internal/sluice"
)

// FS holds the extract batches, `batches/*.parquet`.
//
//go:embed batches/*.parquet
var FS embed.FS

// History holds the Delta table of the flights from January to October, `delta/`: ten appends, one for each month.
//
//go:embed delta/_delta_log/*.json delta/*.parquet
var History embed.FS

// Extract is one extract file: a run of one batch.
type Extract struct {
	Path      string // in FS
	Stream    string // the source table
	RunID     sluice.RunID
	SyncType  sluice.SyncType
	Rows      int64
	InHistory bool // the Delta table holds this run too
}

// Extracts are all extract files, in the order in which a producer would announce them.
var Extracts = []Extract{
	{"batches/airlines.parquet", "airlines", "airlines-1", sluice.FullRefresh, 16, false},
	{"batches/airports.parquet", "airports", "airports-1", sluice.FullRefresh, 1458, false},
	{"batches/planes.parquet", "planes", "planes-1", sluice.FullRefresh, 3322, false},
	{"batches/weather.parquet", "weather", "weather-1", sluice.FullRefresh, 26115, false},
	{"batches/flights-2013-08.parquet", "flights", MonthRun("08"), sluice.Incremental, 29327, true},
	{"batches/flights-2013-09.parquet", "flights", MonthRun("09"), sluice.Incremental, 27574, true},
	{"batches/flights-2013-10.parquet", "flights", MonthRun("10"), sluice.Incremental, 28889, true},
	{"batches/flights-2013-11.parquet", "flights", MonthRun("11"), sluice.Incremental, 27268, false},
	{"batches/flights-2013-12.parquet", "flights", MonthRun("12"), sluice.Incremental, 28135, false},
	{"batches/flights-2013-12-corrections.parquet", "flights", MonthRun("12-corrections"), sluice.Incremental, 78, false},
}

var runs = uuid.MustParse("6f1f3c52-6b0f-4a86-9a0e-0b9a3f3a2013")

// MonthRun is the run that extracted a month ("01" to "12") of the flights; the commits of History name the same runs.
func MonthRun(month string) sluice.RunID {
	return sluice.RunID(uuid.NewSHA1(runs, []byte("flights-"+month)).String())
}

// Answer is what a table of flights must sum up to. A lost, doubled or uncorrected row changes at least one of the
// figures. The primary key is `id`: Rows is also the number of different ids.
type Answer struct {
	Rows     int64 // count(*), count(DISTINCT id)
	IDs      int64 // sum(id)
	DepDelay int64 // sum(dep_delay), minutes
	ArrDelay int64 // sum(arr_delay), minutes; each correction adds one
}

// The right answers.
var (
	// WholeYear is History and every extract of flights, together.
	WholeYear = Answer{336776, 56709205476, 4152200, 2257252}
	// HistoryOnly is what the Delta table holds: January to October.
	HistoryOnly = Answer{281373, 39585523251, 3555861, 1842934}
	// ExtractsOnly is every extract of flights without History: August to December.
	ExtractsOnly = Answer{141193, 37582752740, 1321290, 474706}
)

// CorrectedRows is the number of December rows that the last extract corrects.
const CorrectedRows = 78
