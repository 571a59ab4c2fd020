-- fragment: plan_columns
p.plan_id, p.stream_id, p.org, p.kind, p.generation, p.state, p.return_to, p.expected_table_id, p.source_uri, p.delta_version,
p.delta_table_id, p.folder_token, p.run_id, p.plan_hash, p.chunk_count, p.files, p.bytes, p.rows, p.chunks_applied, p.bytes_applied,
p.rows_applied, p.last_progress_at, p.slot_at, p.priority, p.owner, p.lease_expires_at, p.failures, p.first_failed_at, p.last_error,
p.not_before, p.replans, p.created_at, p.ended_at, p.asked_version, p.covered_answer, p.options, p.pin, p.covered, p.error_code,
p.deferrals, p.defer_reason, p.fallback, p.resumed, p.wanted_at, p.end_reason, p.replan_window_at

-- fragment: plan_active
state IN ('wanted', 'planning', 'running', 'paused', 'halted')

-- name: PlanInsert
INSERT INTO plan (plan_id, stream_id, org, kind, generation, state, return_to, source_uri, folder_token, priority, replans, created_at,
                  wanted_at, asked_version, covered_answer, options, replan_window_at, slot_at)
SELECT {{pg}}CAST(:plan_id AS uuid){{end}}{{sqlite}}:plan_id{{end}}, s.stream_id, s.org, :kind, s.plan_generation, 'wanted', :return_to, :source_uri, :folder_token,
       CAST(:priority AS bigint),
       CASE WHEN NOT CAST(:one_now AS boolean) THEN CAST(:replans AS bigint)
            WHEN CAST(:replan_window_at AS {{type_time}}) > {{ago :window}} THEN CAST(:replans AS bigint) + 1 ELSE 1 END,
       {{now}}, {{now}}, CAST(:asked_version AS bigint), :covered_answer, {{json :options}},
       CASE WHEN CAST(:one_now AS boolean) AND (CAST(:replan_window_at AS {{type_time}}) IS NULL
                 OR CAST(:replan_window_at AS {{type_time}}) <= {{ago :window}}) THEN {{now}} ELSE CAST(:replan_window_at AS {{type_time}}) END, NULL
FROM stream s WHERE s.stream_id = :stream_id;

-- name: PlanGet
SELECT {{use plan_columns}} FROM plan p WHERE p.plan_id = :plan_id;

-- name: PlanOf
SELECT {{use plan_columns}} FROM plan p WHERE p.stream_id = :stream_id AND p.{{use plan_active}};

-- name: PlanLast
SELECT {{use plan_columns}} FROM plan p WHERE p.stream_id = :stream_id ORDER BY p.generation DESC, p.created_at DESC LIMIT 1;

-- name: PlanOfRun
SELECT {{use plan_columns}} FROM plan p WHERE p.stream_id = :stream_id AND p.run_id = :run_id;

-- name: PlansOpen
SELECT {{use plan_columns}} FROM plan p WHERE p.{{use plan_active}} AND (CAST(:org AS text) IS NULL OR p.org = :org)
ORDER BY p.created_at, p.plan_id;

-- Plans whose stream was deleted: nothing of them moves any more.
-- name: PlanPurge
UPDATE plan SET state = 'cancelled', ended_at = {{now}}, slot_at = NULL, owner = NULL, lease_expires_at = NULL, end_reason = 'stream deleted'
WHERE {{use plan_active}} AND EXISTS (SELECT 1 FROM stream s WHERE s.stream_id = plan.stream_id AND s.deleted_at IS NOT NULL);

-- name: PlanToStream
UPDATE stream SET plan_generation = plan_generation + 1 WHERE stream_id = :id AND deleted_at IS NULL;

-- name: LifecyclePending
UPDATE stream SET lifecycle = 'pending_backfill', lifecycle_reason = :reason, lifecycle_at = {{now}}, plan_id = :plan_id,
    parked_fence_seq = CASE WHEN lifecycle = 'pending_backfill' THEN parked_fence_seq ELSE last_fence_seq END,
    bootstrapped_at = coalesce(bootstrapped_at, {{now}}), version = version + 1
WHERE stream_id = :id AND lifecycle IN ('pending_backfill', 'primed', 'needs_resync', 'backfilling');

-- name: LifecycleBackfilling
UPDATE stream SET lifecycle = 'backfilling', lifecycle_reason = NULL, lifecycle_at = {{now}}, version = version + 1
WHERE stream_id = :id AND lifecycle = 'pending_backfill' AND plan_id = :plan_id AND plan_generation = :generation AND deleted_at IS NULL;

-- name: BootstrapPrimed
UPDATE stream SET lifecycle = 'primed', lifecycle_reason = :reason, lifecycle_at = {{now}}, bootstrapped_at = {{now}}, version = version + 1
WHERE stream_id = :id AND lifecycle = 'pending_backfill' AND bootstrapped_at IS NULL AND plan_id IS NULL AND deleted_at IS NULL;

-- name: StreamsUnexamined
SELECT {{use columns}} FROM stream
WHERE bootstrapped_at IS NULL AND deleted_at IS NULL AND stream_id > {{pg}}CAST(:after AS uuid){{end}}{{sqlite}}:after{{end}}
ORDER BY stream_id LIMIT :limit;

-- Parked streams whose owner has asked for a rebuild by itself.
-- name: StreamsToResync
SELECT {{use columns}} FROM stream
WHERE lifecycle = 'needs_resync' AND resync = 'auto' AND delta_uri IS NOT NULL AND deleted_at IS NULL AND enabled
  AND lifecycle_at < {{ago :after}} AND plan_id IS NULL
ORDER BY stream_id LIMIT :limit;

-- name: PlanTake
UPDATE plan SET state = 'planning', owner = :owner, lease_expires_at = {{after :ttl}}
WHERE plan_id IN (
    SELECT p.plan_id FROM plan p JOIN stream s ON s.stream_id = p.stream_id
    WHERE p.slot_at IS NOT NULL AND s.deleted_at IS NULL
      AND (p.state = 'wanted' AND (p.not_before IS NULL OR p.not_before <= {{now}})
           OR p.state = 'planning' AND p.lease_expires_at <= {{now}})
    ORDER BY p.slot_at, p.plan_id LIMIT :limit {{lock_skip p}})
RETURNING plan_id;

-- name: PlanRenew
UPDATE plan SET lease_expires_at = {{after :ttl}}
WHERE plan_id = :plan_id AND state = 'planning' AND owner = :owner AND lease_expires_at > {{now}};

-- name: PlanHeld
SELECT 1 FROM plan p WHERE p.plan_id = :plan_id AND p.state = 'planning' AND p.owner = :owner AND p.lease_expires_at > {{now}};

-- name: PlanPin
UPDATE plan SET run_id = :run_id, source_uri = :source_uri, delta_version = :delta_version, delta_table_id = :delta_table_id,
    expected_table_id = :expected_table_id, plan_hash = :plan_hash, chunk_count = :chunk_count, files = :files, bytes = :bytes, rows = :rows,
    pin = {{json :pin}}, fallback = :fallback
WHERE plan_id = :plan_id AND state = 'planning' AND owner = :owner AND lease_expires_at > {{now}};

-- name: PlanRunning
UPDATE plan SET state = 'running', owner = NULL, lease_expires_at = NULL, last_progress_at = {{now}}, covered = :covered,
    failures = 0, first_failed_at = NULL, last_error = NULL, error_code = NULL, not_before = NULL, defer_reason = NULL, deferrals = 0
WHERE plan_id = :plan_id AND state = 'planning' AND owner = :owner AND lease_expires_at > {{now}} AND slot_at IS NOT NULL
  AND generation = (SELECT s.plan_generation FROM stream s WHERE s.stream_id = plan.stream_id AND s.deleted_at IS NULL);

-- name: PlanDeferred
UPDATE plan SET state = 'wanted', slot_at = NULL, owner = NULL, lease_expires_at = NULL, run_id = NULL, not_before = {{after :wait}},
    deferrals = deferrals + 1, defer_reason = :reason
WHERE plan_id = :plan_id AND state = 'planning' AND owner = :owner;

-- name: PlanFailed
UPDATE plan SET state = 'wanted', slot_at = NULL, owner = NULL, lease_expires_at = NULL, run_id = NULL, not_before = {{after :wait}},
    failures = failures + 1, first_failed_at = coalesce(first_failed_at, {{now}}), error_code = :code, last_error = :text
WHERE plan_id = :plan_id AND state = 'planning' AND owner = :owner;

-- name: PlanEnded
UPDATE plan SET state = :state, ended_at = {{now}}, slot_at = NULL, owner = NULL, lease_expires_at = NULL, end_reason = :reason
WHERE plan_id = :plan_id AND {{use plan_active}};

-- name: PlanPaused
UPDATE plan SET state = 'paused', slot_at = NULL, owner = NULL, lease_expires_at = NULL
WHERE plan_id = :plan_id AND state IN ('wanted', 'planning', 'running');

-- name: PlanUnpaused
UPDATE plan SET state = CASE WHEN EXISTS (SELECT 1 FROM run r WHERE r.stream_id = plan.stream_id AND r.run_id = plan.run_id
                                          AND r.state IN ('sealed', 'halted')) THEN 'running' ELSE 'wanted' END,
    resumed = true, wanted_at = {{now}}, not_before = NULL, priority = :priority
WHERE plan_id = :plan_id AND state = 'paused';

-- name: PlanCovered
INSERT INTO covered_batch (stream_id, run_id, batch_index, plan_id, delta_version, proof, created_at)
SELECT {{pg}}CAST(:stream_id AS uuid), x.run_id, x.batch_index, CAST(:plan_id AS uuid), x.delta_version, x.proof, {{now}}
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS x(run_id text, batch_index bigint, delta_version bigint, proof text) WHERE true{{end}}{{sqlite}}:stream_id, json_extract(value, '$.run_id'), json_extract(value, '$.batch_index'), :plan_id, json_extract(value, '$.delta_version'),
       json_extract(value, '$.proof'), {{now}} FROM json_each(:rows) WHERE true{{end}}
ON CONFLICT (stream_id, run_id, batch_index) DO UPDATE SET plan_id = excluded.plan_id, delta_version = excluded.delta_version,
    proof = excluded.proof, created_at = excluded.created_at;

-- What the swap writes markers for: batches that are queued go by their own ids and order.
-- name: CoveredOf
SELECT c.run_id, c.batch_index, b.batch_id, b.run_seq FROM covered_batch c
LEFT JOIN batch b ON b.stream_id = c.stream_id AND b.run_id = c.run_id AND b.batch_index = c.batch_index
WHERE c.stream_id = :stream_id AND c.plan_id = (SELECT p.plan_id FROM plan p WHERE p.stream_id = :stream_id AND p.run_id = :run_id)
ORDER BY c.run_id, c.batch_index;

-- name: CoveredRemoveOld
DELETE FROM covered_batch WHERE created_at < {{ago :age}} AND NOT EXISTS (
    SELECT 1 FROM plan p WHERE p.plan_id = covered_batch.plan_id AND p.{{use plan_active}});

-- name: SlotLock
SELECT 1 FROM slot_lock x WHERE x.one = 1 {{lock x}};

-- name: SlotsUsed
SELECT p.org, count(*) FROM plan p WHERE p.slot_at IS NOT NULL AND p.{{use plan_active}} GROUP BY p.org;

-- name: SlotCandidates
SELECT p.plan_id, p.stream_id, p.org, p.run_id, p.priority, p.resumed OR p.state = 'running', p.wanted_at, o.backfill_per_org
FROM plan p JOIN stream s ON s.stream_id = p.stream_id JOIN org o ON o.org = p.org
WHERE p.slot_at IS NULL AND p.state IN ('wanted', 'running') AND (p.not_before IS NULL OR p.not_before <= {{now}})
  AND s.deleted_at IS NULL AND s.enabled AND NOT s.paused AND o.state = 'ready' AND o.deleted_at IS NULL
ORDER BY p.wanted_at, p.plan_id LIMIT :limit;

-- name: SlotGrant
UPDATE plan SET slot_at = {{now}} WHERE plan_id = :plan_id AND slot_at IS NULL AND state IN ('wanted', 'running');

-- name: LookGet
SELECT l.first_at, l.looked_at, l.empty_at, l.error_code, l.error_text, l.failures, l.not_before,
       CASE WHEN l.not_before <= {{now}} THEN 1 ELSE 0 END,
       CASE WHEN l.first_at <= {{ago :patience}} THEN 1 ELSE 0 END,
       CASE WHEN l.empty_at IS NOT NULL AND l.empty_at <= {{ago :apart}} THEN 1 ELSE 0 END
FROM source_look l WHERE l.stream_id = :stream_id;

-- name: LookStore
INSERT INTO source_look (stream_id, first_at, looked_at, empty_at, error_code, error_text, failures, not_before)
VALUES (:stream_id, {{now}}, {{now}}, CASE WHEN CAST(:empty AS boolean) THEN {{now}} END, :code, :text,
        CASE WHEN CAST(:code AS text) IS NULL THEN 0 ELSE 1 END, {{after :wait}})
ON CONFLICT (stream_id) DO UPDATE SET looked_at = excluded.looked_at,
    empty_at = CASE WHEN excluded.empty_at IS NULL THEN NULL ELSE coalesce(source_look.empty_at, excluded.empty_at) END,
    error_code = excluded.error_code, error_text = excluded.error_text,
    failures = CASE WHEN excluded.error_code IS NULL THEN 0 ELSE source_look.failures + 1 END, not_before = excluded.not_before;

-- name: LookRemove
DELETE FROM source_look WHERE stream_id = :stream_id;

-- name: PassEnded
INSERT INTO planner_pass (instance, ended_at) VALUES (:instance, {{now}})
ON CONFLICT (instance) DO UPDATE SET ended_at = excluded.ended_at;

-- name: TargetOpen
SELECT h.lake_table_id, h.from_snapshot FROM stream_target_history h WHERE h.stream_id = :stream_id AND h.to_snapshot IS NULL
ORDER BY h.from_snapshot DESC LIMIT 1;

-- name: TargetClose
UPDATE stream_target_history SET to_snapshot = :snapshot
WHERE stream_id = :stream_id AND to_snapshot IS NULL AND lake_table_id <> :lake_table_id;

-- name: TargetInsert
INSERT INTO stream_target_history (stream_id, lake_table_id, from_snapshot, reason, batch_id, created_at)
VALUES (:stream_id, :lake_table_id, :snapshot, :reason, :batch_id, {{now}})
ON CONFLICT DO NOTHING;

-- name: TargetList
SELECT h.lake_table_id, h.from_snapshot, h.to_snapshot, h.reason, h.batch_id, h.created_at
FROM stream_target_history h WHERE h.stream_id = :stream_id ORDER BY h.created_at, h.from_snapshot;

-- name: GaugeLifecycles
SELECT s.lifecycle, count(*), min(s.lifecycle_at) FROM stream s WHERE s.deleted_at IS NULL GROUP BY s.lifecycle;
