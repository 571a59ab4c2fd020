-- Runs, batches, leases and outcomes (package queue).
CREATE TABLE run (
    stream_id     {{type_uuid}} NOT NULL REFERENCES stream (stream_id),
    run_id        text NOT NULL CHECK (length(run_id) BETWEEN 1 AND 200),
    seq           bigint NOT NULL CHECK (seq >= 1),
    kind          text NOT NULL CHECK (kind IN ('live', 'backfill', 'copy', 'register')),
    sync_type     text NOT NULL CHECK (sync_type IN ('full_refresh', 'incremental', 'append', 'cdc')),
    is_first_ever boolean NOT NULL,
    state         text NOT NULL CHECK (state IN ('planning', 'open', 'sealed', 'halted', 'succeeded', 'failed', 'superseded', 'cancelled')),
    final_index   bigint CHECK (final_index >= -1),
    marker_index  bigint CHECK (marker_index >= 0), -- index of a final marker whose form is not decided: final_index is this or one less
    total_batches bigint CHECK (total_batches >= 0),
    total_rows    bigint CHECK (total_rows >= 0),
    next_index    bigint NOT NULL DEFAULT 0 CHECK (next_index >= 0),
    slot_at       {{type_time}},
    options       {{type_json}} NOT NULL,
    replace_head  boolean NOT NULL,                 -- batch 0 is there and replaces the table
    fail_index    bigint CHECK (fail_index >= 0),   -- lowest index that the authoritative store refused
    discarded     boolean NOT NULL DEFAULT false,   -- a batch was given up
    superseded_by bigint,                           -- seq of the run that replaces this one once its last apply has ended
    sealed_by     text CHECK (sealed_by IN ('final', 'newer', 'plan')),
    first_batch_at {{type_time}} NOT NULL,
    sealed_at     {{type_time}},
    ended_at      {{type_time}},
    purged_at     {{type_time}},                    -- its batches are gone
    reason        text CHECK (length(reason) <= 2000),
    PRIMARY KEY (stream_id, run_id),
    UNIQUE (stream_id, seq),
    CHECK ((sealed_at IS NULL) = (sealed_by IS NULL)),
    CHECK (state NOT IN ('sealed', 'succeeded') OR sealed_at IS NOT NULL),
    CHECK (state <> 'open' OR sealed_at IS NULL),
    CHECK ((ended_at IS NOT NULL) = (state IN ('succeeded', 'failed', 'superseded', 'cancelled')))
);
CREATE INDEX run_live ON run (stream_id, seq) WHERE state IN ('open', 'sealed', 'halted', 'planning');
CREATE INDEX run_unsealed ON run (stream_id, seq) WHERE sealed_at IS NULL;
CREATE INDEX run_chunks ON run (stream_id, seq) WHERE state IN ('open', 'sealed', 'halted', 'planning') AND kind <> 'live';
CREATE INDEX run_replace ON run (stream_id, seq) WHERE state IN ('open', 'sealed', 'halted', 'planning') AND replace_head;
CREATE INDEX run_ended ON run (ended_at) WHERE ended_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX run_purged ON run (ended_at) WHERE purged_at IS NOT NULL;

CREATE TABLE batch (
    batch_id         {{type_uuid}} PRIMARY KEY,
    stream_id        {{type_uuid}} NOT NULL,
    run_id           text NOT NULL,
    run_seq          bigint NOT NULL,
    batch_index      bigint NOT NULL CHECK (batch_index >= 0),
    path             text CHECK (length(path) BETWEEN 1 AND 2000),
    etag             text CHECK (length(etag) <= 200),
    byte_size        bigint CHECK (byte_size >= 0),
    row_count        bigint CHECK (row_count >= 0),
    is_final         boolean NOT NULL,
    is_resume        boolean NOT NULL,
    op               text CHECK (op IN ('replace', 'create', 'insert', 'merge', 'register', 'nothing')),
    upstream_state   text NOT NULL CHECK (upstream_state IN ('none', 'waiting', 'succeeded', 'failed')),
    load_state       text NOT NULL CHECK (load_state IN ('queued', 'executing', 'retry_wait', 'quarantined', 'succeeded', 'failed', 'superseded')),
    load_reason      text CHECK (load_reason IN ('covered_by_snapshot', 'superseded_by_replace', 'replanned', 'upstream_failed', 'discarded', 'cancelled', 'already_applied')),
    attempt          bigint NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    deferrals        bigint NOT NULL DEFAULT 0 CHECK (deferrals >= 0),
    next_attempt_at  {{type_time}},
    state_changed_at {{type_time}} NOT NULL,
    created_at       {{type_time}} NOT NULL,
    error_code       text CHECK (length(error_code) <= 100),
    error_text       text CHECK (length(error_text) <= 2000),
    UNIQUE (stream_id, run_id, batch_index),
    FOREIGN KEY (stream_id, run_id) REFERENCES run (stream_id, run_id),
    CHECK ((load_state = 'retry_wait') = (next_attempt_at IS NOT NULL)),
    CHECK (load_state <> 'executing' OR attempt > 0)
);
CREATE INDEX batch_open ON batch (stream_id, run_seq, batch_index) WHERE load_state IN ('queued', 'executing', 'retry_wait', 'quarantined');

CREATE TABLE batch_spec (
    batch_id {{type_uuid}} PRIMARY KEY REFERENCES batch (batch_id) ON DELETE CASCADE,
    spec     {{type_json}} NOT NULL
);

CREATE TABLE batch_status (
    id            {{identity}},
    batch_id      {{type_uuid}} NOT NULL REFERENCES batch (batch_id) ON DELETE CASCADE,
    load_state    text NOT NULL,
    attempt       bigint NOT NULL,
    reason        text,
    error         {{type_json}},
    owner         text,
    epoch         bigint,
    fence_seq     bigint,
    lake_snapshot bigint,
    rows_read     bigint,
    rows_written  bigint,
    phases        {{type_json}},
    created_at    {{type_time}} NOT NULL
);
CREATE INDEX batch_status_batch ON batch_status (batch_id, id);

CREATE TABLE batch_marker (
    stream_id     {{type_uuid}} NOT NULL REFERENCES stream (stream_id),
    run_id        text NOT NULL,
    batch_index   bigint NOT NULL,
    batch_id      {{type_uuid}} NOT NULL,
    op            text,
    rows          bigint,
    fence_seq     bigint,
    lake_snapshot bigint,
    origin        text NOT NULL CHECK (origin IN ('applied', 'covered', 'recovered')),
    created_at    {{type_time}} NOT NULL,
    PRIMARY KEY (stream_id, run_id, batch_index)
);
CREATE INDEX batch_marker_age ON batch_marker (created_at);

-- One row per stream: the lease and the index of work. It is updated for every batch.
CREATE TABLE stream_lease (
    stream_id     {{type_uuid}} PRIMARY KEY REFERENCES stream (stream_id),
    org           text NOT NULL,
    team_id       bigint NOT NULL,
    head_batch_id {{type_uuid}},
    head_run_seq  bigint,
    head_is_chunk boolean NOT NULL DEFAULT false,
    ready_at      {{type_time}},
    blocked_by    text CHECK (length(blocked_by) <= 500),
    oldest_at     {{type_time}},
    owner         text CHECK (length(owner) BETWEEN 1 AND 64),
    epoch         bigint NOT NULL DEFAULT 0,
    purpose       text NOT NULL DEFAULT 'load' CHECK (purpose IN ('load', 'maintain')),
    lingering     boolean NOT NULL DEFAULT false,
    acquired_at   {{type_time}},
    expires_at    {{type_time}},
    last_applied_at {{type_time}},           -- the last applied batch, for display
    last_run_id   text,
    last_index    bigint,
    halt_code     text CHECK (length(halt_code) <= 100), -- the stream is stopped for a reason that is not one batch's
    halt_text     text CHECK (length(halt_text) <= 2000),
    halted_at     {{type_time}},
    CHECK (ready_at IS NULL OR head_batch_id IS NOT NULL),
    CHECK ((head_batch_id IS NULL) = (oldest_at IS NULL)),
    CHECK (owner IS NULL OR expires_at IS NOT NULL),
    CHECK (owner IS NOT NULL OR NOT lingering)
){{pg}} WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02){{end}};
CREATE INDEX stream_lease_ready ON stream_lease (ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX stream_lease_held ON stream_lease (org) WHERE owner IS NOT NULL;

-- The SQL contract of producers: INSERT here, in a transaction of your own.
CREATE TABLE batch_inbox (
    id             {{identity}},
    kind           text NOT NULL CHECK (kind IN ('batch', 'upstream', 'final')),
    stream_id      {{type_uuid}} NOT NULL,
    run_id         text NOT NULL CHECK (length(run_id) BETWEEN 1 AND 200),
    batch_id       {{type_uuid}},
    batch_index    bigint NOT NULL CHECK (batch_index >= 0),
    sync_type      text,
    is_first_ever  boolean NOT NULL DEFAULT false,
    options        {{type_json}},
    path           text,
    etag           text,
    byte_size      bigint,
    row_count      bigint,
    is_final       boolean NOT NULL DEFAULT false,
    is_resume      boolean NOT NULL DEFAULT false,
    upstream_state text,
    total_batches  bigint,
    total_rows     bigint,
    result         text CHECK (result IN ('accepted', 'duplicate', 'refused')),
    error          text CHECK (length(error) <= 2000),
    created_at     {{type_time}} NOT NULL DEFAULT {{pg}}statement_timestamp(){{end}}{{sqlite}}(CAST(round(unixepoch('now', 'subsec') * 1000000) AS INTEGER)){{end}}
);
CREATE INDEX batch_inbox_waiting ON batch_inbox (id) WHERE result IS NULL;
CREATE INDEX batch_inbox_age ON batch_inbox (created_at) WHERE result IS NOT NULL;
{{pg}}
CREATE FUNCTION batch_inbox_wake() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('sluice', 'inbox');
    RETURN NULL;
END $$;
CREATE TRIGGER batch_inbox_wake AFTER INSERT ON batch_inbox FOR EACH STATEMENT EXECUTE FUNCTION batch_inbox_wake();
{{end}}

CREATE TABLE quarantine (
    id          {{identity}},
    batch_id    {{type_uuid}} NOT NULL,
    stream_id   {{type_uuid}} NOT NULL REFERENCES stream (stream_id),
    run_id      text NOT NULL,
    batch_index bigint NOT NULL,
    code        text NOT NULL CHECK (length(code) <= 100),
    message     text NOT NULL CHECK (length(message) <= 2000),
    hint        text CHECK (length(hint) <= 2000),
    path        text,
    attempts    bigint NOT NULL,
    opened_at   {{type_time}} NOT NULL,
    state       text NOT NULL CHECK (state IN ('open', 'retried', 'discarded', 'superseded')),
    closed_at   {{type_time}},
    closed_by   text CHECK (length(closed_by) <= 200),
    note        text CHECK (length(note) <= 2000),
    CHECK ((state = 'open') = (closed_at IS NULL))
);
CREATE UNIQUE INDEX quarantine_open ON quarantine (batch_id) WHERE state = 'open';
CREATE INDEX quarantine_stream ON quarantine (stream_id, id);
CREATE INDEX quarantine_closed ON quarantine (closed_at) WHERE closed_at IS NOT NULL;

-- What one process at a time does.
CREATE TABLE sweep_lease (
    name       text PRIMARY KEY,
    owner      text,
    expires_at {{type_time}}
);
INSERT INTO sweep_lease (name) VALUES ('sweep'), ('inbox');

-- +down
DROP TABLE sweep_lease;
DROP TABLE quarantine;
DROP TABLE batch_inbox;
{{pg}}DROP FUNCTION batch_inbox_wake();{{end}}
DROP TABLE stream_lease;
DROP TABLE batch_marker;
DROP TABLE batch_status;
DROP TABLE batch_spec;
DROP TABLE batch;
DROP TABLE run;
