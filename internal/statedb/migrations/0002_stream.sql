-- Streams with their lifecycle, plans and what a loaded snapshot covers (packages stream and backfill).
CREATE TABLE stream (
    stream_id        {{type_uuid}} PRIMARY KEY,
    org              text NOT NULL,
    team_id          bigint NOT NULL,
    source_type      text NOT NULL CHECK (length(source_type) <= 200),
    prefix           text NOT NULL CHECK (length(prefix) <= 500),
    name             text NOT NULL CHECK (length(name) <= 500),
    sync_type        text NOT NULL CHECK (sync_type IN ('full_refresh', 'incremental', 'append', 'cdc')),
    delta_uri        text CHECK (length(delta_uri) <= 2000),
    options          {{type_json}} NOT NULL,
    target_schema    text CHECK (length(target_schema) BETWEEN 1 AND 63),
    target_table     text CHECK (length(target_table) BETWEEN 1 AND 63),
    enabled          boolean NOT NULL,
    paused           boolean NOT NULL,
    deleted_at       {{type_time}},
    lifecycle        text NOT NULL DEFAULT 'pending_backfill' CHECK (lifecycle IN ('pending_backfill', 'backfilling', 'primed', 'needs_resync')),
    lifecycle_reason text CHECK (length(lifecycle_reason) <= 2000),
    lifecycle_at     {{type_time}} NOT NULL,
    bootstrapped_at  {{type_time}},
    last_fence_seq   bigint,
    parked_fence_seq bigint,
    plan_id          {{type_uuid}},
    plan_generation  bigint NOT NULL DEFAULT 0,
    folder_token     text CHECK (length(folder_token) <= 200),
    resync           text NOT NULL DEFAULT 'manual' CHECK (resync IN ('manual', 'auto')),
    swap_mode        text NOT NULL DEFAULT 'auto' CHECK (swap_mode IN ('auto', 'rename', 'rewrite')),
    next_run_seq     bigint NOT NULL DEFAULT 1 CHECK (next_run_seq >= 1),
    version          bigint NOT NULL,
    created_at       {{type_time}} NOT NULL,
    FOREIGN KEY (org, team_id) REFERENCES team (org, team_id) ON UPDATE CASCADE,
    CHECK ((target_schema IS NULL) = (target_table IS NULL)),
    CHECK (lifecycle <> 'backfilling' OR plan_id IS NOT NULL)
);
CREATE UNIQUE INDEX stream_target ON stream (org, lower(target_schema), lower(target_table));
CREATE INDEX stream_team ON stream (org, team_id);
CREATE INDEX stream_unexamined ON stream (stream_id) WHERE bootstrapped_at IS NULL AND deleted_at IS NULL;

-- Names that no stream may take: tables of other writers.
CREATE TABLE reserved_name (
    org          text NOT NULL REFERENCES org (org),
    schema_lower text NOT NULL,
    table_lower  text NOT NULL,
    reserved_for text NOT NULL CHECK (length(reserved_for) <= 200),
    created_at   {{type_time}} NOT NULL,
    PRIMARY KEY (org, schema_lower, table_lower)
);

CREATE TABLE plan (
    plan_id           {{type_uuid}} PRIMARY KEY,
    stream_id         {{type_uuid}} NOT NULL REFERENCES stream (stream_id),
    org               text NOT NULL,
    kind              text NOT NULL CHECK (kind IN ('backfill', 'copy', 'register')),
    generation        bigint NOT NULL,
    state             text NOT NULL CHECK (state IN ('wanted', 'planning', 'running', 'paused', 'halted', 'done', 'stale', 'superseded', 'cancelled')),
    return_to         text NOT NULL CHECK (return_to IN ('pending_backfill', 'primed', 'needs_resync')),
    expected_table_id bigint,
    source_uri        text CHECK (length(source_uri) <= 2000),
    delta_version     bigint,
    delta_table_id    text,
    folder_token      text,
    run_id            text CHECK (length(run_id) BETWEEN 1 AND 200),
    plan_hash         text,
    chunk_count       bigint,
    files             bigint,
    bytes             bigint,
    rows              bigint,
    chunks_applied    bigint NOT NULL DEFAULT 0,
    bytes_applied     bigint NOT NULL DEFAULT 0,
    rows_applied      bigint NOT NULL DEFAULT 0,
    last_progress_at  {{type_time}},
    slot_at           {{type_time}},
    priority          bigint NOT NULL DEFAULT 0,
    owner             text,
    lease_expires_at  {{type_time}},
    failures          bigint NOT NULL DEFAULT 0,
    first_failed_at   {{type_time}},
    last_error        text CHECK (length(last_error) <= 2000),
    not_before        {{type_time}},
    replans           bigint NOT NULL DEFAULT 0,
    created_at        {{type_time}} NOT NULL,
    ended_at          {{type_time}},
    CHECK ((ended_at IS NOT NULL) = (state IN ('done', 'stale', 'superseded', 'cancelled')))
);
CREATE UNIQUE INDEX plan_active ON plan (stream_id) WHERE state IN ('wanted', 'planning', 'running', 'paused', 'halted');

CREATE TABLE covered_batch (
    stream_id     {{type_uuid}} NOT NULL REFERENCES stream (stream_id),
    run_id        text NOT NULL CHECK (length(run_id) BETWEEN 1 AND 200),
    batch_index   bigint NOT NULL CHECK (batch_index >= 0),
    plan_id       {{type_uuid}} NOT NULL,
    delta_version bigint,
    proof         text NOT NULL CHECK (proof IN ('commit', 'order', 'operator')),
    created_at    {{type_time}} NOT NULL,
    PRIMARY KEY (stream_id, run_id, batch_index)
);

CREATE TABLE stream_target_history (
    stream_id     {{type_uuid}} NOT NULL REFERENCES stream (stream_id),
    lake_table_id bigint NOT NULL,
    table_uuid    text,
    from_snapshot bigint NOT NULL,
    to_snapshot   bigint,
    reason        text NOT NULL CHECK (reason IN ('created', 'swap', 'replace', 'rewrite')),
    batch_id      {{type_uuid}},
    created_at    {{type_time}} NOT NULL,
    PRIMARY KEY (stream_id, lake_table_id, from_snapshot)
);

-- +down
DROP TABLE stream_target_history;
DROP TABLE covered_batch;
DROP TABLE plan;
DROP TABLE reserved_name;
DROP TABLE stream;
