-- name: IdempotencyInsert
INSERT INTO idempotency_key (caller, key, request_hash, created_at) VALUES (:caller, :key, :request_hash, {{now}})
ON CONFLICT (caller, key) DO UPDATE SET request_hash = excluded.request_hash, status = NULL, body = NULL, created_at = excluded.created_at
WHERE idempotency_key.created_at < {{ago :age}} OR idempotency_key.status IS NULL AND idempotency_key.created_at < {{ago :broken}};

-- name: IdempotencyGet
SELECT request_hash, status, body FROM idempotency_key WHERE caller = :caller AND key = :key;

-- name: IdempotencyStore
UPDATE idempotency_key SET status = :status, body = :body WHERE caller = :caller AND key = :key AND status IS NULL;

-- name: IdempotencyForget
DELETE FROM idempotency_key WHERE caller = :caller AND key = :key AND status IS NULL;

-- name: IdempotencyPrune
DELETE FROM idempotency_key WHERE created_at < {{ago :age}};
