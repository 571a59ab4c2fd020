-- name: StreamInsert
INSERT INTO stream (stream_id, org, team_id, source_type, prefix, name, sync_type, delta_uri, options, enabled, paused,
                    lifecycle, lifecycle_at, bootstrapped_at, version, created_at)
VALUES (:stream_id, :org, :team_id, :source_type, :prefix, :name, :sync_type, :delta_uri, {{json :options}}, true, false,
        :lifecycle, {{now}}, CASE WHEN CAST(:bootstrapped AS boolean) THEN {{now}} END, 1, {{now}});

-- fragment: columns
stream_id, org, team_id, source_type, prefix, name, sync_type, delta_uri, options, target_schema, target_table, enabled,
lifecycle, bootstrapped_at, next_run_seq, created_at

-- fragment: detail
paused, deleted_at, lifecycle_reason, lifecycle_at, last_fence_seq, parked_fence_seq, plan_id, plan_generation

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
UPDATE stream SET target_schema = :target_schema, target_table = :target_table, version = version + 1
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
