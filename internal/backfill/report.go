package backfill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// request fills in what a caller left to the stream.
func (p *Planner) request(ctx context.Context, id sluice.StreamID, r stream.PlanRequest) (sluice.Stream, stream.PlanRequest, error) {
	st, err := p.deps.Streams.Get(ctx, id)
	if err != nil {
		return st, r, err
	}
	if r.Kind == "" {
		r.Kind = sluice.RunBackfill
	}
	if r.SourceURI == "" {
		r.SourceURI = st.DeltaURI
	}
	return st, r, nil
}

// Preview is a plan's dry run: the same reading and deciding, and nothing stored.
func (p *Planner) Preview(ctx context.Context, id sluice.StreamID, r stream.PlanRequest) (stream.PlanPreview, error) {
	st, r, err := p.request(ctx, id, r)
	if err != nil {
		return stream.PlanPreview{}, err
	}
	d, err := p.draft(ctx, ask{stream: st, kind: r.Kind, uri: r.SourceURI, version: r.Version, answer: r.CoveredAnswer, options: r.Options, dryRun: true})
	if err != nil {
		return stream.PlanPreview{}, err
	}
	out := d.preview()
	if err := p.store.mayPlan(ctx, p.deps.DB, id); err != nil {
		var wait *deferral
		if !errors.As(err, &wait) {
			return out, err
		}
		out.Warnings = append(out.Warnings, fmt.Sprintf("it would wait: %s", wait.reason))
	}
	if rate, ok, err := p.lastRate(ctx, id); err != nil {
		return out, err
	} else if ok {
		eta := float64(d.Sums.Bytes) / rate
		out.EtaSeconds = &eta
	}
	return out, nil
}

func (d *Draft) preview() stream.PlanPreview {
	out := stream.PlanPreview{
		StreamID: d.Stream.StreamID, Org: d.Stream.Org, Kind: d.Kind, SourceURI: d.Pinned.URI, Version: d.Pinned.Version, Target: d.Target.String(),
		Files: d.Sums.Files, Bytes: d.Sums.Bytes, Rows: known(d.Sums.Rows), DeletedRows: d.Sums.Deleted, Chunks: int64(len(d.Chunks)), PlanHash: d.Hash,
		Columns: []stream.PlanColumn{}, Partition: append([]string{}, d.Pinned.Partition...), Ending: append([]string{}, d.Ending...),
		Covered: append([]stream.Covered{}, d.Coverage.Covered...), Unproven: texts(d.Coverage.Unproven), Behind: texts(d.Coverage.Behind),
		Refused: []stream.PlanRefusal{}, Warnings: append([]string{}, d.Warnings...), Fallback: d.Fallback, SQL: []string{},
	}
	for _, c := range d.Pinned.Columns {
		out.Columns = append(out.Columns, stream.PlanColumn{Name: c.Name, Type: c.Type.String()})
	}
	if e := d.Coverage.Refusal(fmt.Sprintf("plan the %s of stream %s", d.Kind, d.Stream.StreamID)); e != nil {
		out.Refused = append(out.Refused, stream.PlanRefusal{Code: e.Code, Message: e.What, Hint: e.Hint})
	}
	if len(d.Chunks) == 0 {
		out.Warnings = append(out.Warnings, "the version has no files")
	}
	staging := lake.StagingTable(d.Target.Schema, d.Stream.StreamID, 0)
	for _, s := range []lake.Change{
		{Op: sluice.OpCreate, Target: staging, Staged: &lake.Staged{Layout: d.Live.On(d.Pinned.Columns)}},
		{Op: sluice.OpInsert, Target: staging, Staged: &lake.Staged{Parts: []lake.Part{{
			SQL: fmt.Sprintf("SELECT … FROM read_parquet([… %d files of version %d …])", d.Sums.Files, d.Pinned.Version), Columns: d.Pinned.Columns.Names(),
		}}}},
		{Op: sluice.OpReplace, Target: d.Target, Staged: &lake.Staged{Swap: &lake.Swap{Staging: staging, LiveID: d.Live.TableID}}},
	} {
		for _, st := range s.Statements() {
			out.SQL = append(out.SQL, st.SQL)
		}
	}
	return out
}

func texts(keys []Key) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.String()
	}
	return out
}

// Start makes a plan, or lets a paused one go on. What can be refused at once is.
func (p *Planner) Start(ctx context.Context, id sluice.StreamID, r stream.PlanRequest, by control.By) (stream.PlanStatus, error) {
	_, r, err := p.request(ctx, id, r)
	if err != nil {
		return stream.PlanStatus{}, err
	}
	doing := fmt.Sprintf("start the %s of stream %s", r.Kind, id)
	if r.SourceURI == "" {
		return stream.PlanStatus{}, sluice.E("SLUICE-BACKFILL-NO-SOURCE", doing, "the stream has no Delta table", "give the table's address with --uri", nil)
	}
	if _, err := ParseAnswer(r.CoveredAnswer); err != nil {
		return stream.PlanStatus{}, sluice.E("SLUICE-USAGE", doing, "--covered: "+err.Error(), "give RUN:INDEX,…, all or none", err)
	}
	if old, active, err := stream.PlanOf(ctx, p.deps.DB, id); err != nil {
		return stream.PlanStatus{}, err
	} else if !active || old.State != stream.PlanPaused {
		preview, err := p.Preview(ctx, id, r) // what would be refused later is refused now
		if err != nil {
			return stream.PlanStatus{}, err
		}
		for _, x := range preview.Refused {
			return stream.PlanStatus{}, sluice.E(x.Code, doing, x.Message, x.Hint, nil)
		}
	}
	n := stream.NewPlan{
		Kind: r.Kind, SourceURI: r.SourceURI, AskedVersion: r.Version, CoveredAnswer: r.CoveredAnswer, Priority: r.Priority, Options: r.Options,
	}
	plan, err := p.store.Start(ctx, id, n, by, r.DryRun)
	return p.after(ctx, id, plan, r.DryRun, err)
}

// Replan, Pause and Cancel change a stream's active plan.
func (p *Planner) Replan(ctx context.Context, id sluice.StreamID, r stream.PlanRequest, by control.By) (stream.PlanStatus, error) {
	plan, err := p.store.Replan(ctx, id, func(n *stream.NewPlan) {
		if r.Version != nil {
			n.AskedVersion = r.Version
		}
		if r.CoveredAnswer != "" {
			n.CoveredAnswer = r.CoveredAnswer
		}
		if r.SourceURI != "" {
			n.SourceURI = r.SourceURI
		}
	}, by, r.DryRun)
	return p.after(ctx, id, plan, r.DryRun, err)
}

// Pause takes the plan's slot after the step that is being applied.
func (p *Planner) Pause(ctx context.Context, id sluice.StreamID, by control.By, dryRun bool) (stream.PlanStatus, error) {
	plan, err := p.store.Pause(ctx, id, by, dryRun)
	return p.after(ctx, id, plan, dryRun, err)
}

// Cancel ends the plan before its swap.
func (p *Planner) Cancel(ctx context.Context, id sluice.StreamID, by control.By, dryRun bool) (stream.PlanStatus, error) {
	plan, err := p.store.Cancel(ctx, id, by, dryRun)
	return p.after(ctx, id, plan, dryRun, err)
}

// after is the status that a command leaves; a dry run's is made from the plan that was rolled back.
func (p *Planner) after(ctx context.Context, id sluice.StreamID, plan stream.Plan, dryRun bool, err error) (stream.PlanStatus, error) {
	if err != nil {
		return stream.PlanStatus{}, err
	}
	if !dryRun {
		return p.Status(ctx, id)
	}
	d, err := p.deps.Streams.Detail(ctx, id)
	if err != nil {
		return stream.PlanStatus{}, err
	}
	return p.status(ctx, d, &plan, false)
}

// stalled is how long a running plan may stand still.
const stalled = 30 * time.Minute

// Status tells how a stream's plan stands, with its steps. A stream without one has its lifecycle only.
func (p *Planner) Status(ctx context.Context, id sluice.StreamID) (stream.PlanStatus, error) {
	d, err := p.deps.Streams.Detail(ctx, id)
	if err != nil {
		return stream.PlanStatus{}, err
	}
	plan, found, err := stream.PlanOf(ctx, p.deps.DB, id)
	if err == nil && !found {
		plan, found, err = stream.LastPlan(ctx, p.deps.DB, id)
	}
	if err != nil {
		return stream.PlanStatus{}, err
	}
	if !found {
		return p.status(ctx, d, nil, true)
	}
	return p.status(ctx, d, &plan, true)
}

// Active lists the status of every stream with an active plan.
func (p *Planner) Active(ctx context.Context, org sluice.Org) ([]stream.PlanStatus, error) {
	plans, err := stream.OpenPlans(ctx, p.deps.DB, org)
	if err != nil {
		return nil, err
	}
	out := []stream.PlanStatus{}
	for _, plan := range plans {
		d, err := p.deps.Streams.Detail(ctx, plan.StreamID)
		if err != nil {
			return nil, err
		}
		s, err := p.status(ctx, d, &plan, false)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func (p *Planner) status(ctx context.Context, d stream.Detail, plan *stream.Plan, steps bool) (stream.PlanStatus, error) {
	s := stream.PlanStatus{StreamID: d.StreamID, Name: d.Name, Org: d.Org, Lifecycle: d.Lifecycle, Reason: d.LifecycleReason}
	var err error
	if s.Waiting, err = p.deps.Queue.Waiting(ctx, d.StreamID); err != nil {
		return s, err
	}
	if plan == nil {
		look, err := stream.LookOf(ctx, p.deps.DB, d.StreamID, 0, 0)
		if look.ErrorCode != "" {
			s.ErrorCode, s.LastError, s.Failures, s.Failing = look.ErrorCode, &look.ErrorText, look.Failures, true
		}
		s.Next = next(s)
		return s, err
	}
	now, err := p.deps.DB.Now(ctx)
	if err != nil {
		return s, err
	}
	fill(&s, plan, now)
	if plan.RunID != "" {
		rows, err := p.deps.Queue.Chunks(ctx, d.StreamID, plan.RunID)
		if err != nil {
			return s, err
		}
		progress(&s, rows, plan.Bytes)
		if steps {
			s.Steps = planSteps(rows)
		}
	}
	if steps {
		if s.Targets, err = p.deps.Streams.Targets(ctx, d.StreamID); err != nil {
			return s, err
		}
	}
	s.Next = next(s)
	return s, nil
}

// fill puts what a plan's row knows into a status.
func fill(s *stream.PlanStatus, p *stream.Plan, now time.Time) {
	s.Kind, s.PlanID, s.RunID, s.State, s.Generation, s.Version = p.Kind, p.PlanID, p.RunID, p.State, p.Generation, p.DeltaVersion
	s.Slot, s.Covered, s.Failures, s.ErrorCode, s.DeferReason, s.Fallback, s.EndReason = p.SlotAt != nil, p.Covered, p.Failures, p.ErrorCode, p.DeferReason, p.Fallback, p.EndReason
	s.UpdatedAt = p.LastProgressAt
	if p.LastError != "" && p.State != stream.PlanDone {
		s.LastError = &p.LastError
	}
	if p.NotBefore != nil && p.NotBefore.After(now) {
		s.NotBefore = p.NotBefore
	}
	if p.State.Active() && !s.Slot {
		s.WantedSince, s.EtaAtLeast = p.WantedAt, true
	}
	s.Bytes, s.Rows = stream.Part{Done: p.BytesApplied, Of: p.Bytes}, stream.Part{Done: p.RowsApplied, Of: p.Rows}
	s.Chunks.Of = p.ChunkCount
	s.Failing = p.Failures >= 3 || p.State == stream.PlanHalted || s.Lifecycle == sluice.NeedsResync
	s.Stalled = p.State == stream.PlanRunning && p.LastProgressAt != nil && now.Sub(*p.LastProgressAt) > stalled
}

// rateChunks are the last chunks that the rate is made from.
const rateChunks = 10

// progress counts the chunks with data, and makes rate and ETA from the last of them, from the second one on.
func progress(s *stream.PlanStatus, rows []queue.ChunkRow, bytes *int64) {
	var done []queue.ChunkRow
	var rowsDone, bytesDone int64
	for _, r := range rows {
		if r.LoadState != sluice.Succeeded || r.Op != sluice.OpInsert && r.Op != sluice.OpRegister {
			if r.LoadState == sluice.Succeeded && r.Op == sluice.OpCreate {
				done = append(done, r) // from its end on, data is written
			}
			continue
		}
		done = append(done, r)
		s.Chunks.Done++
		if r.Rows != nil {
			rowsDone += *r.Rows
		}
		if r.Bytes != nil {
			bytesDone += *r.Bytes
		}
	}
	s.Bytes.Done, s.Rows.Done = bytesDone, max(rowsDone, min(s.Rows.Done, rowsOf(s.Rows.Of)))
	if len(done) < 3 {
		return
	}
	last := done[max(0, len(done)-1-rateChunks):]
	var moved int64
	for _, r := range last[1:] {
		if r.Bytes != nil {
			moved += *r.Bytes
		}
	}
	seconds := last[len(last)-1].ChangedAt.Sub(last[0].ChangedAt).Seconds()
	if seconds <= 0 || moved == 0 {
		return
	}
	rate := float64(moved) / seconds
	s.Rate = &rate
	if bytes != nil && s.State.Active() {
		eta := float64(max(*bytes-bytesDone, 0)) / rate
		s.EtaSeconds = &eta
	}
}

func rowsOf(n *int64) int64 {
	if n == nil {
		return 1 << 62
	}
	return *n
}

func planSteps(rows []queue.ChunkRow) []stream.PlanStep {
	out := make([]stream.PlanStep, len(rows))
	for i, r := range rows {
		out[i] = stream.PlanStep{
			BatchIndex: r.BatchIndex, Op: r.Op, LoadState: r.LoadState, Bytes: r.Bytes, Rows: r.Rows, Attempt: r.Attempt, ErrorCode: r.ErrorCode, ErrorText: r.ErrorText,
		}
		if i > 0 && r.LoadState == sluice.Succeeded {
			seconds := r.ChangedAt.Sub(rows[i-1].ChangedAt).Seconds()
			out[i].Seconds = &seconds
		}
	}
	return out
}

// next is the command that helps a stream that does not move by itself.
func next(s stream.PlanStatus) *string {
	command := ""
	switch {
	case s.State == stream.PlanHalted:
		command = fmt.Sprintf("sluice backfill replan %s", s.StreamID)
		for _, st := range s.Steps {
			if st.LoadState == sluice.Quarantined && st.ErrorCode != "SLUICE-BACKFILL-VERIFY" && st.ErrorCode != "SLUICE-BACKFILL-TARGET-CHANGED" {
				command = fmt.Sprintf("sluice quarantine retry %s", queue.BatchID(s.StreamID, s.RunID, st.BatchIndex))
			}
		}
	case s.State == stream.PlanPaused:
		command = fmt.Sprintf("sluice backfill start %s", s.StreamID)
	case s.ErrorCode == "SLUICE-BACKFILL-COVERAGE" || s.ErrorCode == "SLUICE-BACKFILL-BEHIND":
		command = fmt.Sprintf("sluice backfill replan %s --covered …", s.StreamID)
	case s.Lifecycle == sluice.NeedsResync || s.Lifecycle == sluice.PendingBackfill && s.PlanID != "" && !s.State.Active():
		command = fmt.Sprintf("sluice backfill start %s", s.StreamID)
	default:
		return nil
	}
	return &command
}

// lastRate is the rate of the stream's last plan in bytes a second.
func (p *Planner) lastRate(ctx context.Context, id sluice.StreamID) (float64, bool, error) {
	plan, found, err := stream.LastPlan(ctx, p.deps.DB, id)
	if err != nil || !found || plan.RunID == "" {
		return 0, false, err
	}
	rows, err := p.deps.Queue.Chunks(ctx, id, plan.RunID)
	if err != nil {
		return 0, false, err
	}
	var s stream.PlanStatus
	progress(&s, rows, plan.Bytes)
	if s.Rate == nil {
		return 0, false, nil
	}
	return *s.Rate, true, nil
}

// Verify looks at a stream's live table, and changes nothing. Against a version of the source it also compares the number of
// rows; live batches that came after that version make a difference then.
func (p *Planner) Verify(ctx context.Context, id sluice.StreamID, r stream.PlanRequest, compare bool) (stream.VerifyReport, error) {
	st, r, err := p.request(ctx, id, r)
	if err != nil {
		return stream.VerifyReport{}, err
	}
	doing := fmt.Sprintf("verify the table of stream %s", id)
	if st.TargetTable == "" {
		return stream.VerifyReport{}, refused(doing, "it has no table yet", "its first batch or its backfill makes it")
	}
	t := lake.Table{Schema: st.TargetSchema, Name: st.TargetTable}
	live, err := p.deps.Lakes.Layout(ctx, st.Org, t)
	if err != nil {
		return stream.VerifyReport{}, err
	}
	if !live.Exists {
		return stream.VerifyReport{}, refused(doing, fmt.Sprintf("table %s is not there", t), "see `sluice stream show`")
	}
	report := stream.VerifyReport{StreamID: id, Table: t.String(), Differences: []string{}}
	v := &lake.Verify{NullsMatch: st.Options.NullKeys == sluice.NullKeysMatch}
	if v.Keys, err = keysOf(st, live.Columns, doing); err != nil {
		return report, err
	}
	for _, c := range r.Options.Checks {
		v.Checks = append(v.Checks, lake.Check{Name: c.Name, SQL: c.SQL, Expected: c.Expected, Tolerance: c.Tolerance})
	}
	rows := int64(-1)
	if compare {
		pinned, err := p.deps.Source.Pin(ctx, st, r.SourceURI, r.Version)
		if err != nil {
			return report, err
		}
		report.Version = &pinned.Version
		var files []File
		for f, err := range pinned.Files(ctx) {
			if err != nil {
				return report, err
			}
			files = append(files, f)
		}
		d := Draft{Stream: st, Pinned: pinned, Chunks: [][]File{files}, Sums: Sum(files)}
		rows, v.Partitions = d.Sums.Rows, d.partitions()
		report.Expected = known(rows)
	}
	is, err := p.deps.Lakes.Verify(ctx, st.Org, t, v)
	if err != nil {
		return report, err
	}
	report.Rows = is.Rows
	for _, x := range v.Judge(rows, is) {
		report.Differences = append(report.Differences, x.String())
	}
	report.OK = len(report.Differences) == 0
	return report, nil
}
