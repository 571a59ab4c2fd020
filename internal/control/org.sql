-- name: OrgInsert
INSERT INTO org (org, display_name, database_name, hostname_alias, naming_policy, state, max_sessions, max_streams,
                 backfill_per_org, memory_bytes, threads, lake, version, created_at)
VALUES (:org, :display_name, :database_name, :hostname_alias, :naming_policy, :state, :max_sessions, :max_streams,
        :backfill_per_org, :memory_bytes, :threads, {{json :lake}}, 1, {{now}});

-- fragment: org_columns
org, display_name, database_name, hostname_alias, naming_policy, state, max_sessions, max_streams, backfill_per_org,
memory_bytes, threads, lake, version, created_at, deleted_at

-- name: OrgGet
SELECT {{use org_columns}} FROM org WHERE org = :org;

-- name: OrgLock
SELECT {{use org_columns}} FROM org WHERE org = :org {{lock org}};

-- name: OrgByDatabase
SELECT {{use org_columns}} FROM org WHERE database_name = :database AND deleted_at IS NULL;

-- name: OrgList
SELECT {{use org_columns}} FROM org WHERE deleted_at IS NULL ORDER BY org;

-- name: OrgUpdate
UPDATE org SET display_name = :display_name, hostname_alias = :hostname_alias, state = :state, naming_policy = :naming_policy, max_sessions = :max_sessions, max_streams = :max_streams,
    backfill_per_org = :backfill_per_org, memory_bytes = :memory_bytes, threads = :threads, lake = {{json :lake}},
    version = version + 1, deleted_at = CASE WHEN CAST(:deleted AS boolean) THEN coalesce(deleted_at, {{now}}) ELSE deleted_at END
WHERE org = :org AND version = :version;

-- name: OrgListVisible
SELECT {{use org_columns}} FROM org WHERE deleted_at IS NULL AND state {{in_text :states}} ORDER BY org;

-- name: OrgPage
SELECT {{use org_columns}} FROM org WHERE deleted_at IS NULL AND org > :after ORDER BY org LIMIT :limit;

-- name: OrgByHostname
SELECT {{use org_columns}} FROM org WHERE hostname_alias = :hostname AND deleted_at IS NULL;

-- name: OrgToPurge
SELECT org FROM org WHERE deleted_at < {{ago :age}} AND purged_at IS NULL ORDER BY org LIMIT 10;

-- name: OrgPurged
UPDATE org SET purged_at = {{now}}, display_name = '', hostname_alias = NULL WHERE org = :org AND purged_at IS NULL AND deleted_at IS NOT NULL;
