-- One drainer at a time, so that order numbers follow the order of the inbox.
-- name: InboxLock
SELECT 1 FROM sweep_lease WHERE name = 'inbox' {{lock sweep_lease}};

-- name: InboxWaiting
SELECT id, kind, stream_id, run_id, batch_id, batch_index, sync_type, is_first_ever, options, path, etag, byte_size, row_count,
       is_final, is_resume, upstream_state, total_batches, total_rows
FROM batch_inbox WHERE result IS NULL ORDER BY id LIMIT :limit;

-- name: InboxResult
UPDATE batch_inbox SET result = :result, error = :error, batch_id = coalesce(batch_id, CAST(:batch_id AS {{type_uuid}}))
WHERE id = :id AND result IS NULL;

-- name: InboxRemoveOld
DELETE FROM batch_inbox WHERE result IS NOT NULL AND created_at < {{ago :age}};
