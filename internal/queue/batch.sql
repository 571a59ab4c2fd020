-- fragment: batch_columns
b.batch_id, b.stream_id, b.run_id, b.run_seq, b.batch_index, b.path, b.etag, b.byte_size, b.row_count, b.is_final,
b.is_resume, b.op, b.upstream_state, b.load_state, b.load_reason, b.attempt, b.deferrals, b.next_attempt_at,
b.state_changed_at, b.created_at, b.error_code, b.error_text

-- The guard of every write under a lease.
-- fragment: held
EXISTS (SELECT 1 FROM stream_lease l WHERE l.stream_id = batch.stream_id AND l.owner = :owner AND l.epoch = :epoch
        AND l.expires_at > {{now}} AND l.purpose = 'load')

-- name: BatchInsert
INSERT INTO batch (batch_id, stream_id, run_id, run_seq, batch_index, path, etag, byte_size, row_count, is_final, is_resume,
                   upstream_state, load_state, load_reason, state_changed_at, created_at)
VALUES (:batch_id, :stream_id, :run_id, :run_seq, :batch_index, :path, :etag, :byte_size, :row_count, :is_final, :is_resume,
        :upstream_state, :load_state, :load_reason, {{now}}, {{now}});

-- name: BatchGet
SELECT {{use batch_columns}} FROM batch b WHERE b.batch_id = :batch_id;

-- name: BatchByIndex
SELECT {{use batch_columns}} FROM batch b
WHERE b.stream_id = :stream_id AND b.run_id = :run_id AND b.batch_index {{in_bigint :indexes}};

-- name: BatchesByID
SELECT {{use batch_columns}} FROM batch b WHERE b.batch_id {{in_uuid :ids}};

-- name: BatchCovered
SELECT c.batch_index FROM covered_batch c JOIN plan p ON p.plan_id = c.plan_id AND p.state = 'done'
WHERE c.stream_id = :stream_id AND c.run_id = :run_id AND c.batch_index {{in_bigint :indexes}};

-- name: BatchAppliedAt
SELECT 1 FROM batch b WHERE b.stream_id = :stream_id AND b.run_id = :run_id AND b.batch_index = :index
  AND (b.load_state = 'succeeded' OR b.load_state = 'failed' AND b.load_reason = 'discarded');

-- name: BatchUpstream
UPDATE batch SET upstream_state = :upstream_state WHERE batch_id = :batch_id AND upstream_state = 'waiting';

-- name: BatchFailUpstream
UPDATE batch SET load_state = 'failed', load_reason = 'upstream_failed', state_changed_at = {{now}}
WHERE stream_id = :stream_id AND run_id = :run_id AND batch_index >= :index AND load_state = 'queued'
RETURNING batch_id;

-- name: BatchStart
UPDATE batch SET load_state = 'executing', attempt = attempt + 1, next_attempt_at = NULL, state_changed_at = {{now}}
WHERE batch_id = :batch_id AND load_state IN ('queued', 'retry_wait')
  AND EXISTS (SELECT 1 FROM stream_lease l WHERE l.stream_id = batch.stream_id AND l.owner = :owner AND l.epoch = :epoch
              AND l.expires_at > {{now}} AND l.purpose = 'load' AND l.head_batch_id = batch.batch_id AND l.ready_at <= {{now}})
RETURNING attempt;

-- The head that was computed in this transaction, under the stream's lock.
-- name: BatchStartHead
UPDATE batch SET load_state = 'executing', attempt = attempt + 1, next_attempt_at = NULL, state_changed_at = {{now}}
WHERE batch_id = :batch_id AND (load_state = 'queued' OR load_state = 'retry_wait' AND next_attempt_at <= {{now}}) AND {{use held}}
  AND EXISTS (SELECT 1 FROM stream s JOIN org o ON o.org = s.org WHERE s.stream_id = batch.stream_id AND s.enabled AND NOT s.paused
              AND s.deleted_at IS NULL AND s.bootstrapped_at IS NOT NULL AND {{use not_held}} AND o.state = 'ready' AND o.deleted_at IS NULL)
RETURNING state_changed_at;

-- name: BatchUpcoming
SELECT b.path FROM batch b
WHERE b.stream_id = :stream_id AND b.load_state IN ('queued', 'executing', 'retry_wait', 'quarantined') AND b.load_state = 'queued' AND b.path IS NOT NULL
ORDER BY b.run_seq, b.batch_index LIMIT :limit;

-- name: BatchSucceed
UPDATE batch SET load_state = 'succeeded', load_reason = :reason, op = coalesce(CAST(:op AS text), op), state_changed_at = {{now}},
    error_code = NULL, error_text = NULL
WHERE batch_id = :batch_id AND load_state = 'executing' AND {{use held}}
RETURNING stream_id, run_id, run_seq, batch_index, byte_size;

-- name: BatchRetryWait
UPDATE batch SET load_state = 'retry_wait', next_attempt_at = {{after :wait}}, state_changed_at = {{now}},
    attempt = attempt - :uncount, deferrals = deferrals + :uncount, error_code = :code, error_text = :text,
    etag = coalesce(etag, CAST(:etag AS text)), byte_size = coalesce(byte_size, CAST(:byte_size AS bigint)) -- pinned at the first read
WHERE batch_id = :batch_id AND load_state = 'executing' AND {{use held}}
RETURNING stream_id, run_id, run_seq, batch_index, byte_size;

-- A batch that was not begun rests, because the warehouse does not answer: no attempt was used.
-- name: BatchDefer
UPDATE batch SET load_state = 'retry_wait', next_attempt_at = {{after :wait}}, state_changed_at = {{now}},
    deferrals = deferrals + 1, error_code = :code, error_text = :text
WHERE batch_id = :batch_id AND load_state IN ('queued', 'retry_wait') AND {{use held}}
RETURNING stream_id, run_id, run_seq, batch_index, byte_size;

-- name: BatchQuarantine
UPDATE batch SET load_state = 'quarantined', state_changed_at = {{now}}, error_code = :code, error_text = :text
WHERE batch_id = :batch_id AND load_state = 'executing' AND {{use held}}
RETURNING stream_id, run_id, run_seq, batch_index, byte_size;

-- A gap in a run that its producer has given up; no loader has begun the batch.
-- name: BatchGap
UPDATE batch SET load_state = 'quarantined', state_changed_at = {{now}}, next_attempt_at = NULL, error_code = :code, error_text = :text
WHERE batch_id = :batch_id AND load_state IN ('queued', 'retry_wait');

-- name: BatchSupersede
UPDATE batch SET load_state = 'superseded', load_reason = 'superseded_by_replace', next_attempt_at = NULL, state_changed_at = {{now}}
WHERE stream_id = :stream_id AND run_seq < :seq AND load_state IN ('queued', 'executing', 'retry_wait', 'quarantined')
  AND load_state <> 'executing'
RETURNING batch_id;

-- name: BatchCancel
UPDATE batch SET load_state = 'failed', load_reason = :reason, next_attempt_at = NULL, state_changed_at = {{now}}
WHERE stream_id = :stream_id AND run_seq = :seq AND load_state IN ('queued', 'executing', 'retry_wait', 'quarantined')
  AND load_state <> 'executing'
RETURNING batch_id;

-- name: BatchCancelStream
UPDATE batch SET load_state = 'failed', load_reason = 'cancelled', next_attempt_at = NULL, state_changed_at = {{now}}
WHERE stream_id = :stream_id AND load_state IN ('queued', 'executing', 'retry_wait', 'quarantined')
RETURNING batch_id;

-- name: BatchRequeue
UPDATE batch SET load_state = 'queued', attempt = 0, deferrals = 0, state_changed_at = {{now}}, error_code = NULL, error_text = NULL
WHERE batch_id = :batch_id AND load_state = 'quarantined';

-- name: BatchRetryNow
UPDATE batch SET next_attempt_at = {{now}}, attempt = 0, deferrals = 0 WHERE batch_id = :batch_id AND load_state = 'retry_wait';

-- name: BatchDiscard
UPDATE batch SET load_state = 'failed', load_reason = 'discarded', state_changed_at = {{now}}
WHERE batch_id = :batch_id AND load_state = 'quarantined';

-- name: BatchCover
UPDATE batch SET load_state = 'succeeded', load_reason = 'covered_by_snapshot', next_attempt_at = NULL, state_changed_at = {{now}}
WHERE stream_id = :stream_id AND load_state IN ('queued', 'executing', 'retry_wait', 'quarantined')
  AND load_state IN ('queued', 'retry_wait')
  AND EXISTS (SELECT 1 FROM covered_batch c WHERE c.stream_id = batch.stream_id AND c.run_id = batch.run_id
              AND c.batch_index = batch.batch_index AND c.plan_id = :plan_id)
RETURNING batch_id, run_id;

-- name: BatchList
SELECT {{use batch_columns}} FROM batch b JOIN stream s ON s.stream_id = b.stream_id
WHERE (CAST(:org AS text) IS NULL OR s.org = :org)
  AND (CAST(:stream_id AS {{type_uuid}}) IS NULL OR b.stream_id = :stream_id)
  AND (CAST(:run_id AS text) IS NULL OR b.run_id = :run_id)
  AND (CAST(:state AS text) IS NULL OR b.load_state = :state)
ORDER BY b.stream_id, b.run_seq, b.batch_index LIMIT :limit OFFSET :offset;

-- name: BatchRemove
DELETE FROM batch WHERE batch_id IN (
    SELECT b.batch_id FROM batch b WHERE b.stream_id = :stream_id AND b.run_id = :run_id LIMIT :limit);

-- name: BatchInsertChunk
INSERT INTO batch (batch_id, stream_id, run_id, run_seq, batch_index, path, byte_size, row_count, is_final, is_resume, op,
                   upstream_state, load_state, state_changed_at, created_at)
VALUES (:batch_id, :stream_id, :run_id, :run_seq, :batch_index, :path, :byte_size, :row_count, :is_final, true, :op,
        'none', 'queued', {{now}}, {{now}})
ON CONFLICT DO NOTHING;

-- name: SpecInsert
INSERT INTO batch_spec (batch_id, spec) VALUES (:batch_id, {{json :spec}});

-- name: SpecGet
SELECT spec FROM batch_spec WHERE batch_id = :batch_id;

-- name: HistoryInsert
INSERT INTO batch_status (batch_id, load_state, attempt, reason, error, owner, epoch, fence_seq, lake_snapshot, rows_read,
                          rows_written, phases, created_at)
SELECT b.batch_id, b.load_state, b.attempt, b.load_reason, {{json :error}}, :owner, :epoch, :fence_seq, :lake_snapshot, :rows_read,
       :rows_written, {{json :phases}}, {{now}}
FROM batch b WHERE b.batch_id = :batch_id;

-- name: HistoryMany
INSERT INTO batch_status (batch_id, load_state, attempt, reason, created_at)
SELECT b.batch_id, b.load_state, b.attempt, b.load_reason, {{now}} FROM batch b WHERE b.batch_id {{in_uuid :ids}};

-- name: HistoryList
SELECT load_state, attempt, reason, error, owner, epoch, fence_seq, lake_snapshot, rows_read, rows_written, phases, created_at
FROM batch_status WHERE batch_id = :batch_id ORDER BY id;

-- name: MarkerInsert
INSERT INTO batch_marker (stream_id, run_id, batch_index, batch_id, op, rows, fence_seq, lake_snapshot, origin, created_at)
SELECT b.stream_id, b.run_id, b.batch_index, b.batch_id, b.op, :rows, :fence_seq, :lake_snapshot, :origin, {{now}}
FROM batch b WHERE b.batch_id = :batch_id
ON CONFLICT DO NOTHING;

-- name: MarkerFence
SELECT fence_seq FROM batch_marker WHERE stream_id = :stream_id AND run_id = :run_id AND batch_index = :index;

-- The markers of a run that goes on stay: the first one may become a proof.
-- name: MarkerRemoveOld
DELETE FROM batch_marker WHERE (stream_id, run_id, batch_index) IN (
    SELECT m.stream_id, m.run_id, m.batch_index FROM batch_marker m
    WHERE m.created_at < {{ago :age}} AND NOT EXISTS (
        SELECT 1 FROM run r WHERE r.stream_id = m.stream_id AND r.run_id = m.run_id AND r.ended_at IS NULL)
    LIMIT :limit);

-- Steps of a chunk run whose swap the lake has: the markers of the lake are the proof, not these rows.
-- name: BatchRecoverRun
UPDATE batch SET load_state = 'succeeded', load_reason = 'already_applied', next_attempt_at = NULL, state_changed_at = {{now}},
    error_code = NULL, error_text = NULL
WHERE stream_id = :stream_id AND run_id = :run_id AND load_state IN ('queued', 'executing', 'retry_wait', 'quarantined')
RETURNING batch_id;
