package queue_test

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"sluice/internal/queue"
	"sluice/internal/statedb"
	"sluice/internal/testkit/pg"
)

// The claim must cost what the work costs, not what the history costs: its plans read stream_lease, stream, team and org
// only, and lease rows by the index of ready ones.
func TestClaimReadsNoHistory(t *testing.T) {
	t.Parallel()
	claims := []string{"ClaimOrgs", "ClaimLingering", "ClaimWaiting", "ClaimTake", "ClaimAsk", "LeaseLingering", "Contended", "Heartbeat", "BatchStart"}
	history := regexp.MustCompile(`(?i)\b(batch|run|batch_status|batch_marker)\b`)

	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dsn := t.TempDir() + "/state.db"
		migrate(t, dsn)
		db, err := sql.Open("sqlite3", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, name := range claims {
			text := queue.Queries.Get(name).SQL(statedb.SQLite)
			plan := explain(t, db, "EXPLAIN QUERY PLAN "+text, strings.Count(text, "?"), 3)
			for _, line := range plan {
				if name == "BatchStart" && strings.Contains(line, "SEARCH batch USING") {
					continue // the one batch, by its key
				}
				if history.MatchString(line) || strings.HasPrefix(line, "SCAN stream_lease") && !strings.Contains(line, "USING INDEX") {
					t.Errorf("%s: %s\n%s", name, line, strings.Join(plan, "\n"))
				}
			}
		}
	})

	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		dsn := pg.New(t)
		migrate(t, dsn)
		db, err := sql.Open("pgx", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		fill(t, db, 20_000, 200, 20_000)
		for _, name := range claims {
			text := queue.Queries.Get(name).SQL(statedb.PostgreSQL)
			plan := explainPrepared(t, db, name, text)
			for _, line := range plan {
				bad := strings.Contains(line, "Seq Scan on batch") || strings.Contains(line, "Seq Scan on run") ||
					strings.Contains(line, "Seq Scan on stream_lease") || strings.Contains(line, "batch_status")
				if name != "BatchStart" {
					bad = bad || regexp.MustCompile(`on (batch|run|batch_status)\b`).MatchString(line)
				}
				if bad {
					t.Errorf("%s: %s\n%s", name, line, strings.Join(plan, "\n"))
				}
			}
		}
	})
}

func migrate(t *testing.T, dsn string) {
	t.Helper()
	db, err := statedb.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// fill makes a large state DB: so many streams of 500 orgs, of which some are ready and 50 held, and a history of
// applied batches, 100 per run.
func fill(t testing.TB, db *sql.DB, streams, ready, history int) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, text := range []string{
		`INSERT INTO org SELECT 'o' || i, 'o', 'o' || i, NULL, 'copy_v1', 'ready', NULL, 4, 1, NULL, NULL, '{}', 1, now(), NULL FROM generate_series(1, 500) i`,
		`INSERT INTO team (org, team_id, schema_name, enabled, backfill_enabled, version, created_at) SELECT 'o' || i, i, 's', true, true, 1, now() FROM generate_series(1, 500) i`,
		`INSERT INTO stream (stream_id, org, team_id, source_type, prefix, name, sync_type, options, enabled, paused, lifecycle, lifecycle_at, bootstrapped_at, version, created_at)
		 SELECT md5(i::text)::uuid, 'o' || (i % 500 + 1), i % 500 + 1, 's', '', 'n', 'append', '{}', true, false, 'primed', now(), now(), 1, now() FROM generate_series(1, ` + fmt.Sprint(streams) + `) i`,
		strings.ReplaceAll(`INSERT INTO stream_lease (stream_id, org, team_id, head_batch_id, head_run_seq, ready_at, oldest_at, owner, expires_at)
		 SELECT stream_id, org, team_id, CASE WHEN i <= READY THEN stream_id END, CASE WHEN i <= READY THEN 1 END, CASE WHEN i <= READY THEN now() END,
		        CASE WHEN i <= READY THEN now() - i * interval '1 second' END,
		        CASE WHEN i BETWEEN READY - 20 AND READY + 30 THEN 'x' END, CASE WHEN i BETWEEN READY - 20 AND READY + 30 THEN now() + interval '1 hour' END
		 FROM (SELECT stream_id, org, team_id, row_number() OVER () AS i FROM stream) s`, "READY", fmt.Sprint(ready)),
		`INSERT INTO run (stream_id, run_id, seq, kind, sync_type, is_first_ever, state, options, replace_head, first_batch_at, sealed_by, sealed_at, ended_at)
		 SELECT md5((i % ` + fmt.Sprint(streams) + ` + 1)::text)::uuid, 'r' || i, i, 'live', 'append', false, 'succeeded', '{}', false, now(), 'final', now(), now()
		 FROM generate_series(1, ` + fmt.Sprint(history/100) + `) i`,
		// In bulk: without keys and indexes, which are made afterwards.
		`SET synchronous_commit = off; SET maintenance_work_mem = '512MB'`,
		`ALTER TABLE batch DROP CONSTRAINT batch_pkey CASCADE`, // with the references to it
		`ALTER TABLE batch DROP CONSTRAINT batch_stream_id_run_id_batch_index_key`,
		`DROP INDEX batch_status_batch`,
		`INSERT INTO batch (batch_id, stream_id, run_id, run_seq, batch_index, path, is_final, is_resume, op, upstream_state, load_state, attempt, state_changed_at, created_at)
		 SELECT md5(r.run_id || '/' || b)::uuid, r.stream_id, r.run_id, r.seq, b, 's3://x/' || r.run_id || '/' || b, false, false, 'insert', 'none', 'succeeded', 1, now(), now()
		 FROM run r, generate_series(0, 99) b`,
		`INSERT INTO batch_status (batch_id, load_state, attempt, created_at) SELECT batch_id, 'succeeded', 1, now() FROM batch`,
		`ALTER TABLE batch ADD PRIMARY KEY (batch_id)`,
		`ALTER TABLE batch ADD UNIQUE (stream_id, run_id, batch_index)`,
		`CREATE INDEX batch_status_batch ON batch_status (batch_id, id)`,
		`ANALYZE`,
	} {
		if _, err := conn.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

func explain(t *testing.T, db *sql.DB, text string, params, column int) []string {
	t.Helper()
	args := make([]any, params)
	rows, err := db.QueryContext(t.Context(), text, args...)
	if err != nil {
		return nil
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		cols, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		values, dest := make([]any, len(cols)), make([]any, len(cols))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, fmt.Sprint(values[column]))
	}
	if err := rows.Err(); err != nil {
		return nil
	}
	return plan
}

// explainPrepared plans as the server does for a statement that runs often: without looking at the parameters.
func explainPrepared(t *testing.T, db *sql.DB, name, text string) []string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	run := func(text string) {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	run("SET plan_cache_mode = force_generic_plan")
	run("PREPARE p" + name + " AS " + text)
	highest := 0
	for _, m := range regexp.MustCompile(`\$(\d+)`).FindAllStringSubmatch(text, -1) {
		var n int
		fmt.Sscan(m[1], &n)
		highest = max(highest, n)
	}
	rows, err := conn.QueryContext(ctx, "EXPLAIN EXECUTE p"+name+"("+strings.TrimSuffix(strings.Repeat("NULL,", highest), ",")+")")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan
}
