-- name: QuarantineOpen
INSERT INTO quarantine (batch_id, stream_id, run_id, batch_index, code, message, hint, path, attempts, opened_at, state)
SELECT b.batch_id, b.stream_id, b.run_id, b.batch_index, :code, :message, :hint, b.path, b.attempt, {{now}}, 'open'
FROM batch b WHERE b.batch_id = :batch_id;

-- name: QuarantineClose
UPDATE quarantine SET state = :state, closed_at = {{now}}, closed_by = :who, note = :note
WHERE state = 'open' AND batch_id {{in_uuid :ids}};

-- name: QuarantineList
SELECT q.id, q.batch_id, q.stream_id, s.org, q.run_id, q.batch_index, q.code, q.message, q.hint, q.path, q.attempts, q.opened_at,
       q.state, q.closed_at, q.closed_by, q.note
FROM quarantine q JOIN stream s ON s.stream_id = q.stream_id
WHERE (CAST(:org AS text) IS NULL OR s.org = :org)
  AND (CAST(:stream_id AS {{type_uuid}}) IS NULL OR q.stream_id = :stream_id)
  AND (CAST(:run_id AS text) IS NULL OR q.run_id = :run_id)
  AND (CAST(:state AS text) IS NULL OR q.state = :state)
ORDER BY q.id DESC LIMIT :limit OFFSET :offset;

-- name: QuarantineRemoveOld
DELETE FROM quarantine WHERE closed_at IS NOT NULL AND closed_at < {{ago :age}};

-- name: GaugeQuarantine
SELECT code, count(*) FROM quarantine WHERE state = 'open' GROUP BY code;
