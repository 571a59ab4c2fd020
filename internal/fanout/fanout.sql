-- fragment: fanout_columns
f.fanout_id, f.name, f.lake, f.source_schema, f.source_table, f.config, f.shards, f.desired, f.halt_code, f.halt_detail, f.halted_at, f.created_at, f.updated_at

-- fragment: destination_columns
d.destination_id, d.fanout_id, d.org, d.team_id, d.route, d.origin, d.target_schema, d.target_table, d.state, d.before, d.code, d.detail, d.failed_since,
d.attempts, d.retry_at, d.missing_polls, d.cursor_snapshot, d.empty_from, d.empty_through, d.route_hash, d.pinned_snapshot, d.seed_generation, d.updated_at

-- name: Insert
INSERT INTO fanout (fanout_id, name, lake, source_schema, source_table, config, shards, desired, created_at, updated_at)
VALUES (:fanout_id, :name, :lake, :source_schema, :source_table, {{json :config}}, :shards, 'run', {{now}}, {{now}});

-- name: ShardInsert
INSERT INTO fanout_shard (fanout_id, shard) VALUES (:fanout_id, :shard);

-- name: List
SELECT {{use fanout_columns}} FROM fanout f ORDER BY f.name;

-- name: ByName
SELECT {{use fanout_columns}} FROM fanout f WHERE f.name = :name;

-- name: Generation
SELECT generation FROM fanout WHERE fanout_id = :fanout_id;

-- name: SetGeneration
UPDATE fanout SET generation = :generation WHERE fanout_id = :fanout_id AND generation < :generation;

-- name: SetDesired
UPDATE fanout SET desired = :desired, updated_at = {{now}} WHERE fanout_id = :fanout_id;

-- What is halted stays so until somebody resumes it; the first halt counts.
-- name: Halt
UPDATE fanout SET halt_code = :code, halt_detail = :detail, halted_at = {{now}}, updated_at = {{now}} WHERE fanout_id = :fanout_id AND halt_code IS NULL;

-- name: Resume
UPDATE fanout SET halt_code = NULL, halt_detail = NULL, halted_at = NULL, desired = 'run', updated_at = {{now}} WHERE fanout_id = :fanout_id;

-- name: DestinationsDelete
DELETE FROM fanout_destination WHERE fanout_id = :fanout_id;

-- name: ShardsDelete
DELETE FROM fanout_shard WHERE fanout_id = :fanout_id;

-- name: Delete
DELETE FROM fanout WHERE fanout_id = :fanout_id;

-- name: Destinations
SELECT {{use destination_columns}} FROM fanout_destination d WHERE d.fanout_id = :fanout_id ORDER BY d.org, d.team_id;

-- name: DestinationInsert
INSERT INTO fanout_destination (destination_id, fanout_id, org, team_id, route, origin, target_schema, target_table, state, before, code, detail, updated_at)
VALUES (:destination_id, :fanout_id, :org, :team_id, :route, :origin, :target_schema, :target_table, :state, :before, :code, :detail, {{now}})
ON CONFLICT (destination_id) DO NOTHING;

-- Guarded by the old state: what somebody else has changed meanwhile stands.
-- name: DestinationMove
UPDATE fanout_destination SET state = :state, before = :before, code = :code, detail = :detail,
    failed_since = CASE WHEN CAST(:code AS text) IS NULL THEN NULL ELSE coalesce(failed_since, {{now}}) END, attempts = :attempts,
    retry_at = CASE WHEN :rest > 0 THEN {{after :rest}} ELSE NULL END, missing_polls = :missing_polls, origin = :origin,
    seed_generation = :seed_generation, updated_at = {{now}}
WHERE destination_id = :destination_id AND state = :old_state;

-- name: DestinationCount
UPDATE fanout_destination SET missing_polls = :missing_polls, origin = :origin WHERE destination_id = :destination_id;

-- name: DestinationCursor
UPDATE fanout_destination SET cursor_snapshot = :cursor, updated_at = {{now}} WHERE destination_id = :destination_id;

-- name: DestinationPin
UPDATE fanout_destination SET pinned_snapshot = :snapshot WHERE destination_id = :destination_id;

-- name: DestinationEmpty
UPDATE fanout_destination SET empty_from = :empty_from, empty_through = :empty_through, route_hash = :route_hash WHERE destination_id = :destination_id;

-- name: DestinationBind
UPDATE fanout_destination SET target_schema = :target_schema, target_table = :target_table, state = 'new', before = NULL, code = NULL, detail = NULL,
    failed_since = NULL, attempts = 0, retry_at = NULL, seed_generation = seed_generation + 1, updated_at = {{now}}
WHERE destination_id = :destination_id;

-- name: MemberBeat
INSERT INTO fanout_member (owner, expires_at) VALUES (:owner, {{after :ttl}})
ON CONFLICT (owner) DO UPDATE SET expires_at = excluded.expires_at;

-- name: MemberLeave
DELETE FROM fanout_member WHERE owner = :owner OR expires_at <= {{now}};

-- name: Members
SELECT count(*) FROM fanout_member WHERE expires_at > {{now}};

-- name: Shards
SELECT s.fanout_id, s.shard, s.owner, s.epoch, s.expires_at > {{now}} FROM fanout_shard s WHERE s.fanout_id = :fanout_id ORDER BY s.shard;

-- name: ShardTake
UPDATE fanout_shard SET owner = :owner, epoch = epoch + 1, expires_at = {{after :ttl}}
WHERE fanout_id = :fanout_id AND shard = :shard AND (owner IS NULL OR expires_at <= {{now}})
RETURNING epoch;

-- Expiry is terminal: only taking a shard anew makes it live again.
-- name: ShardBeat
UPDATE fanout_shard SET expires_at = {{after :ttl}}
WHERE fanout_id = :fanout_id AND shard = :shard AND owner = :owner AND epoch = :epoch AND expires_at > {{now}};

-- name: ShardRelease
UPDATE fanout_shard SET owner = NULL, expires_at = NULL WHERE fanout_id = :fanout_id AND shard = :shard AND owner = :owner AND epoch = :epoch;

-- name: LeastPosition
SELECT min(CASE WHEN d.pinned_snapshot > 0 AND d.pinned_snapshot < d.cursor_snapshot OR d.cursor_snapshot = 0 THEN d.pinned_snapshot ELSE d.cursor_snapshot END)
FROM fanout_destination d JOIN fanout f ON f.fanout_id = d.fanout_id
WHERE f.lake = :lake AND d.state <> 'removed' AND (d.cursor_snapshot > 0 OR d.pinned_snapshot > 0);
