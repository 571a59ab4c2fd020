-- Orgs, teams, logins, the audit log and the configuration's generation (package control).
CREATE TABLE org (
    org              text PRIMARY KEY CHECK (length(org) BETWEEN 1 AND 63),
    display_name     text NOT NULL CHECK (length(display_name) <= 200),
    database_name    text NOT NULL UNIQUE CHECK (length(database_name) BETWEEN 1 AND 63),
    hostname_alias   text UNIQUE CHECK (length(hostname_alias) BETWEEN 1 AND 63),
    naming_policy    text NOT NULL CHECK (naming_policy IN ('legacy_batch_v1', 'copy_v1')),
    state            text NOT NULL CHECK (state IN ('pending', 'provisioning', 'ready', 'paused', 'draining', 'failed', 'deleting')),
    max_sessions     bigint CHECK (max_sessions >= 0),
    max_streams      bigint CHECK (max_streams >= 0),
    backfill_per_org bigint CHECK (backfill_per_org >= 0),
    memory_bytes     bigint CHECK (memory_bytes > 0),
    threads          bigint CHECK (threads > 0),
    lake             {{type_json}} NOT NULL,
    version          bigint NOT NULL,
    created_at       {{type_time}} NOT NULL,
    deleted_at       {{type_time}}
);

-- A team is in one org at a time, hence the second key.
CREATE TABLE team (
    org                 text NOT NULL REFERENCES org (org),
    team_id             bigint NOT NULL UNIQUE,
    schema_name         text NOT NULL CHECK (length(schema_name) BETWEEN 1 AND 63),
    enabled             boolean NOT NULL,
    backfill_enabled    boolean NOT NULL,
    events_table        text CHECK (length(events_table) BETWEEN 1 AND 63),
    persons_table       text CHECK (length(persons_table) BETWEEN 1 AND 63),
    imports_schema      text CHECK (length(imports_schema) BETWEEN 1 AND 63),
    earliest_event_date text CHECK (length(earliest_event_date) = 10),
    version             bigint NOT NULL,
    created_at          {{type_time}} NOT NULL,
    PRIMARY KEY (org, team_id),
    UNIQUE (org, schema_name)
);

CREATE TABLE user_account (
    org      text NOT NULL REFERENCES org (org),
    username text NOT NULL CHECK (length(username) BETWEEN 1 AND 63),
    verifier text NOT NULL CHECK (length(verifier) <= 500),
    role     text NOT NULL CHECK (role IN ('reader', 'writer', 'owner')),
    team_id  bigint,
    disabled boolean NOT NULL,
    version  bigint NOT NULL,
    created_at {{type_time}} NOT NULL,
    PRIMARY KEY (org, username)
);

CREATE TABLE service_credential (
    credential_id text PRIMARY KEY CHECK (length(credential_id) = 28),
    org           text NOT NULL REFERENCES org (org),
    principal     text NOT NULL CHECK (length(principal) BETWEEN 1 AND 63),
    verifier      text NOT NULL CHECK (length(verifier) <= 500),
    expires_at    {{type_time}} NOT NULL,
    revoked_at    {{type_time}},
    created_by    text NOT NULL CHECK (length(created_by) <= 200),
    created_at    {{type_time}} NOT NULL
);
CREATE INDEX service_credential_end ON service_credential (expires_at);

CREATE TABLE api_token (
    token_id   text PRIMARY KEY CHECK (length(token_id) BETWEEN 1 AND 63),
    hash       text NOT NULL UNIQUE,
    role       text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin', 'discovery')),
    expires_at {{type_time}},
    revoked_at {{type_time}},
    created_at {{type_time}} NOT NULL
);

CREATE TABLE audit (
    id         {{identity}},
    at         {{type_time}} NOT NULL,
    who        text NOT NULL CHECK (length(who) <= 200),
    action     text NOT NULL CHECK (length(action) <= 100),
    org        text,
    object     text NOT NULL CHECK (length(object) <= 500),
    before     {{type_json}},
    after      {{type_json}},
    request_id text CHECK (length(request_id) <= 200)
);
CREATE INDEX audit_org ON audit (org, id);

CREATE TABLE change_counter (
    one        integer PRIMARY KEY CHECK (one = 1),
    generation bigint NOT NULL
);
INSERT INTO change_counter (one, generation) VALUES (1, 1);

-- +down
DROP TABLE change_counter;
DROP TABLE audit;
DROP TABLE api_token;
DROP TABLE service_credential;
DROP TABLE user_account;
DROP TABLE team;
DROP TABLE org;
