package fanout

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
)

// What happens to a changelog besides inserts: compaction and retention are passed, an update halts by name, an expired position
// is a gap, and a reseed from what is there is right.
func TestChangelogIsCompactedExpiredUpdated(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{})
	r.org("acme")
	r.team("acme", 1)
	r.team("acme", 2)
	r.changelog(personColumns)
	r.put(`1, 'a', 1, 0, 'null'`)
	r.add(personsDef)
	r.follow()

	r.put(`1, 'b', 1, 0, '1'`)
	r.put(`2, 'b', 1, 0, '2'`)
	r.exec("CALL ducklake_merge_adjacent_files('lake', 'ev', schema => 'feeds')")
	r.exec("DELETE FROM lake.feeds.ev WHERE _offset = 1") // retention
	r.exec("ALTER TABLE lake.feeds.ev ADD COLUMN extra VARCHAR")
	r.exec("INSERT INTO lake.feeds.ev SELECT * REPLACE (9 AS version, 99 AS _offset) FROM lake.feeds.ev WHERE id = 'b' AND team_id = 1")
	r.follow()
	r.want(1, `a|1|f|null`, `b|9|f|1`)
	r.want(2, `b|1|f|2`)

	// Both are stopped; their position expires; one is told to begin anew by the operator.
	pos := r.destinations()[1].Cursor
	for team := range r.teams {
		d := r.destinations()[team]
		if err := r.store.MoveBy(t.Context(), r.f, d, EventPause, by); err != nil {
			t.Fatal(err)
		}
	}
	r.follow()
	for i := range 4 {
		r.exec("INSERT INTO lake.feeds.ev SELECT * REPLACE (%d AS version, %d AS _offset, 'late' AS id) FROM lake.feeds.ev WHERE _offset = 99", i, 200+i)
	}
	r.exec("CALL ducklake_expire_snapshots('lake', versions => [%d])", pos+1)
	r.exec("CALL ducklake_expire_snapshots('lake', versions => [%d])", pos+2)
	for team := range r.teams {
		d := r.destinations()[team]
		if err := r.store.MoveBy(t.Context(), r.f, d, EventResume, by); err != nil {
			t.Fatal(err)
		}
	}
	r.follow()
	r.wantState(1, StateHalted, "SLUICE-FANOUT-GAP")
	r.want(1, `a|1|f|null`, `b|9|f|1`) // stands, and can be read
	for team := range r.teams {
		if err := r.store.MoveBy(t.Context(), r.f, r.destinations()[team], EventReseed, by); err != nil {
			t.Fatal(err)
		}
	}
	r.followTo(StateFollowing)
	r.want(1, `b|9|f|1`, `late|3|f|1`)

	r.exec("UPDATE lake.feeds.ev SET version = 50 WHERE id = 'late'")
	r.follow()
	r.wantHalt("SLUICE-FANOUT-NOT-INSERT-ONLY")
}

func TestSourceIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{})
	r.org("acme")
	r.team("acme", 1)
	r.changelog(personColumns)
	r.put(`1, 'a', 1, 0, 'null'`)
	r.add(personsDef)
	r.follow()
	r.exec("DROP TABLE lake.feeds.ev")
	r.exec("DROP SCHEMA lake.feeds")
	r.changelog(personColumns)
	r.put(`1, 'n', 1, 0, 'null'`)
	r.follow()
	r.wantHalt("SLUICE-FANOUT-SOURCE-RECREATED")
	r.want(1, `a|1|f|null`)
	admin := &Admin{Store: r.store, Sessions: r.down, Files: r.files()}
	if err := admin.Reseed(t.Context(), r.f.Name, Selection{}, by); err != nil {
		t.Fatal(err)
	}
	r.followTo(StateFollowing)
	r.want(1, `n|1|f|null`)
	r.put(`1, 'o', 1, 0, 'null'`)
	r.follow()
	r.wantHalt("")
	r.want(1, `n|1|f|null`, `o|1|f|null`)
}

// Tombstones mark, keys move between teams and leave where they were, bad rows are kept aside.
func TestTombstonesMovesAndBadRows(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{})
	r.org("acme")
	r.org("blue")
	r.team("acme", 1)
	r.team("blue", 2)
	r.changelog(personColumns)
	r.put(`1, 'a', 1, 0, '1'`, `2, 'm', 1, 0, '1'`, `1, NULL, 1, 0, '1'`)
	r.add(strings.Replace(personsDef, "[team_id, id]", "[id]", 1) + "moved: evict\n")
	r.follow()
	r.want(1, `a|1|f|1`)
	r.want(2, `m|1|f|1`)
	r.put(`1, 'm', 2, 0, '2'`) // to team 1
	r.follow()
	r.want(1, `a|1|f|1`, `m|2|f|2`)
	r.want(2)
	r.put(`2, 'm', 1, 0, '"old"'`, `7, 'a', 5, 0, '"nobody"'`) // late; and to a team that is nowhere
	r.follow()
	r.want(1, `m|2|f|2`)
	r.want(2)
	r.put(`1, 'x', 1, 7, '1'`, `1, 'y', -1, 0, '1'`, `1, 'z', 1, 0, '1'`)
	r.follow()
	r.want(1, `m|2|f|2`, `z|1|f|1`)
	got := r.h.RowsOn(r.h.Service("acme"), "SELECT reason, detail FROM "+QuarantineTable(r.destinations()[1].ID).SQL()+" ORDER BY kafka_offset")
	if strings.Join(got, " ") != "null_key| bad_value|is_deleted bad_key|version" {
		t.Errorf("the quarantine has %q", got)
	}
}

func TestTombstones(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{})
	r.org("acme")
	r.team("acme", 1)
	r.changelog(personColumns)
	r.put(`1, 'a', 1, 0, '1'`)
	r.add(personsDef + "tombstones: mark\n")
	r.follow()
	r.put(`tomb 1, 'a'`, `tomb 1, 'unknown'`)
	r.follow()
	r.want(1, `a|1|t|1`)
	r.put(`1, 'a', 0, 0, '0'`) // older
	r.follow()
	r.want(1, `a|1|t|1`)
	r.put(`1, 'a', 2, 0, '2'`)
	r.follow()
	r.want(1, `a|2|f|2`)
	r.put(`1, 'b', 1, 0, '1'`, `tomb 1, 'b'`, `tomb 1, 'c'`, `1, 'c', 1, 0, '1'`, `tomb 1, 'a'`, `1, 'a', 1, 0, '"old"'`)
	r.follow()
	r.want(1, `a|2|t|2`, `b|1|t|1`, `c|1|f|1`)
}

// A table whose rows are updated, deleted and moved, at random: each team's table is what the source says.
func TestTableThatChanges(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(seed(t), 3))
	r := newRig(t, house.Options{})
	r.org("acme")
	r.org("blue")
	r.team("acme", 1)
	r.team("blue", 2)
	r.exec("CREATE SCHEMA lake.feeds")
	r.exec("CREATE TABLE lake.feeds.ev (%s)", personColumns)
	r.exec("INSERT INTO lake.feeds.ev SELECT 1 + i %% 3, 'k' || i, 0, 0, '0' FROM range(20) AS t(i)")
	r.add(strings.Replace(personsDef, "[team_id, id]", "[id]", 1) + "source_kind: table\n")
	r.follow()
	for step := range 24 {
		k := rng.IntN(25)
		switch rng.IntN(6) {
		case 0:
			r.exec("DELETE FROM lake.feeds.ev WHERE id = 'k%d'", k)
		case 1:
			r.exec("UPDATE lake.feeds.ev SET team_id = 1 + (team_id + 1) %% 3 WHERE id IN ('k%d', 'k%d')", k, rng.IntN(25))
		case 2:
			r.exec("BEGIN")
			r.exec("DELETE FROM lake.feeds.ev WHERE id = 'k%d'", k)
			r.exec("INSERT INTO lake.feeds.ev VALUES (%d, 'k%d', %d, 0, '\"again\"')", 1+rng.IntN(3), k, step)
			r.exec("COMMIT")
		case 3:
			r.exec("DELETE FROM lake.feeds.ev WHERE id = 'k%d'", k)
			r.exec("INSERT INTO lake.feeds.ev VALUES (%d, 'k%d', 0, 0, '\"later\"')", 1+rng.IntN(3), k)
		case 4:
			r.exec("UPDATE lake.feeds.ev SET version = %d, props = '%d' WHERE hash(id) %% 3 = %d", rng.IntN(9), step, rng.IntN(3))
		case 5:
			r.exec("BEGIN")
			r.exec("CALL ducklake_rewrite_data_files('lake', 'ev', schema => 'feeds', delete_threshold => 0)")
			r.exec("COMMIT")
		}
		if rng.IntN(4) == 0 {
			r.follow()
		}
	}
	r.follow()
	for team := range r.teams {
		q := "SELECT id, version, is_deleted::BOOLEAN, props FROM %s ORDER BY id"
		want := r.h.RowsOn(r.h.Service(sourceOrg), fmt.Sprintf(q, fmt.Sprintf("lake.feeds.ev WHERE team_id = %d", team)))
		r.want(team, want...)
	}
}

// Rows are added once each, whatever is repeated; columns that the source gets, the tables get, too.
func TestAppendOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{})
	r.org("acme")
	r.team("acme", 1)
	r.changelog(personColumns)
	r.put(`1, 'a', 1, 0, '1'`, `1, 'a', 1, 0, '1'`)
	r.add("mode: append_only\ntable_field: persons_table\nunknown: add\n")
	r.follow()
	r.put(`1, 'b', 1, 0, '1'`, `2, 'b', 1, 0, '1'`)
	r.put(`1, 'c', 1, 0, '1'`)
	r.follow()
	r.want(1, "a|1|0|1", "a|1|0|1", "b|1|0|1", "c|1|0|1")
	r.exec("ALTER TABLE lake.feeds.ev ADD COLUMN extra VARCHAR")
	r.exec("INSERT INTO lake.feeds.ev SELECT * REPLACE ('d' AS id, 50 AS _offset, 'new' AS extra) FROM lake.feeds.ev WHERE id = 'c'")
	r.follow()
	got := r.h.Rows("acme", "SELECT id, extra FROM team_1.persons WHERE id >= 'c' ORDER BY id")
	if strings.Join(got, " ") != "c|∅ d|new" {
		t.Errorf("the table has %q", got)
	}
}

// A destination that is down holds up nobody, and catches up afterwards.
func TestOneDestinationIsDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{})
	r.org("acme")
	r.org("blue")
	r.team("acme", 1)
	r.team("blue", 2)
	r.changelog(personColumns)
	r.put(`1, 'a', 1, 0, '1'`, `2, 'a', 1, 0, '1'`)
	r.add(personsDef)
	r.down.org.Store(sluice.Org("blue"))
	for i := range 5 {
		r.put(fmt.Sprintf(`1, 'a', %d, 0, '1'`, i+2), fmt.Sprintf(`2, 'a', %d, 0, '1'`, i+2))
		r.follow()
		r.want(1, fmt.Sprintf("a|%d|f|1", i+2))
		r.wantState(2, StateRetrying, "SLUICE-FANOUT-UNREACHABLE")
	}
	r.down.org.Store(sluice.Org(""))
	r.followTo(StateFollowing)
	r.want(2, "a|6|f|1")
	r.wantState(2, StateFollowing, "")

	// Down while it follows: it goes back to its cursor and reads for itself afterwards.
	r.down.org.Store(sluice.Org("blue"))
	r.runner.pool.drop("blue")
	r.put(`1, 'b', 1, 0, '1'`, `2, 'b', 1, 0, '1'`)
	r.follow()
	r.put(`1, 'b', 2, 0, '1'`, `2, 'c', 2, 0, '1'`)
	r.follow()
	r.want(1, "a|6|f|1", "b|2|f|1")
	r.down.org.Store(sluice.Org(""))
	r.followTo(StateFollowing)
	r.want(2, "a|6|f|1", "b|1|f|1", "c|2|f|1")
}
