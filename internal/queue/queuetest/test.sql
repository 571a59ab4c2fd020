-- name: InboxInsert
INSERT INTO batch_inbox (kind, stream_id, run_id, batch_index, path, upstream_state)
VALUES (:kind, :stream_id, :run_id, :index, :path, :upstream);

-- name: InboxResults
SELECT result FROM batch_inbox ORDER BY id;

-- name: LeasesHeld
SELECT count(*) FROM stream_lease l JOIN stream s ON s.stream_id = l.stream_id
WHERE s.org = :org AND l.owner IS NOT NULL AND l.expires_at > {{now}};

-- name: CoverBatch
INSERT INTO covered_batch (stream_id, run_id, batch_index, plan_id, proof, created_at)
VALUES (:stream_id, :run_id, :index, :plan_id, 'commit', {{now}});

-- name: PlanInsert
INSERT INTO plan (plan_id, stream_id, org, kind, generation, state, return_to, run_id, created_at)
SELECT :plan_id, s.stream_id, s.org, 'backfill', 1, 'running', 'pending_backfill', :run_id, {{now}}
FROM stream s WHERE s.stream_id = :stream_id;

-- name: StreamBackfilling
UPDATE stream SET lifecycle = 'backfilling', bootstrapped_at = {{now}}, plan_id = :plan_id WHERE stream_id = :stream_id;

-- name: ChunkRun
INSERT INTO run (stream_id, run_id, seq, kind, sync_type, is_first_ever, state, final_index, options, replace_head, sealed_by,
                 sealed_at, first_batch_at, slot_at)
SELECT s.stream_id, :run_id, s.next_run_seq, 'backfill', 'full_refresh', false, 'sealed', :final_index, '{}', false, 'plan',
       {{now}}, {{now}}, {{now}}
FROM stream s WHERE s.stream_id = :stream_id;

-- name: ChunkSeq
UPDATE stream SET next_run_seq = next_run_seq + 1 WHERE stream_id = :stream_id;

-- name: ChunkBatch
INSERT INTO batch (batch_id, stream_id, run_id, run_seq, batch_index, path, is_final, is_resume, op, upstream_state, load_state,
                   state_changed_at, created_at)
SELECT :batch_id, r.stream_id, r.run_id, r.seq, :index, 's3://x/chunk', false, true, 'insert', 'none', 'queued', {{now}}, {{now}}
FROM run r WHERE r.stream_id = :stream_id AND r.run_id = :run_id;

-- name: SlotTake
UPDATE run SET slot_at = NULL WHERE stream_id = :stream_id AND run_id = :run_id;

-- name: SlotGive
UPDATE run SET slot_at = {{now}} WHERE stream_id = :stream_id AND run_id = :run_id;

-- name: AuditCount
SELECT count(*) FROM audit WHERE action = :action;

-- name: OrphanHistory
SELECT count(*) FROM batch b WHERE b.load_state <> (
    SELECT s.load_state FROM batch_status s WHERE s.batch_id = b.batch_id ORDER BY s.id DESC LIMIT 1);

-- name: SpoilHead
UPDATE stream_lease SET ready_at = NULL, blocked_by = 'spoilt' WHERE stream_id = :stream_id;
