-- name: LeaseInsert
INSERT INTO stream_lease (stream_id, org, team_id) VALUES (:stream_id, :org, :team_id);

-- name: LeaseLock
SELECT 1 FROM stream_lease WHERE stream_id = :stream_id {{lock stream_lease}};

-- name: LeaseRemove
DELETE FROM stream_lease WHERE stream_id = :stream_id;

-- name: HeadStream
SELECT s.lifecycle, p.run_id, l.halt_code,
       (SELECT min(r.seq) FROM run r WHERE r.stream_id = s.stream_id AND {{use run_live}} AND r.kind <> 'live')
FROM stream_lease l
JOIN stream s ON s.stream_id = l.stream_id
LEFT JOIN plan p ON p.plan_id = s.plan_id
WHERE l.stream_id = :stream_id;

-- name: HeadBatch
SELECT b.batch_id, b.run_id, b.run_seq, b.batch_index, b.upstream_state, b.load_state, b.next_attempt_at, b.state_changed_at,
       b.created_at, b.error_code, r.kind, r.state, r.next_index, r.slot_at, r.replace_head AND NOT r.discarded, r.sealed_by,
       (SELECT min(o.seq) FROM run o WHERE o.stream_id = b.stream_id AND o.seq < b.run_seq
          AND o.state IN ('open', 'sealed', 'halted', 'planning')),
       (SELECT min(o.seq) FROM run o WHERE o.stream_id = b.stream_id AND o.seq < b.run_seq
          AND o.state IN ('open', 'sealed', 'halted', 'planning') AND o.kind <> 'live')
FROM batch b JOIN run r ON r.stream_id = b.stream_id AND r.run_id = b.run_id
WHERE b.stream_id = :stream_id AND b.run_seq >= :from_seq AND b.load_state IN ('queued', 'executing', 'retry_wait', 'quarantined')
ORDER BY b.run_seq, b.batch_index LIMIT 1;

-- name: HeadStored
SELECT head_batch_id, head_run_seq, head_is_chunk, ready_at, blocked_by, oldest_at FROM stream_lease WHERE stream_id = :stream_id;

-- name: HeadStore
UPDATE stream_lease SET head_batch_id = :head_batch_id, head_run_seq = :head_run_seq, head_is_chunk = :head_is_chunk,
    ready_at = :ready_at, blocked_by = :blocked_by, oldest_at = :oldest_at
WHERE stream_id = :stream_id;

-- E3: nobody holds the stream. A lease that lingers is its owner's, who is asked for it.
-- fragment: free
(l.owner IS NULL OR l.expires_at <= {{now}})

-- fragment: not_held
(s.held_until IS NULL OR s.held_until <= {{now}})

-- E1, E2, E6 of the stream; those of the org are beside it, E7 to E16 are in ready_at.
-- fragment: claimable
l.ready_at IS NOT NULL AND l.ready_at <= {{now}} AND {{use free}} AND s.enabled AND NOT s.paused AND s.deleted_at IS NULL
  AND s.bootstrapped_at IS NOT NULL AND {{use not_held}} AND NOT (l.stream_id {{in_uuid :in_flight}})
  AND (NOT l.head_is_chunk OR CAST(:free_chunk AS bigint) > 0)

-- Orgs with claimable work and room for it, longest waiting first. Those that another claimer has locked are left to it.
-- A stream's team is there by its foreign key; it has no switch that stops ingestion (control-plane.md §1).
-- name: ClaimOrgs
WITH ready AS (
    SELECT l.org, min(l.oldest_at) AS oldest_at
    FROM stream_lease l
    JOIN stream s ON s.stream_id = l.stream_id
    WHERE {{use claimable}}
    GROUP BY l.org
)
SELECT o.org FROM org o
JOIN ready ON ready.org = o.org
WHERE o.state = 'ready' AND o.deleted_at IS NULL
  AND o.org NOT IN (SELECT x.org FROM stream_lease l JOIN org x ON x.org = l.org
                    WHERE l.owner IS NOT NULL AND l.expires_at > {{now}} AND NOT l.lingering
                    GROUP BY x.org, x.max_streams HAVING count(*) >= x.max_streams)
  AND (o.max_streams IS NULL OR o.max_streams > 0)
ORDER BY ready.oldest_at, o.org LIMIT :free
{{lock_skip o}};

-- After the locks, in a statement of its own: orgs with lingering leases, and what they hold now; asked ones are on their way.
-- name: ClaimLingering
SELECT o.org, o.max_streams, count(*), sum(CASE WHEN l.lingering AND l.asked_at IS NULL THEN 1 ELSE 0 END),
       sum(CASE WHEN l.lingering AND l.asked_at IS NOT NULL THEN 1 ELSE 0 END)
FROM stream_lease l JOIN org o ON o.org = l.org
WHERE l.org {{in_text :orgs}} AND l.owner IS NOT NULL AND l.expires_at > {{now}} AND o.max_streams IS NOT NULL
GROUP BY o.org, o.max_streams HAVING sum(CASE WHEN l.lingering THEN 1 ELSE 0 END) > 0;

-- name: ClaimWaiting
SELECT count(*) FROM stream_lease l JOIN stream s ON s.stream_id = l.stream_id WHERE l.org = :org AND {{use claimable}};

-- The oldest lingering sessions of an org are asked for; their owners close them and give the leases back.
-- name: ClaimAsk
UPDATE stream_lease SET asked_at = {{now}}
WHERE stream_id IN (SELECT l.stream_id FROM stream_lease l
                    WHERE l.org = :org AND l.owner IS NOT NULL AND l.lingering AND l.asked_at IS NULL AND l.expires_at > {{now}}
                    ORDER BY l.acquired_at, l.stream_id LIMIT :n {{lock_skip l}})
  AND lingering;

-- A lingering lease whose own stream has had work for a while: its owner does not see to it, so somebody else should.
-- name: SweepAsk
UPDATE stream_lease SET asked_at = {{now}}
WHERE stream_id IN (SELECT l.stream_id FROM stream_lease l
                    WHERE l.ready_at <= {{ago :grace}} AND l.owner IS NOT NULL AND l.lingering AND l.asked_at IS NULL
                    ORDER BY l.stream_id LIMIT 100 {{lock_skip l}})
  AND lingering;

-- name: ClaimTake
WITH live AS (
    SELECT l.org, count(*) AS n FROM stream_lease l
    WHERE l.org {{in_text :orgs}} AND l.owner IS NOT NULL AND l.expires_at > {{now}}
    GROUP BY l.org
), candidate AS (
    SELECT l.stream_id, l.oldest_at, l.head_is_chunk, o.max_streams, coalesce(live.n, 0) AS n,
           row_number() OVER (PARTITION BY l.org ORDER BY l.oldest_at, l.stream_id) AS turn
    FROM stream_lease l
    JOIN stream s ON s.stream_id = l.stream_id
    JOIN org o ON o.org = l.org
    LEFT JOIN live ON live.org = l.org
    WHERE {{use claimable}} AND l.org {{in_text :orgs}} AND o.state = 'ready' AND o.deleted_at IS NULL
), room AS (
    SELECT stream_id, oldest_at, head_is_chunk, turn,
           row_number() OVER (PARTITION BY head_is_chunk ORDER BY turn, oldest_at, stream_id) AS place
    FROM candidate WHERE max_streams IS NULL OR turn <= max_streams - n
), chosen AS (
    SELECT stream_id FROM room WHERE NOT head_is_chunk OR place <= :free_chunk
    ORDER BY turn, oldest_at, stream_id LIMIT :free
), locked AS (
    SELECT l.stream_id FROM stream_lease l
    WHERE l.stream_id IN (SELECT stream_id FROM chosen) AND l.ready_at <= {{now}} AND {{use free}}
    ORDER BY l.stream_id {{lock_skip l}}
)
UPDATE stream_lease SET owner = :owner, epoch = epoch + 1, purpose = 'load', lingering = false, asked_at = NULL, acquired_at = {{now}},
    expires_at = {{after :ttl}}
WHERE stream_id IN (SELECT stream_id FROM locked)
RETURNING stream_id, org, team_id, epoch, purpose, expires_at, oldest_at;

-- name: OrgLock
SELECT o.max_streams FROM org o JOIN stream_lease l ON l.org = o.org WHERE l.stream_id = :stream_id {{lock o}};

-- name: LeaseAcquire
UPDATE stream_lease SET owner = :owner, epoch = epoch + 1, purpose = :purpose, lingering = false, asked_at = NULL, acquired_at = {{now}},
    expires_at = {{after :ttl}}
WHERE stream_id = :stream_id AND (owner IS NULL OR expires_at <= {{now}})
  AND (CAST(:max_streams AS bigint) IS NULL OR CAST(:max_streams AS bigint) >
       (SELECT count(*) FROM stream_lease x WHERE x.org = stream_lease.org AND x.owner IS NOT NULL AND x.expires_at > {{now}}))
RETURNING stream_id, org, team_id, epoch, purpose, expires_at, oldest_at;

-- name: Heartbeat
WITH mine AS (
    SELECT l.stream_id FROM stream_lease l
    JOIN {{pairs :leases}} ON pairs.stream_id = l.stream_id AND pairs.epoch = l.epoch
    WHERE l.owner = :owner AND l.expires_at > {{now}}
      AND (l.asked_at IS NULL OR NOT l.lingering OR l.asked_at > {{ago :ask_grace}}) -- who does not answer loses it at its end
    ORDER BY l.stream_id {{lock l}}
)
UPDATE stream_lease SET expires_at = {{after :ttl}}
WHERE stream_id IN (SELECT stream_id FROM mine) AND owner = :owner AND expires_at > {{now}}
RETURNING stream_id;

-- name: LeaseRelease
UPDATE stream_lease SET owner = NULL, lingering = false, asked_at = NULL, expires_at = NULL, purpose = 'load'
WHERE stream_id = :stream_id AND owner = :owner AND epoch = :epoch;

-- name: LeaseLinger
UPDATE stream_lease SET lingering = true, asked_at = NULL
WHERE stream_id = :stream_id AND owner = :owner AND epoch = :epoch AND expires_at > {{now}};

-- name: LeaseWorking
UPDATE stream_lease SET lingering = false, asked_at = NULL WHERE stream_id = :stream_id AND lingering;

-- name: LeaseLingering
SELECT l.stream_id, l.epoch, CASE WHEN l.asked_at IS NULL THEN 0 ELSE 1 END,
       CASE WHEN o.state = 'ready' AND o.deleted_at IS NULL THEN 1 ELSE 0 END,
       CASE WHEN l.ready_at <= {{now}} AND s.enabled AND NOT s.paused AND s.deleted_at IS NULL AND s.bootstrapped_at IS NOT NULL
                 AND {{use not_held}} THEN 1 ELSE 0 END
FROM stream_lease l JOIN stream s ON s.stream_id = l.stream_id JOIN org o ON o.org = l.org
WHERE l.owner = :owner AND l.lingering AND l.expires_at > {{now}};

-- name: LeaseMove
UPDATE stream_lease SET org = :org, owner = NULL, epoch = epoch + 1, lingering = false, asked_at = NULL, expires_at = NULL,
    purpose = 'load', halt_code = NULL, halt_text = NULL, halted_at = NULL
WHERE stream_id = :stream_id;

-- name: TeamExecuting
SELECT b.batch_id FROM stream_lease l JOIN batch b ON b.stream_id = l.stream_id
WHERE l.team_id = :team_id AND l.org = :org AND b.load_state = 'executing' ORDER BY b.batch_id LIMIT 1;

-- name: StreamExecuting
SELECT batch_id FROM batch WHERE stream_id = :stream_id AND load_state = 'executing' LIMIT 1;

-- name: OrgOpenWork
SELECT count(*) FROM stream_lease WHERE org = :org AND head_batch_id IS NOT NULL;

-- name: LeaseApplied
UPDATE stream_lease SET last_applied_at = {{now}}, last_run_id = :run_id, last_index = :index WHERE stream_id = :stream_id;

-- name: LeaseHalt
UPDATE stream_lease SET halt_code = :code, halt_text = :text, halted_at = {{now}}
WHERE stream_id = :stream_id AND owner = :owner AND epoch = :epoch AND expires_at > {{now}};

-- name: LeaseResume
UPDATE stream_lease SET halt_code = NULL, halt_text = NULL, halted_at = NULL WHERE stream_id = :stream_id AND halt_code IS NOT NULL;

-- name: NextWork
SELECT CASE WHEN l.owner = :owner AND l.epoch = :epoch AND l.expires_at > {{now}} THEN 1 ELSE 0 END,
       CASE WHEN o.state = 'ready' AND o.deleted_at IS NULL THEN 1 ELSE 0 END,
       CASE WHEN s.enabled AND NOT s.paused AND s.deleted_at IS NULL AND s.bootstrapped_at IS NOT NULL AND {{use not_held}} THEN 1 ELSE 0 END,
       CASE WHEN l.ready_at <= {{now}} THEN 1 ELSE 0 END,
       l.head_batch_id, l.head_run_seq, l.ready_at, l.blocked_by
FROM stream_lease l JOIN stream s ON s.stream_id = l.stream_id JOIN org o ON o.org = l.org
WHERE l.stream_id = :stream_id;

-- name: Contended
SELECT 1 FROM stream_lease l JOIN stream s ON s.stream_id = l.stream_id JOIN org o ON o.org = l.org
WHERE {{use claimable}} AND o.state = 'ready' AND o.deleted_at IS NULL LIMIT 1;

-- name: LeaseStreams
SELECT stream_id FROM stream_lease WHERE stream_id > {{pg}}CAST(:after AS uuid){{end}}{{sqlite}}:after{{end}} ORDER BY stream_id LIMIT :limit;

-- Streams by the page, and whether there is anything about their heads to be compared: an idle stream without open work has
-- nothing stored, and nothing is what it should have.
-- name: LeaseLooks
SELECT l.stream_id, CASE WHEN l.head_batch_id IS NULL AND l.head_run_seq IS NULL AND NOT l.head_is_chunk AND l.ready_at IS NULL
                          AND l.blocked_by IS NULL AND l.oldest_at IS NULL AND l.halt_code IS NULL
                          AND NOT EXISTS (SELECT 1 FROM batch b WHERE b.stream_id = l.stream_id
                                          AND b.load_state IN ('queued', 'executing', 'retry_wait', 'quarantined')) THEN 0 ELSE 1 END
FROM stream_lease l WHERE l.stream_id > {{pg}}CAST(:after AS uuid){{end}}{{sqlite}}:after{{end}} ORDER BY l.stream_id LIMIT :limit;

-- name: SweepTake
UPDATE sweep_lease SET owner = :owner, expires_at = {{after :ttl}}
WHERE name = 'sweep' AND (owner IS NULL OR owner = :owner OR expires_at <= {{now}});

-- name: StatusList
SELECT l.stream_id, s.org, s.team_id, s.source_type, s.prefix, s.name, s.target_schema, s.target_table, s.lifecycle,
       s.lifecycle_reason, CASE WHEN s.delta_uri IS NULL THEN 0 ELSE 1 END, s.enabled, s.paused, s.bootstrapped_at, o.state, l.head_batch_id, b.run_id, b.batch_index, b.load_state,
       b.error_code, b.error_text, l.halt_code, l.halt_text, l.blocked_by, l.oldest_at, l.owner, l.lingering, l.ready_at,
       CASE WHEN l.owner IS NOT NULL AND l.expires_at > {{now}} THEN 1 ELSE 0 END,
       CASE WHEN l.ready_at <= {{now}} THEN 1 ELSE 0 END,
       (SELECT count(*) FROM batch x WHERE x.stream_id = l.stream_id AND x.load_state IN ('queued', 'executing', 'retry_wait', 'quarantined')),
       l.last_applied_at, l.last_run_id, l.last_index
FROM stream_lease l
JOIN stream s ON s.stream_id = l.stream_id
JOIN org o ON o.org = l.org
LEFT JOIN batch b ON b.batch_id = l.head_batch_id
WHERE (CAST(:org AS text) IS NULL OR l.org = :org) AND (CAST(:stream_id AS {{type_uuid}}) IS NULL OR l.stream_id = :stream_id)
  AND l.stream_id > {{pg}}CAST(:after AS uuid){{end}}{{sqlite}}:after{{end}}
ORDER BY l.stream_id LIMIT :limit;

-- name: GaugeStreams
SELECT l.org, l.blocked_by, CASE WHEN l.ready_at <= {{now}} AND ({{use free}} OR l.lingering) THEN 1 ELSE 0 END AS ready, min(l.ready_at), count(*)
FROM stream_lease l WHERE l.head_batch_id IS NOT NULL GROUP BY 1, 2, 3;

-- name: GaugeLeases
SELECT l.org, o.max_streams, count(*), sum(CASE WHEN l.lingering THEN 1 ELSE 0 END)
FROM stream_lease l JOIN org o ON o.org = l.org WHERE l.owner IS NOT NULL AND l.expires_at > {{now}} GROUP BY l.org, o.max_streams;

-- name: GaugeOpen
SELECT l.org, count(*) FROM batch b JOIN stream_lease l ON l.stream_id = b.stream_id
WHERE b.load_state IN ('queued', 'executing', 'retry_wait', 'quarantined') GROUP BY l.org;

-- name: GaugeHalted
SELECT count(*) FROM run r WHERE {{use run_live}} AND r.state = 'halted';
