-- name: StreamInsert
INSERT INTO stream (stream_id, org, team_id, source_type, prefix, name, sync_type, delta_uri, options, enabled, paused,
                    lifecycle, lifecycle_at, bootstrapped_at, version, created_at)
VALUES (:stream_id, :org, :team_id, :source_type, :prefix, :name, :sync_type, :delta_uri, {{json :options}}, true, false,
        :lifecycle, {{now}}, CASE WHEN CAST(:bootstrapped AS boolean) THEN {{now}} END, 1, {{now}});

-- fragment: columns
stream_id, org, team_id, source_type, prefix, name, sync_type, delta_uri, options, target_schema, target_table, enabled,
lifecycle, bootstrapped_at, next_run_seq, created_at

-- fragment: detail
paused, deleted_at, lifecycle_reason, lifecycle_at, last_fence_seq, parked_fence_seq, plan_id, plan_generation,
version

-- name: StreamGet
SELECT {{use columns}} FROM stream WHERE stream_id = :id AND deleted_at IS NULL;

-- name: StreamDetail
SELECT {{use columns}}, {{use detail}} FROM stream WHERE stream_id = :id;

-- name: StreamLock
SELECT {{use columns}}, {{use detail}} FROM stream WHERE stream_id = :id {{lock stream}};

-- name: StreamList
SELECT {{use columns}} FROM stream
WHERE deleted_at IS NULL AND (CAST(:org AS text) IS NULL OR org = :org)
  AND (CAST(:team_id AS bigint) IS NULL OR team_id = :team_id)
  AND stream_id > {{pg}}CAST(:after AS uuid){{end}}{{sqlite}}:after{{end}}
ORDER BY stream_id LIMIT :limit;

-- name: StreamUnbound
SELECT {{use columns}} FROM stream WHERE org = :org AND deleted_at IS NULL AND target_table IS NULL ORDER BY stream_id;

-- name: StreamBind
UPDATE stream SET target_schema = :target_schema, target_table = :target_table, target_adopted = :adopted, version = version + 1
WHERE stream_id = :id AND target_table IS NULL;

-- name: StreamEnabled
UPDATE stream SET enabled = :enabled, version = version + 1 WHERE stream_id = :id AND deleted_at IS NULL;

-- name: StreamPaused
UPDATE stream SET paused = :paused, version = version + 1 WHERE stream_id = :id AND deleted_at IS NULL;

-- name: StreamRemove
UPDATE stream SET deleted_at = {{now}}, enabled = false, version = version + 1 WHERE stream_id = :id AND deleted_at IS NULL;

-- name: NameTaken
SELECT 1 FROM stream WHERE org = :org AND lower(target_schema) = lower(CAST(:target_schema AS text))
  AND lower(target_table) = lower(CAST(:target_table AS text)) AND stream_id <> :id
UNION ALL
SELECT 1 FROM reserved_name WHERE org = :org AND schema_lower = lower(CAST(:target_schema AS text))
  AND table_lower = lower(CAST(:target_table AS text))
LIMIT 1;

-- name: NameReserve
INSERT INTO reserved_name (org, schema_lower, table_lower, reserved_for, created_at)
VALUES (:org, lower(CAST(:target_schema AS text)), lower(CAST(:target_table AS text)), :reserved_for, {{now}})
ON CONFLICT DO NOTHING;

-- name: StreamUpdate
UPDATE stream SET enabled = :enabled, delta_uri = :delta_uri, options = {{json :options}}, version = version + 1
WHERE stream_id = :id AND deleted_at IS NULL;

-- A table is there once a batch was applied to it, or if the stream was given one that existed.
-- name: StreamBindings
SELECT stream_id, team_id, source_type, prefix, name, target_schema, target_table, lifecycle,
       CASE WHEN target_table IS NOT NULL AND (target_adopted OR last_fence_seq IS NOT NULL) THEN 1 ELSE 0 END
FROM stream WHERE org = :org AND deleted_at IS NULL ORDER BY stream_id;

-- name: TeamStreams
SELECT stream_id FROM stream WHERE org = :org AND team_id = :team_id AND deleted_at IS NULL ORDER BY stream_id;

-- name: TeamTombstones
SELECT count(*) FROM stream WHERE org = :org AND team_id = :team_id;

-- name: TeamHold
UPDATE stream SET held_until = {{after :ttl}} WHERE org = :org AND team_id = :team_id AND deleted_at IS NULL;

-- name: TeamUnhold
UPDATE stream SET held_until = NULL WHERE org = :org AND team_id = :team_id AND held_until IS NOT NULL;

-- The table is to be filled anew; fences count from the beginning in another lake. A planner looks at streams with history.
-- name: StreamMoved
UPDATE stream SET lifecycle = 'pending_backfill', lifecycle_reason = :reason, lifecycle_at = {{now}}, plan_id = NULL,
    last_fence_seq = NULL, parked_fence_seq = NULL, target_adopted = false, held_until = NULL,
    bootstrapped_at = CASE WHEN delta_uri IS NULL OR sync_type = 'full_refresh' THEN bootstrapped_at END, version = version + 1
WHERE stream_id = :id AND deleted_at IS NULL;

-- name: HistoryForget
DELETE FROM stream_target_history WHERE stream_id = :id;

-- name: NameReserveMoved
INSERT INTO reserved_name (org, schema_lower, table_lower, reserved_for, created_at)
SELECT :to_org, schema_lower, table_lower, reserved_for, {{now}} FROM reserved_name r
WHERE r.org = :org AND r.schema_lower {{in_text :schemas}}
ON CONFLICT DO NOTHING;
