-- name: UserInsert
INSERT INTO user_account (org, username, verifier, role, team_id, disabled, version, created_at)
VALUES (:org, :username, :verifier, :role, :team_id, false, 1, {{now}});

-- fragment: user_columns
org, username, verifier, role, team_id, disabled, version, created_at

-- name: UserGet
SELECT {{use user_columns}} FROM user_account WHERE org = :org AND username = :username;

-- name: UserLock
SELECT {{use user_columns}} FROM user_account WHERE org = :org AND username = :username {{lock user_account}};

-- name: UserList
SELECT {{use user_columns}} FROM user_account WHERE org = :org ORDER BY username;

-- name: UserUpdate
UPDATE user_account SET verifier = :verifier, role = :role, team_id = :team_id, disabled = :disabled, version = version + 1
WHERE org = :org AND username = :username AND version = :version;

-- name: UserDelete
DELETE FROM user_account WHERE org = :org AND username = :username;

-- name: UserDisable
UPDATE user_account SET disabled = true, version = version + 1
WHERE org = :org AND (CAST(:team_id AS bigint) IS NULL OR team_id = :team_id) AND NOT disabled
RETURNING username;

-- name: UserPurge
DELETE FROM user_account WHERE org = :org;
