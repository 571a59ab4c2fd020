-- name: TokenInsert
INSERT INTO api_token (token_id, hash, role, expires_at, name, created_by, created_at)
VALUES (:token_id, :hash, :role, CASE WHEN CAST(:ttl AS bigint) IS NULL THEN NULL ELSE {{after :ttl}} END, :name, :created_by, {{now}});

-- fragment: token_columns
token_id, hash, role, name, created_by, expires_at, revoked_at, created_at

-- name: TokenGet
SELECT {{use token_columns}} FROM api_token WHERE token_id = :token_id;

-- name: TokenLive
SELECT {{use token_columns}} FROM api_token
WHERE token_id = :token_id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > {{now}});

-- name: TokenList
SELECT {{use token_columns}} FROM api_token WHERE token_id > :after ORDER BY token_id LIMIT :limit;

-- name: TokenRevoke
UPDATE api_token SET revoked_at = {{now}} WHERE token_id = :token_id AND revoked_at IS NULL;

-- name: TokenHash
SELECT role FROM api_token WHERE hash = :hash;
