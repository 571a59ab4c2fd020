package stream_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/control"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

func (e *env) code(err error, want sluice.Code) {
	e.t.Helper()
	if sluice.CodeOf(err) != want {
		e.t.Errorf("%v, want %s", err, want)
	}
}

// two makes orgs acme with team 7 and beta, both without limits on streams.
func two(t *testing.T, db *statedb.DB) *env {
	t.Helper()
	e := setup(t, db, "")
	if _, err := e.control.CreateOrg(t.Context(), control.NewOrg{Org: "beta", State: sluice.OrgReady}, by); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *env) enqueue(id sluice.StreamID, run string, first bool, index ...int64) {
	e.t.Helper()
	r := queue.EnqueueRequest{StreamID: id, RunID: sluice.RunID(run), IsFirstEver: first}
	for _, i := range index {
		r.Batches = append(r.Batches, queue.NewBatch{BatchIndex: i, Path: "/x.parquet", UpstreamState: sluice.UpstreamNone})
	}
	if _, err := e.queue.Enqueue(e.t.Context(), r); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) claim(owner string) []sluice.Lease {
	e.t.Helper()
	leases, err := e.queue.Claim(e.t.Context(), queue.ClaimRequest{Owner: owner, Free: 8})
	if err != nil {
		e.t.Fatal(err)
	}
	return leases
}

func (e *env) start(l sluice.Lease) sluice.Batch {
	e.t.Helper()
	w, err := e.queue.Next(e.t.Context(), l)
	if err == nil {
		_, err = e.queue.Start(e.t.Context(), l, w.Batch.BatchID)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return w.Batch
}

func (e *env) succeed(l sluice.Lease, b sluice.Batch, fence int64) {
	e.t.Helper()
	if err := e.queue.Succeed(e.t.Context(), l, queue.Applied{BatchID: b.BatchID, Op: sluice.OpInsert, FenceSeq: fence, Origin: sluice.OriginApplied}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) transfer(o stream.TransferOptions) (stream.Transfer, error) {
	return e.streams.TransferTeam(e.t.Context(), "acme", 7, "beta", o, by)
}

func TestTransfer(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, e := t.Context(), two(t, open())
		if _, err := e.control.CreateUser(ctx, control.NewUser{Org: "acme", Username: "ada", Role: control.UserReader, TeamID: new(sluice.TeamID(7))}, by); err != nil {
			t.Fatal(err)
		}
		busy := e.add(stream.NewStream{SourceType: "pg", Name: "busy"}).StreamID
		begun := e.add(stream.NewStream{SourceType: "pg", Name: "begun", SyncType: sluice.FullRefresh}).StreamID
		history := e.add(stream.NewStream{SourceType: "pg", Name: "history", DeltaURI: "file:///d"}).StreamID
		e.bind(busy, stream.BindOptions{})
		e.enqueue(busy, "r1", false, 0, 1, 2)
		e.enqueue(begun, "r1", false, 0, 1)
		leases := e.claim("old")
		if len(leases) != 2 {
			t.Fatalf("%+v", leases)
		}
		for _, l := range leases { // the first batch of each is applied, and the lease of one lingers with its session
			e.succeed(l, e.start(l), 1)
		}
		busyLease := leases[0]
		if busyLease.StreamID != busy {
			busyLease = leases[1]
		}
		if err := e.queue.Linger(ctx, busyLease); err != nil {
			t.Fatal(err)
		}
		if got, err := e.transfer(stream.TransferOptions{DryRun: true}); err != nil || !got.DryRun || len(got.Streams) != 3 {
			t.Fatalf("%+v, %v", got, err)
		}
		if team, err := e.control.Team(ctx, "acme", 7); err != nil || team.Org != "acme" {
			t.Fatal("a dry run moved the team", err)
		}
		before, err := e.control.Generation(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.transfer(stream.TransferOptions{})
		if err != nil || got.Team.Org != "beta" || len(got.Streams) != 3 || len(got.Disabled) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		left := ""
		for _, s := range got.Streams {
			left += s.LeftTable
		}
		if left != "team_7_data_imports.pg_busy" {
			t.Errorf("left %q", left)
		}
		if after, err := e.control.Generation(ctx); err != nil || after <= before {
			t.Error("the generation did not rise", err)
		}
		// No owner of before can begin anything, lingering or not.
		for _, l := range leases {
			if _, err := e.queue.Next(ctx, l); !errors.Is(err, queue.ErrLeaseLost) {
				t.Errorf("next under the old lease: %v", err)
			}
		}
		if kept, err := e.queue.Lingering(ctx, "old"); err != nil || len(kept) != 0 {
			t.Errorf("%+v, %v", kept, err)
		}
		for _, id := range []sluice.StreamID{busy, begun, history} {
			d, err := e.streams.Detail(ctx, id)
			if err != nil || d.Org != "beta" || d.Lifecycle != sluice.PendingBackfill || d.LastFenceSeq != nil || d.Stream.BootstrappedAt == nil != (id == history) {
				t.Errorf("%+v, %v", d, err)
			}
		}
		// A run that began in the old warehouse refreshes nothing, and what only adds waits for the table.
		if more := e.claim("new"); len(more) != 0 {
			t.Errorf("claimed %+v", more)
		}
		e.enqueue(begun, "r2", false, 0)
		fresh := e.claim("new")
		if len(fresh) != 1 || fresh[0].Org != "beta" || fresh[0].StreamID != begun {
			t.Fatalf("%+v", fresh)
		}
		if b := e.start(fresh[0]); b.RunID != "r2" {
			t.Errorf("%+v", b)
		}
		// The name stays, here and there.
		if b := e.bind(busy, stream.BindOptions{}); b.TargetTable != "pg_busy" {
			t.Errorf("%+v", b)
		}
		if _, err := e.control.CreateTeam(ctx, control.NewTeam{Org: "acme", TeamID: 8, SchemaName: "team_7"}, by); err != nil {
			t.Fatal(err)
		}
		other, err := e.streams.Add(ctx, stream.NewStream{Org: "acme", TeamID: 8, SourceType: "pg", Name: "busy", SyncType: sluice.Append}, by)
		if err != nil {
			t.Fatal(err)
		}
		if b := e.bind(other.StreamID, stream.BindOptions{Exists: tables("pg_busy")}); b.TargetTable == "pg_busy" || b.Adopted {
			t.Errorf("another team of the old org gets the table that was left: %+v", b)
		}
		for _, org := range []sluice.Org{"acme", "beta"} {
			log, err := e.control.AuditLog(ctx, org, 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, row := range log {
				if row.Action == "team.transfer" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d rows of the transfer in the log of %s", n, org)
			}
		}
		if wrong, err := e.queue.HeadsRight(ctx); err != nil || len(wrong) > 0 {
			t.Error(wrong, err)
		}
	})
}

func TestTransferWaitsForBatchesUnderWay(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, e := t.Context(), two(t, open())
		id := e.add(stream.NewStream{SourceType: "pg", Name: "a"}).StreamID
		e.enqueue(id, "r1", false, 0, 1)
		l := e.claim("old")[0]
		b := e.start(l)
		_, err := e.transfer(stream.TransferOptions{Drain: 200 * time.Millisecond})
		e.code(err, "SLUICE-CONTROL-REFUSED")
		if !strings.Contains(err.Error(), string(b.BatchID)) {
			t.Errorf("the batch is not named: %v", err)
		}
		e.succeed(l, b, 1)
		b = e.start(l) // it was refused, so the stream goes on
		var wg sync.WaitGroup
		wg.Go(func() {
			for { // the transfer holds the stream before it waits
				d, err := e.queue.Next(ctx, l)
				if errors.Is(err, queue.ErrNoWork) {
					break
				}
				if err != nil {
					t.Errorf("%+v, %v", d, err)
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
			if err := e.queue.Succeed(ctx, l, queue.Applied{BatchID: b.BatchID, Op: sluice.OpInsert, FenceSeq: 2, Origin: sluice.OriginApplied}); err != nil {
				t.Error(err)
			}
		})
		if _, err := e.transfer(stream.TransferOptions{}); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}

func TestTransferIsRefused(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, e := t.Context(), two(t, open())
		move := func(org sluice.Org, id sluice.TeamID, to sluice.Org) error {
			_, err := e.streams.TransferTeam(ctx, org, id, to, stream.TransferOptions{}, by)
			return err
		}
		e.code(move("acme", 7, "acme"), "SLUICE-CONTROL-INVALID")
		e.code(move("acme", 7, "none"), "SLUICE-CONTROL-NO-ORG")
		e.code(move("acme", 9, "beta"), "SLUICE-CONTROL-NO-TEAM")
		if _, err := e.control.CreateTeam(ctx, control.NewTeam{Org: "beta", TeamID: 9, SchemaName: "team_7"}, by); err != nil {
			t.Fatal(err)
		}
		e.code(move("acme", 7, "beta"), "SLUICE-CONTROL-EXISTS")
		// A team with another schema, but the same one for imports, whose table has the same name.
		if _, err := e.control.CreateTeam(ctx, control.NewTeam{Org: "acme", TeamID: 10, ImportsSchema: "shared"}, by); err != nil {
			t.Fatal(err)
		}
		if _, err := e.control.CreateTeam(ctx, control.NewTeam{Org: "beta", TeamID: 11, ImportsSchema: "shared"}, by); err != nil {
			t.Fatal(err)
		}
		for org, team := range map[sluice.Org]sluice.TeamID{"acme": 10, "beta": 11} {
			s, err := e.streams.Add(ctx, stream.NewStream{Org: org, TeamID: team, SourceType: "pg", Name: "t", SyncType: sluice.Append}, by)
			if err != nil {
				t.Fatal(err)
			}
			e.bind(s.StreamID, stream.BindOptions{})
		}
		e.code(move("acme", 10, "beta"), "SLUICE-NAME-TAKEN")
		if d, err := e.streams.List(ctx, stream.Filter{Org: "acme"}); err != nil || len(d) != 1 {
			t.Error(d, err)
		}
	})
}

func TestRemoveTeamAndOrg(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, e := t.Context(), two(t, open())
		id := e.add(stream.NewStream{SourceType: "pg", Name: "a"}).StreamID
		if _, err := e.control.CreateTeam(ctx, control.NewTeam{Org: "acme", TeamID: 8}, by); err != nil {
			t.Fatal(err)
		}
		e.code(e.streams.RemoveTeam(ctx, "acme", 7, 0, by), "SLUICE-CONTROL-REFUSED")
		e.enqueue(id, "r1", false, 0)
		e.code(e.streams.RemoveOrg(ctx, "acme", 0, false, by), "SLUICE-CONTROL-REFUSED")
		e.code(e.streams.RemoveAt(ctx, id, 9, by), "SLUICE-CONTROL-CONFLICT")
		if err := e.streams.Remove(ctx, id, by); err != nil {
			t.Fatal(err)
		}
		if err := e.streams.RemoveTeam(ctx, "acme", 7, 0, by); err != nil {
			t.Fatal(err)
		}
		_, err := e.streams.Add(ctx, stream.NewStream{Org: "acme", TeamID: 7, SourceType: "pg", Name: "b", SyncType: sluice.Append}, by)
		e.code(err, "SLUICE-CONTROL-NO-TEAM")
		e.code(e.streams.RemoveTeam(ctx, "acme", 8, 0, by), "SLUICE-CONTROL-REFUSED") // the last one
		if err := e.streams.RemoveOrg(ctx, "acme", 0, false, by); err != nil {
			t.Fatal(err)
		}
		e.code(e.streams.RemoveOrg(ctx, "acme", 0, true, by), "SLUICE-CONTROL-NO-ORG")
	})
}

func TestReaderBindings(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, e := t.Context(), setup(t, open(), "")
		waits := e.add(stream.NewStream{SourceType: "pg", Name: "waits"}).StreamID
		bound := e.add(stream.NewStream{SourceType: "pg", Name: "bound"}).StreamID
		loaded := e.add(stream.NewStream{SourceType: "pg", Name: "loaded"}).StreamID
		adopted := e.add(stream.NewStream{SourceType: "pg", Name: "adopted"}).StreamID
		for _, id := range []sluice.StreamID{bound, loaded} {
			e.bind(id, stream.BindOptions{})
		}
		e.bind(adopted, stream.BindOptions{Exists: tables("pg_adopted")})
		e.enqueue(loaded, "r1", false, 0)
		l := e.claim("me")[0]
		e.succeed(l, e.start(l), 1)
		got, err := e.streams.Bindings(ctx, "acme")
		if err != nil || len(got) != 4 {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, b := range got {
			st, err := e.streams.Get(ctx, b.StreamID)
			if err != nil || st.TargetTable != b.TargetTable || st.TargetSchema != b.TargetSchema {
				t.Errorf("the reader's binding %+v is not the writer's target %+v", b, st)
			}
			want := map[sluice.StreamID]bool{waits: false, bound: false, loaded: true, adopted: true}[b.StreamID]
			if b.Queryable != want {
				t.Errorf("%s: queryable is %t", b.Name, b.Queryable)
			}
		}
		_, err = e.streams.Bindings(ctx, "none")
		e.code(err, "SLUICE-CONTROL-NO-ORG")
	})
}

// The names of a team's own events and persons tables are nobody's, whatever they are called.
func TestNamesOfATeamsOwnTables(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, e := t.Context(), setup(t, open(), "")
		_, err := e.control.UpdateTeam(ctx, "acme", 7, 0, by, func(t *control.Team) error {
			t.ImportsSchema, t.EventsTable, t.PersonsTable = "team_7", "pg_happened", "pg_people"
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"happened", "people", "people_raw", "people_distinct_ids", "People"} {
			b := e.bind(e.add(stream.NewStream{SourceType: "pg", Name: name}).StreamID, stream.BindOptions{})
			if !b.Collided {
				t.Errorf("%s: %+v", name, b)
			}
		}
		_, err = e.streams.Bind(ctx, e.add(stream.NewStream{SourceType: "pg", Name: "x"}).StreamID, stream.BindOptions{Table: "pg_people"}, by)
		e.code(err, "SLUICE-NAME-TAKEN")
	})
}
