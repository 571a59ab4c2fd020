package rig

import (
	"strings"

	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// Table is the stream's table.
func (r *Rig) Table(id sluice.StreamID) lake.Table {
	r.Helper()
	s, err := r.Streams.Get(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	return lake.Table{Schema: s.TargetSchema, Name: s.TargetTable}
}

// Rows runs a query as a person of the org; `{t}` stands for the stream's table.
func (r *Rig) Rows(id sluice.StreamID, query string) []string {
	r.Helper()
	if r.conn == nil {
		r.conn = r.House.Connect(r.Org) // one for all: a new one costs more than the query
	}
	return r.House.RowsOn(r.conn, strings.ReplaceAll(query, "{t}", r.Table(id).SQL()))
}

// WantTable compares all rows of a stream's table, in the order of their columns: columns joined by |, NULL is ∅.
func (r *Rig) WantTable(id sluice.StreamID, columns string, want ...string) {
	r.Helper()
	got := r.Rows(id, "SELECT "+columns+" FROM {t} ORDER BY ALL NULLS LAST")
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		r.Errorf("rows of %s:\n%s\nwant:\n%s\n(%s)", columns, strings.Join(got, "\n"), strings.Join(want, "\n"), r.explain(id))
	}
}

// WantColumns compares the columns of a stream's table, each as "name TYPE".
func (r *Rig) WantColumns(id sluice.StreamID, want ...string) {
	r.Helper()
	d, err := r.Session().DescribeTarget(r.Context(), r.Table(id))
	if err != nil {
		r.Fatal(err)
	}
	var got []string
	for _, c := range d.Columns {
		got = append(got, c.Name+" "+c.Type.String())
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		r.Errorf("columns are %s, want %s (%s)", strings.Join(got, ", "), strings.Join(want, ", "), r.explain(id))
	}
}

// Batches gives the batches of a run in order.
func (r *Rig) Batches(id sluice.StreamID, run string) []sluice.Batch {
	r.Helper()
	all, _, err := r.Queue.Batches(r.Context(), queue.Filter{StreamID: id, RunID: sluice.RunID(run), Limit: 1000})
	if err != nil {
		r.Fatal(err)
	}
	return all
}

// WantOps compares the batches of a run: what each did, or its state and code if it is not applied.
func (r *Rig) WantOps(id sluice.StreamID, run string, want ...string) {
	r.Helper()
	var got []string
	for _, b := range r.Batches(id, run) {
		switch {
		case b.LoadState != sluice.Succeeded:
			got = append(got, strings.TrimSpace(string(b.LoadState)+" "+string(b.ErrorCode)))
		case b.LoadReason != "":
			got = append(got, string(b.Op)+" "+b.LoadReason)
		default:
			got = append(got, string(b.Op))
		}
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		r.Errorf("batches of run %s: %s, want %s (%s)", run, strings.Join(got, ", "), strings.Join(want, ", "), r.explain(id))
	}
}

// WantNote compares what the history says of a batch that is applied.
func (r *Rig) WantNote(id sluice.StreamID, run string, index int, want string) {
	r.Helper()
	_, history, err := r.Queue.Batch(r.Context(), r.Batches(id, run)[index].BatchID)
	if err != nil {
		r.Fatal(err)
	}
	if last := history[len(history)-1]; last.Note != want || last.ErrorCode != "" || last.ErrorText != "" {
		r.Errorf("the history of batch %d says %+v, want %q", index, last, want)
	}
}

// WantRun compares the state of a run.
func (r *Rig) WantRun(id sluice.StreamID, run string, want sluice.RunState) {
	r.Helper()
	got, err := r.Queue.Run(r.Context(), id, sluice.RunID(run))
	if err != nil {
		r.Fatal(err)
	}
	if got.State != want {
		r.Errorf("run %s is %s (%s), want %s (%s)", run, got.State, got.Reason, want, r.explain(id))
	}
}

// Quarantined gives the open quarantine rows of a stream.
func (r *Rig) Quarantined(id sluice.StreamID) []queue.QuarantineRow {
	r.Helper()
	rows, _, err := r.Queue.Quarantined(r.Context(), queue.Filter{StreamID: id, State: "open"})
	if err != nil {
		r.Fatal(err)
	}
	return rows
}

// WantQuarantined expects one open quarantine row with a code, whose message has all of the texts.
func (r *Rig) WantQuarantined(id sluice.StreamID, code sluice.Code, texts ...string) {
	r.Helper()
	rows := r.Quarantined(id)
	if len(rows) != 1 || rows[0].Code != code {
		r.Errorf("quarantine is %+v, want one row of %s (%s)", rows, code, r.explain(id))
		return
	}
	for _, text := range texts {
		if !strings.Contains(rows[0].Message, text) {
			r.Errorf("the message is %q, want %q in it", rows[0].Message, text)
		}
	}
}

// explain says how a stream stands, for messages of failed tests.
func (r *Rig) explain(id sluice.StreamID) string {
	rows, _, err := r.Queue.Status(r.Context(), queue.Filter{StreamID: id})
	if err != nil || len(rows) != 1 {
		return "no status"
	}
	s := rows[0]
	return strings.TrimSpace(strings.Join([]string{string(s.Lifecycle), string(s.HeadState), s.BlockedBy, string(s.ErrorCode), s.ErrorText}, " "))
}
