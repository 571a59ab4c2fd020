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

-- name: AuditCount
SELECT count(*) FROM audit WHERE action = :action;

-- name: OrphanHistory
SELECT count(*) FROM batch b WHERE b.load_state <> (
    SELECT s.load_state FROM batch_status s WHERE s.batch_id = b.batch_id ORDER BY s.id DESC LIMIT 1);

-- name: SpoilHead
UPDATE stream_lease SET ready_at = NULL, blocked_by = 'spoilt' WHERE stream_id = :stream_id;

-- Ended runs with open batches; runs that should have ended; halted runs with nothing in quarantine; and batches that
-- were applied although a lower one of their run was neither applied, nor covered, nor given up.
-- name: RunsAmiss
SELECT count(*) FROM run r WHERE
  (r.ended_at IS NOT NULL AND EXISTS (SELECT 1 FROM batch b WHERE b.stream_id = r.stream_id AND b.run_id = r.run_id
      AND b.load_state IN ('queued', 'executing', 'retry_wait', 'quarantined')))
  OR (r.state = 'sealed' AND (r.sealed_by = 'newer' OR r.next_index > r.final_index) AND NOT EXISTS (
      SELECT 1 FROM batch b WHERE b.stream_id = r.stream_id AND b.run_id = r.run_id
      AND b.load_state IN ('queued', 'executing', 'retry_wait', 'quarantined')))
  OR (r.state = 'halted' AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.stream_id = r.stream_id AND q.run_id = r.run_id AND q.state = 'open'))
  OR (SELECT count(*) FROM batch b WHERE b.stream_id = r.stream_id AND b.run_id = r.run_id AND b.batch_index < r.next_index
      AND (b.load_state = 'succeeded' OR b.load_reason = 'discarded')) <> r.next_index AND NOT r.discarded;
