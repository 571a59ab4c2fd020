package changelog

import (
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/testkit/pg"
)

// TestStore: changelogs, halts and leases, on both kinds of state DB.
func TestStore(t *testing.T) {
	t.Parallel()
	for _, kind := range []statedb.Dialect{statedb.SQLite, statedb.PostgreSQL} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			dsn := filepath.Join(t.TempDir(), "state.db")
			if kind == statedb.PostgreSQL {
				dsn = pg.New(t)
			}
			db, err := statedb.Open(ctx, dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(db.Up(ctx))
			must(db.Check(ctx, queries))
			_, err = control.New(db).CreateOrg(ctx, control.NewOrg{Org: rigOrg, State: sluice.OrgReady}, tester)
			must(err)
			now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
			db.SetNow(&now)
			s := NewStore(db)
			def, err := Definition{Columns: map[string]Pin{"a": {Type: "DATE"}}}.complete()
			must(err)
			c := &Changelog{Name: "events", Lake: rigOrg, Topic: "t", TopicID: "x", Slots: 2, Def: def}
			c.Table.Schema, c.Table.Name = "feeds", "events"
			must(s.Insert(ctx, c, tester))
			for _, again := range []*Changelog{
				{Name: "events", Lake: rigOrg, Topic: "t", Slots: 1, Table: c.Table}, {Name: "other", Lake: rigOrg, Topic: "t", Slots: 1, Table: c.Table},
			} {
				if err := s.Insert(ctx, again, tester); sluice.CodeOf(err) != "SLUICE-CHANGELOG-EXISTS" {
					t.Errorf("%s: %v", again.Name, err)
				}
			}
			if slots, err := s.Slots(ctx); err != nil || len(slots) != 0 {
				t.Errorf("slots before the tables are made: %v, %v", slots, err)
			}
			must(s.Start(ctx, c))
			slots, err := s.Slots(ctx)
			if err != nil || len(slots) != 2 || slots[0].Live {
				t.Fatalf("%+v, %v", slots, err)
			}
			a, ok, err := s.Take(ctx, slots[0], "a", time.Minute)
			if err != nil || !ok || a.Epoch != 1 {
				t.Fatalf("%+v, %t, %v", a, ok, err)
			}
			if _, ok, err := s.Take(ctx, slots[0], "b", time.Minute); err != nil || ok {
				t.Errorf("a slot was taken twice: %v", err)
			}
			now = now.Add(50 * time.Second)
			if kept, err := s.Beat(ctx, a, time.Minute); err != nil || !kept {
				t.Errorf("not renewed: %v", err)
			}
			now = now.Add(61 * time.Second)
			if kept, err := s.Beat(ctx, a, time.Minute); err != nil || kept {
				t.Errorf("expiry is terminal: %v", err)
			}
			b, ok, err := s.Take(ctx, slots[0], "b", time.Minute)
			if err != nil || !ok || b.Epoch != 2 {
				t.Errorf("%+v, %t, %v", b, ok, err)
			}
			must(s.Release(ctx, a)) // the former owner gives nothing away
			if slots, _ := s.Slots(ctx); !slots[0].Live || slots[0].Owner != "b" {
				t.Errorf("%+v", slots)
			}
			for i, owner := range []string{"a", "b", "a"} {
				if n, err := s.Join(ctx, owner, time.Minute); err != nil || n != int64(min(i+1, 2)) {
					t.Errorf("%d members, %v", n, err)
				}
			}
			now = now.Add(2 * time.Minute)
			if n, err := s.Join(ctx, "c", time.Minute); err != nil || n != 1 {
				t.Errorf("%d members after their time, %v", n, err)
			}
			must(s.Running(ctx, c))
			must(s.Halt(ctx, c, "SLUICE-CHANGELOG-GAP", "first"))
			must(s.Halt(ctx, c, "SLUICE-CHANGELOG-CONTROL", "second"))
			must(s.Running(ctx, c))
			got, err := s.Get(ctx, "events")
			if err != nil || got.Status != StatusHalted || got.Halt == nil || got.Halt.Detail != "first" || got.Def.Columns["a"].Type != "DATE" {
				t.Fatalf("%+v, %v", got, err)
			}
			if slots, _ := s.Slots(ctx); len(slots) != 0 {
				t.Errorf("slots of a halted changelog: %+v", slots)
			}
			must(s.Resume(ctx, c, "y", "new_epoch", tester))
			if got, _ := s.Get(ctx, "events"); got.Halt != nil || got.TopicID != "y" || got.Desired != Run {
				t.Errorf("%+v", got)
			}
			must(s.SetDesired(ctx, c, Pause, tester))
			if got, _ := s.Get(ctx, "events"); got.Status != StatusPaused {
				t.Errorf("%+v", got)
			}
			must(s.SetList(ctx, c, Values{Version: 2, Values: []string{"1"}}))
			if got, _ := s.Get(ctx, "events"); got.Values == nil || got.Values.Version != 2 {
				t.Errorf("%+v", got)
			}
			must(s.Delete(ctx, c, tester))
			if _, err := s.Get(ctx, "events"); sluice.CodeOf(err) != "SLUICE-CHANGELOG-NOT-FOUND" {
				t.Error(err)
			}
		})
	}
}
