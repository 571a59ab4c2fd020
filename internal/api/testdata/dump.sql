-- name: Answers
SELECT caller || ' ' || key || ' ' || coalesce(body, '') FROM idempotency_key;
