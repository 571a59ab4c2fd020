-- fragment: run_columns
r.stream_id, r.run_id, r.seq, r.kind, r.sync_type, r.is_first_ever, r.state, r.final_index, r.total_batches, r.total_rows,
r.next_index, r.options, r.reason, r.first_batch_at, r.sealed_at, r.ended_at,
r.marker_index, r.replace_head, r.fail_index, r.discarded, r.superseded_by, r.sealed_by, r.slot_at

-- fragment: run_live
r.state IN ('open', 'sealed', 'halted', 'planning')

-- name: RunInsert
INSERT INTO run (stream_id, run_id, seq, kind, sync_type, is_first_ever, state, options, replace_head, first_batch_at)
VALUES (:stream_id, :run_id, :seq, 'live', :sync_type, :is_first_ever, 'open', {{json :options}}, false, {{now}});

-- name: RunGet
SELECT {{use run_columns}} FROM run r WHERE r.stream_id = :stream_id AND r.run_id = :run_id;

-- name: RunNewer
SELECT 1 FROM run r WHERE r.stream_id = :stream_id AND r.seq > :seq AND r.kind = 'live' LIMIT 1;

-- What an enqueue call has learned about its run.
-- name: RunStore
UPDATE run SET state = :state, final_index = :final_index, marker_index = :marker_index, total_batches = :total_batches,
    total_rows = :total_rows, replace_head = :replace_head, fail_index = :fail_index, sealed_by = :sealed_by,
    sealed_at = CASE WHEN CAST(:sealed_by AS text) IS NULL THEN NULL ELSE coalesce(sealed_at, {{now}}) END,
    ended_at = CASE WHEN CAST(:ended AS boolean) THEN ended_at END
WHERE stream_id = :stream_id AND run_id = :run_id AND state = :old_state;

-- name: RunSealOlder
UPDATE run SET state = CASE WHEN state = 'open' THEN 'sealed' ELSE state END, sealed_by = 'newer', sealed_at = {{now}}
WHERE stream_id = :stream_id AND seq < :seq AND sealed_at IS NULL AND kind = 'live' AND state IN ('open', 'halted')
RETURNING run_id;

-- name: RunFailFrom
UPDATE run SET fail_index = :index WHERE stream_id = :stream_id AND run_id = :run_id AND (fail_index IS NULL OR fail_index > :index);

-- name: RunAdvance
UPDATE run SET next_index = :next_index WHERE stream_id = :stream_id AND run_id = :run_id AND next_index < :next_index;

-- name: RunHalt
UPDATE run SET state = 'halted', reason = :reason, slot_at = NULL
WHERE stream_id = :stream_id AND run_id = :run_id AND state IN ('open', 'sealed');

-- name: RunUnhalt
UPDATE run SET state = CASE WHEN sealed_at IS NULL THEN 'open' ELSE 'sealed' END, reason = NULL
WHERE stream_id = :stream_id AND run_id = :run_id AND state = 'halted';

-- name: RunDiscarded
UPDATE run SET discarded = true WHERE stream_id = :stream_id AND run_id = :run_id;

-- name: RunEnd
UPDATE run SET state = :state, ended_at = {{now}}, reason = coalesce(CAST(:reason AS text), reason)
WHERE stream_id = :stream_id AND run_id = :run_id AND state = :old_state;

-- name: RunHasOpen
SELECT 1 FROM batch WHERE stream_id = :stream_id AND run_seq = :seq
  AND load_state IN ('queued', 'executing', 'retry_wait', 'quarantined') LIMIT 1;

-- name: RunMaxIndex
SELECT max(batch_index) FROM batch WHERE stream_id = :stream_id AND run_id = :run_id;

-- Runs below a replace head: those that are not being worked on end now …
-- name: RunSupersede
UPDATE run SET state = 'superseded', ended_at = {{now}}, superseded_by = :seq, reason = 'superseded_by_replace'
WHERE stream_id = :stream_id AND seq < :seq AND state IN ('open', 'sealed', 'halted', 'planning')
  AND NOT EXISTS (SELECT 1 FROM batch b WHERE b.stream_id = run.stream_id AND b.run_seq = run.seq
                  AND b.load_state IN ('queued', 'executing', 'retry_wait', 'quarantined'))
RETURNING run_id, kind;

-- … and one whose batch is being applied ends after it.
-- name: RunSupersedeLater
UPDATE run SET superseded_by = :seq
WHERE stream_id = :stream_id AND seq < :seq AND state IN ('open', 'sealed', 'halted', 'planning')
  AND (superseded_by IS NULL OR superseded_by < :seq)
RETURNING run_id, kind;

-- Newest run below a seq whose batch 0 replaces the table and waits for nothing but older runs.
-- name: RunReplaceDue
SELECT r.seq FROM run r
JOIN batch b ON b.stream_id = r.stream_id AND b.run_id = r.run_id AND b.batch_index = 0
WHERE r.stream_id = :stream_id AND r.replace_head AND {{use run_live}} AND r.state IN ('open', 'sealed')
  AND r.next_index = 0 AND b.load_state IN ('queued', 'retry_wait') AND b.upstream_state IN ('none', 'succeeded')
  AND EXISTS (SELECT 1 FROM run o WHERE o.stream_id = r.stream_id AND o.seq < r.seq AND o.superseded_by IS NULL
              AND o.state IN ('open', 'sealed', 'halted', 'planning'))
ORDER BY r.seq DESC LIMIT 1;

-- name: RunReplaceStreams
SELECT DISTINCT r.stream_id FROM run r WHERE r.replace_head AND {{use run_live}};

-- name: RunList
SELECT {{use run_columns}} FROM run r JOIN stream s ON s.stream_id = r.stream_id
WHERE (CAST(:org AS text) IS NULL OR s.org = :org)
  AND (CAST(:stream_id AS {{type_uuid}}) IS NULL OR r.stream_id = :stream_id)
  AND (CAST(:run_id AS text) IS NULL OR r.run_id = :run_id)
  AND (CAST(:state AS text) IS NULL OR r.state = :state)
ORDER BY r.first_batch_at DESC, r.stream_id, r.seq DESC LIMIT :limit OFFSET :offset;

-- name: RunPurgeable
SELECT stream_id, run_id FROM run WHERE ended_at < {{ago :age}} AND ended_at IS NOT NULL AND purged_at IS NULL
ORDER BY ended_at LIMIT :limit;

-- name: RunPurged
UPDATE run SET purged_at = {{now}} WHERE stream_id = :stream_id AND run_id = :run_id AND purged_at IS NULL;

-- name: RunRemoveOld
DELETE FROM run WHERE ended_at < {{ago :age}} AND purged_at IS NOT NULL;

-- name: RunCancelAll
UPDATE run SET state = 'cancelled', ended_at = {{now}}, reason = :reason
WHERE stream_id = :stream_id AND state IN ('open', 'sealed', 'halted', 'planning');

-- name: StreamOrg
SELECT s.org FROM stream s WHERE s.stream_id = :stream_id AND s.deleted_at IS NULL;

-- name: RunInsertChunks
INSERT INTO run (stream_id, run_id, seq, kind, sync_type, is_first_ever, state, options, replace_head, first_batch_at)
VALUES (:stream_id, :run_id, :seq, :kind, 'full_refresh', false, 'planning', {{json :options}}, false, {{now}});

-- name: RunCountBatches
SELECT count(*) FROM batch WHERE stream_id = :stream_id AND run_id = :run_id;

-- name: RunSealChunks
UPDATE run SET state = 'sealed', final_index = :final_index, sealed_by = 'plan', sealed_at = {{now}}
WHERE stream_id = :stream_id AND run_id = :run_id AND state = 'planning';

-- name: RunSlot
UPDATE run SET slot_at = CASE WHEN CAST(:granted AS boolean) THEN coalesce(slot_at, {{now}}) END
WHERE stream_id = :stream_id AND run_id = :run_id AND kind <> 'live';

-- name: RunOpenChunks
SELECT r.run_id FROM run r WHERE r.stream_id = :stream_id AND {{use run_live}} AND r.kind <> 'live' ORDER BY r.seq;

-- A refresh whose beginning lies in another lake refreshes nothing.
-- name: RunNoRefresh
UPDATE run SET replace_head = false
WHERE stream_id = :stream_id AND replace_head AND next_index > 0 AND state IN ('open', 'sealed', 'halted', 'planning');
