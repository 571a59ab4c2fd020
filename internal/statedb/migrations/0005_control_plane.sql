-- The control plane in full: tombstones of teams, tokens of the API, answers of repeated requests (package control); streams
-- that rest while their team moves (package stream); sessions that are asked for (package queue).
ALTER TABLE team ADD COLUMN persons_prepared boolean NOT NULL DEFAULT false;
ALTER TABLE team ADD COLUMN persons_kind text NOT NULL DEFAULT 'table' CHECK (persons_kind IN ('table', 'view'));
ALTER TABLE team ADD COLUMN deleted_at {{type_time}};

ALTER TABLE org ADD COLUMN purged_at {{type_time}};

ALTER TABLE api_token ADD COLUMN name text NOT NULL DEFAULT '' CHECK (length(name) <= 200);
ALTER TABLE api_token ADD COLUMN created_by text NOT NULL DEFAULT '' CHECK (length(created_by) <= 200);

CREATE INDEX service_credential_org ON service_credential (org, credential_id);

-- What a request with an Idempotency-Key was answered, without secrets. status is NULL while it is under way.
CREATE TABLE idempotency_key (
    caller       text NOT NULL CHECK (length(caller) <= 100),
    key          text NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    request_hash text NOT NULL,
    status       bigint,
    body         text,
    created_at   {{type_time}} NOT NULL,
    PRIMARY KEY (caller, key)
);
CREATE INDEX idempotency_key_age ON idempotency_key (created_at);

-- The stream is not worked on until then: its team is about to move. It ends by itself, should nobody end it.
ALTER TABLE stream ADD COLUMN held_until {{type_time}};

-- The stream was bound to a table that existed.
ALTER TABLE stream ADD COLUMN target_adopted boolean NOT NULL DEFAULT false;

-- Since when the owner of a lingering lease is asked to close its session for a stream that waits.
ALTER TABLE stream_lease ADD COLUMN asked_at {{type_time}};

-- +down
ALTER TABLE stream_lease DROP COLUMN asked_at;
ALTER TABLE stream DROP COLUMN target_adopted;
ALTER TABLE stream DROP COLUMN held_until;
DROP TABLE idempotency_key;
DROP INDEX service_credential_org;
ALTER TABLE api_token DROP COLUMN created_by;
ALTER TABLE api_token DROP COLUMN name;
ALTER TABLE org DROP COLUMN purged_at;
ALTER TABLE team DROP COLUMN deleted_at;
ALTER TABLE team DROP COLUMN persons_kind;
ALTER TABLE team DROP COLUMN persons_prepared;
