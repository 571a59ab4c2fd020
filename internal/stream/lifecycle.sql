-- name: NextSeq
UPDATE stream SET next_run_seq = next_run_seq + 1 WHERE stream_id = :id RETURNING next_run_seq - 1;

-- name: FenceSeen
UPDATE stream SET last_fence_seq = :fence_seq
WHERE stream_id = :id AND (last_fence_seq IS NULL OR last_fence_seq < :fence_seq);

-- name: Park
UPDATE stream SET lifecycle = 'needs_resync', lifecycle_reason = :reason, lifecycle_at = {{now}},
    parked_fence_seq = last_fence_seq, version = version + 1
WHERE stream_id = :id AND lifecycle IN ('primed', 'needs_resync');

-- name: Prove
UPDATE stream SET lifecycle = 'primed', lifecycle_reason = NULL, lifecycle_at = {{now}},
    bootstrapped_at = coalesce(bootstrapped_at, {{now}}), plan_id = NULL, version = version + 1
WHERE stream_id = :id AND lifecycle IN ('needs_resync', 'pending_backfill')
  AND (parked_fence_seq IS NULL OR parked_fence_seq < :fence_seq);

-- name: CancelWantedPlan
UPDATE plan SET state = 'cancelled', ended_at = {{now}}, slot_at = NULL
WHERE stream_id = :id AND state IN ('wanted', 'planning', 'running', 'paused', 'halted');

-- name: PlanSuperseded
UPDATE plan SET state = 'superseded', ended_at = {{now}}, slot_at = NULL
WHERE stream_id = :id AND run_id = :run_id AND state IN ('wanted', 'planning', 'running', 'paused', 'halted');

-- name: LifecycleSuperseded
UPDATE stream SET lifecycle = 'needs_resync', lifecycle_reason = :reason, lifecycle_at = {{now}},
    parked_fence_seq = last_fence_seq, plan_id = NULL, version = version + 1
WHERE stream_id = :id AND lifecycle = 'backfilling'
  AND plan_id IN (SELECT p.plan_id FROM plan p WHERE p.stream_id = :id AND p.run_id = :run_id);

-- name: PlanHalted
UPDATE plan SET state = 'halted', failures = failures + 1, first_failed_at = coalesce(first_failed_at, {{now}}),
    last_error = :reason, slot_at = NULL
WHERE stream_id = :id AND run_id = :run_id AND state = 'running';

-- name: PlanResumed
UPDATE plan SET state = 'running', resumed = true, wanted_at = {{now}}, not_before = NULL
WHERE stream_id = :id AND run_id = :run_id AND state = 'halted';

-- name: PlanProgress
UPDATE plan SET chunks_applied = chunks_applied + 1, rows_applied = rows_applied + :rows, bytes_applied = bytes_applied + :bytes,
    last_progress_at = {{now}}, failures = 0, first_failed_at = NULL
WHERE stream_id = :id AND run_id = :run_id AND state = 'running';

-- name: PlanDone
UPDATE plan SET state = 'done', ended_at = {{now}}, slot_at = NULL
WHERE stream_id = :id AND run_id = :run_id AND state IN ('running', 'paused', 'halted')
RETURNING plan_id;

-- name: Prime
UPDATE stream SET lifecycle = 'primed', lifecycle_reason = NULL, lifecycle_at = {{now}}, plan_id = NULL, version = version + 1
WHERE stream_id = :id AND lifecycle = 'backfilling' AND plan_id = :plan_id;

-- name: PlanCancelled
UPDATE plan SET state = 'cancelled', ended_at = {{now}}, slot_at = NULL
WHERE stream_id = :id AND run_id = :run_id AND state IN ('wanted', 'planning', 'running', 'paused', 'halted')
RETURNING plan_id, return_to;

-- name: LifecycleReturn
UPDATE stream SET lifecycle = :return_to, lifecycle_at = {{now}}, plan_id = NULL, version = version + 1
WHERE stream_id = :id AND lifecycle IN ('backfilling', 'pending_backfill') AND plan_id = :plan_id;
