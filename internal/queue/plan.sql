-- What planning must know of a stream's queue (backfill.md §4).

-- A run that replaces the whole table and is under way: planning beside it would lose its tail.
-- name: ReplaceInFlight
SELECT r.run_id FROM run r JOIN batch b ON b.stream_id = r.stream_id AND b.run_id = r.run_id AND b.batch_index = 0
WHERE r.stream_id = :stream_id AND r.replace_head AND r.kind = 'live' AND {{use run_live}} AND r.superseded_by IS NULL
  AND (r.next_index > 0 OR b.load_state IN ('queued', 'executing', 'retry_wait') AND b.upstream_state IN ('none', 'succeeded'))
ORDER BY r.seq DESC LIMIT 1;

-- name: LiveExecuting
SELECT b.batch_id FROM batch b JOIN run r ON r.stream_id = b.stream_id AND r.run_id = b.run_id
WHERE b.stream_id = :stream_id AND b.load_state = 'executing' AND r.kind = 'live' LIMIT 1;

-- name: PlanOpenBatches
SELECT b.run_id, b.batch_index, b.upstream_state FROM batch b JOIN run r ON r.stream_id = b.stream_id AND r.run_id = b.run_id
WHERE b.stream_id = :stream_id AND b.load_state IN ('queued', 'executing', 'retry_wait', 'quarantined') AND r.kind = 'live'
ORDER BY b.run_seq, b.batch_index;

-- Batches that the live table has had since it was last replaced or swapped. Rows of the queue go before those of the mirror;
-- what has no row any more was applied after its report (E9).
-- name: PlanAppliedBatches
SELECT m.run_id, m.batch_index, coalesce(b.upstream_state, 'succeeded') FROM batch_marker m
JOIN run r ON r.stream_id = m.stream_id AND r.run_id = m.run_id
LEFT JOIN batch b ON b.stream_id = m.stream_id AND b.run_id = m.run_id AND b.batch_index = m.batch_index
WHERE m.stream_id = :stream_id AND m.origin IN ('applied', 'recovered') AND r.kind = 'live'
  AND m.created_at > coalesce((SELECT max(h.created_at) FROM stream_target_history h
                               WHERE h.stream_id = :stream_id AND h.reason IN ('swap', 'rewrite')), {{ago :ever}})
  AND r.seq >= coalesce((SELECT max(x.seq) FROM run x WHERE x.stream_id = :stream_id AND x.replace_head AND x.next_index > 0), 0)
  AND (CAST(:all AS boolean) OR coalesce(b.upstream_state, 'succeeded') <> 'succeeded')
ORDER BY r.seq, m.batch_index LIMIT :limit;

-- name: PlanHasBatches
SELECT 1 FROM run r WHERE r.stream_id = :stream_id AND r.kind = 'live' LIMIT 1;

-- Chunk runs that nobody plans any more: their planner died, or gave up.
-- name: PlanLeftRuns
SELECT r.stream_id, r.run_id FROM run r WHERE r.state = 'planning' AND r.kind <> 'live' AND NOT EXISTS (
    SELECT 1 FROM plan p WHERE p.stream_id = r.stream_id AND p.run_id = r.run_id AND p.state = 'planning' AND p.lease_expires_at > {{now}})
ORDER BY r.stream_id LIMIT :limit;

-- How far a chunk run is, from the rows of its batches.
-- name: ChunkProgress
SELECT b.batch_index, b.op, b.load_state, b.attempt, b.byte_size, b.row_count, b.state_changed_at, b.error_code, b.error_text, b.batch_id
FROM batch b WHERE b.stream_id = :stream_id AND b.run_id = :run_id ORDER BY b.batch_index;

-- name: ChunkCounts
SELECT count(DISTINCT b.batch_index), sum(CASE WHEN b.load_state = 'succeeded' THEN 1 ELSE 0 END),
       sum(CASE WHEN b.load_state = 'executing' THEN 1 ELSE 0 END), max(CASE WHEN b.op = 'replace' AND b.load_state = 'executing' THEN 1 ELSE 0 END),
       max(CASE WHEN b.op = 'replace' AND b.load_state = 'succeeded' THEN 1 ELSE 0 END), max(CASE WHEN b.load_state IN ('retry_wait', 'quarantined') THEN b.error_code END),
       max(b.state_changed_at)
FROM batch b WHERE b.stream_id = :stream_id AND b.run_id = :run_id;

-- name: WaitingBatches
SELECT count(*) FROM batch b JOIN run r ON r.stream_id = b.stream_id AND r.run_id = b.run_id
WHERE b.stream_id = :stream_id AND b.load_state IN ('queued', 'executing', 'retry_wait', 'quarantined') AND r.kind = 'live';
