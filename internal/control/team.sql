-- name: TeamInsert
INSERT INTO team (org, team_id, schema_name, enabled, backfill_enabled, events_table, persons_table, imports_schema,
                  version, created_at)
VALUES (:org, :team_id, :schema_name, true, true, :events_table, :persons_table, :imports_schema, 1, {{now}});

-- fragment: team_columns
org, team_id, schema_name, enabled, backfill_enabled, events_table, persons_table, imports_schema, version, created_at

-- name: TeamGet
SELECT {{use team_columns}} FROM team WHERE org = :org AND team_id = :team_id;

-- name: TeamList
SELECT {{use team_columns}} FROM team WHERE org = :org ORDER BY team_id;
