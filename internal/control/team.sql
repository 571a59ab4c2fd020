-- name: TeamInsert
INSERT INTO team (org, team_id, schema_name, enabled, backfill_enabled, events_table, persons_table, imports_schema,
                  earliest_event_date, version, created_at)
VALUES (:org, :team_id, :schema_name, true, true, :events_table, :persons_table, :imports_schema, :earliest_event_date, 1, {{now}})
ON CONFLICT (org, team_id) DO UPDATE SET schema_name = excluded.schema_name, enabled = true, backfill_enabled = true,
    events_table = excluded.events_table, persons_table = excluded.persons_table, imports_schema = excluded.imports_schema,
    earliest_event_date = excluded.earliest_event_date, persons_prepared = false, persons_kind = 'table', deleted_at = NULL,
    version = team.version + 1
WHERE team.deleted_at IS NOT NULL;

-- fragment: team_columns
org, team_id, schema_name, enabled, backfill_enabled, events_table, persons_table, imports_schema, earliest_event_date,
persons_prepared, persons_kind, version, created_at

-- name: TeamGet
SELECT {{use team_columns}} FROM team WHERE org = :org AND team_id = :team_id AND deleted_at IS NULL;

-- name: TeamLock
SELECT {{use team_columns}} FROM team WHERE org = :org AND team_id = :team_id AND deleted_at IS NULL {{lock team}};

-- name: TeamList
SELECT {{use team_columns}} FROM team WHERE org = :org AND deleted_at IS NULL ORDER BY team_id;

-- name: TeamListAll
SELECT {{use team_columns}} FROM team WHERE deleted_at IS NULL ORDER BY org, team_id;

-- name: TeamUpdate
UPDATE team SET enabled = :enabled, backfill_enabled = :backfill_enabled, events_table = :events_table, persons_table = :persons_table,
    imports_schema = :imports_schema, earliest_event_date = :earliest_event_date, persons_prepared = :persons_prepared,
    persons_kind = :persons_kind, version = version + 1
WHERE org = :org AND team_id = :team_id AND version = :version AND deleted_at IS NULL;

-- name: TeamBury
UPDATE team SET deleted_at = {{now}}, enabled = false, version = version + 1
WHERE org = :org AND team_id = :team_id AND deleted_at IS NULL;

-- name: TeamDelete
DELETE FROM team WHERE org = :org AND team_id = :team_id AND deleted_at IS NULL;

-- name: TeamMove
UPDATE team SET org = :to_org, version = version + 1 WHERE org = :org AND team_id = :team_id AND deleted_at IS NULL;

-- name: TeamWhere
SELECT org, CASE WHEN deleted_at IS NULL THEN 0 ELSE 1 END FROM team WHERE team_id = :team_id;
