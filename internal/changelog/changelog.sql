-- fragment: changelog_columns
c.changelog_id, c.name, c.lake, c.table_schema, c.table_name, c.cluster, c.topic, c.topic_id, c.slots, c.desired, c.status, c.halt_code,
c.halt_detail, c.halted_at, c.config, c.list, c.created_at, c.updated_at

-- Nobody takes its slots before its tables are made.
-- name: Insert
INSERT INTO changelog (changelog_id, name, lake, table_schema, table_name, cluster, topic, topic_id, slots, desired, status, config, created_at, updated_at)
VALUES (:changelog_id, :name, :lake, :table_schema, :table_name, :cluster, :topic, :topic_id, :slots, 'pause', 'paused', {{json :config}}, {{now}}, {{now}});

-- name: Start
UPDATE changelog SET desired = 'run', status = 'starting', updated_at = {{now}} WHERE changelog_id = :changelog_id;

-- name: SlotInsert
INSERT INTO changelog_slot (changelog_id, slot) VALUES (:changelog_id, :slot);

-- name: List
SELECT {{use changelog_columns}} FROM changelog c ORDER BY c.name;

-- name: ByName
SELECT {{use changelog_columns}} FROM changelog c WHERE c.name = :name;

-- name: SetDesired
UPDATE changelog SET desired = :desired, status = CASE WHEN status = 'halted' THEN status WHEN :desired = 'pause' THEN 'paused' ELSE 'starting' END,
    updated_at = {{now}}
WHERE changelog_id = :changelog_id;

-- name: SetConfig
UPDATE changelog SET config = {{json :config}}, updated_at = {{now}} WHERE changelog_id = :changelog_id;

-- What is halted stays so until somebody resumes it.
-- name: Halt
UPDATE changelog SET status = 'halted', halt_code = :code, halt_detail = :detail, halted_at = {{now}}, updated_at = {{now}}
WHERE changelog_id = :changelog_id AND status <> 'halted';

-- name: Resume
UPDATE changelog SET status = 'starting', desired = 'run', halt_code = NULL, halt_detail = NULL, halted_at = NULL, topic_id = coalesce(CAST(:topic_id AS text), topic_id),
    updated_at = {{now}}
WHERE changelog_id = :changelog_id;

-- name: Running
UPDATE changelog SET status = 'running', updated_at = {{now}} WHERE changelog_id = :changelog_id AND status = 'starting' AND desired = 'run';

-- name: SetList
UPDATE changelog SET list = {{json :list}} WHERE changelog_id = :changelog_id;

-- name: Delete
DELETE FROM changelog WHERE changelog_id = :changelog_id;

-- name: SlotsDelete
DELETE FROM changelog_slot WHERE changelog_id = :changelog_id;

-- name: MemberBeat
INSERT INTO changelog_member (owner, expires_at) VALUES (:owner, {{after :ttl}})
ON CONFLICT (owner) DO UPDATE SET expires_at = excluded.expires_at;

-- name: MemberLeave
DELETE FROM changelog_member WHERE owner = :owner OR expires_at <= {{now}};

-- name: Members
SELECT count(*) FROM changelog_member WHERE expires_at > {{now}};

-- name: Slots
SELECT s.changelog_id, s.slot, s.owner, s.epoch, s.expires_at > {{now}}
FROM changelog_slot s JOIN changelog c ON c.changelog_id = s.changelog_id
WHERE c.desired = 'run' AND c.status <> 'halted'
ORDER BY c.name, s.slot;

-- name: SlotsOf
SELECT s.changelog_id, s.slot, s.owner, s.epoch, s.expires_at > {{now}} FROM changelog_slot s WHERE s.changelog_id = :changelog_id ORDER BY s.slot;

-- name: SlotTake
UPDATE changelog_slot SET owner = :owner, epoch = epoch + 1, expires_at = {{after :ttl}}
WHERE changelog_id = :changelog_id AND slot = :slot AND (owner IS NULL OR expires_at <= {{now}})
RETURNING epoch;

-- Expiry is terminal: only taking a slot anew makes it live again.
-- name: SlotBeat
UPDATE changelog_slot SET expires_at = {{after :ttl}}
WHERE changelog_id = :changelog_id AND slot = :slot AND owner = :owner AND epoch = :epoch AND expires_at > {{now}};

-- name: SlotRelease
UPDATE changelog_slot SET owner = NULL, expires_at = NULL WHERE changelog_id = :changelog_id AND slot = :slot AND owner = :owner AND epoch = :epoch;
