-- name: CredentialInsert
INSERT INTO service_credential (credential_id, org, principal, verifier, expires_at, created_by, created_at)
VALUES (:id, :org, :principal, :verifier, {{after :ttl}}, :by, {{now}});

-- fragment: credential_columns
credential_id, org, principal, verifier, expires_at, revoked_at

-- name: CredentialGet
SELECT {{use credential_columns}} FROM service_credential WHERE credential_id = :id;

-- name: CredentialLive
SELECT {{use credential_columns}} FROM service_credential
WHERE credential_id = :id AND revoked_at IS NULL AND expires_at > {{now}};

-- name: CredentialRefresh
UPDATE service_credential SET verifier = :verifier, expires_at = {{after :ttl}}
WHERE credential_id = :id AND revoked_at IS NULL;

-- name: CredentialRevoke
UPDATE service_credential SET revoked_at = {{now}} WHERE credential_id = :id AND revoked_at IS NULL;

-- name: CredentialPrune
DELETE FROM service_credential WHERE expires_at < {{ago :age}};

-- name: CredentialList
SELECT {{use credential_columns}} FROM service_credential WHERE org = :org AND credential_id > :after ORDER BY credential_id LIMIT :limit;

-- name: CredentialStates
SELECT credential_id, CASE WHEN revoked_at IS NULL THEN 0 ELSE 1 END, CASE WHEN expires_at > {{now}} THEN 0 ELSE 1 END
FROM service_credential WHERE credential_id {{in_text :ids}};

-- name: CredentialRevokeOrg
UPDATE service_credential SET revoked_at = {{now}} WHERE org = :org AND revoked_at IS NULL;

-- name: CredentialPurge
DELETE FROM service_credential WHERE org = :org;
