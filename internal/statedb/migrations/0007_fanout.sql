-- Fan-outs: tables that follow a source table of another lake (package fanout).
CREATE TABLE fanout (
    fanout_id     {{type_uuid}} PRIMARY KEY,
    name          text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 48),
    lake          text NOT NULL CHECK (length(lake) BETWEEN 1 AND 63),
    source_schema text NOT NULL CHECK (length(source_schema) BETWEEN 1 AND 255),
    source_table  text NOT NULL CHECK (length(source_table) BETWEEN 1 AND 255),
    config        {{type_json}} NOT NULL,
    shards        bigint NOT NULL CHECK (shards BETWEEN 1 AND 256),
    desired       text NOT NULL CHECK (desired IN ('run', 'pause')),
    halt_code     text CHECK (length(halt_code) <= 100),
    halt_detail   text CHECK (length(halt_detail) <= 2000),
    halted_at     {{type_time}},
    generation    bigint NOT NULL DEFAULT 0, -- of the last good answer of discovery
    created_at    {{type_time}} NOT NULL,
    updated_at    {{type_time}} NOT NULL,
    CHECK ((halted_at IS NULL) = (halt_code IS NULL))
);

CREATE TABLE fanout_destination (
    destination_id  {{type_uuid}} PRIMARY KEY,
    fanout_id       {{type_uuid}} NOT NULL REFERENCES fanout (fanout_id),
    org             text NOT NULL CHECK (length(org) BETWEEN 1 AND 63),
    team_id         bigint NOT NULL CHECK (team_id > 0),
    route           text NOT NULL CHECK (length(route) BETWEEN 1 AND 255),
    origin          text NOT NULL CHECK (origin IN ('static', 'discovered')),
    target_schema   text NOT NULL CHECK (length(target_schema) BETWEEN 1 AND 255),
    target_table    text NOT NULL CHECK (length(target_table) BETWEEN 1 AND 255),
    state           text NOT NULL CHECK (state IN ('new', 'seeding', 'following', 'retrying', 'waiting', 'halted', 'paused', 'removed')),
    before          text CHECK (before IN ('new', 'seeding', 'following', 'halted')),
    code            text CHECK (length(code) <= 100),
    detail          text CHECK (length(detail) <= 2000),
    failed_since    {{type_time}},
    attempts        bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    retry_at        {{type_time}},
    missing_polls   bigint NOT NULL DEFAULT 0,
    cursor_snapshot bigint NOT NULL DEFAULT 0, -- a copy: the lake decides
    empty_from      bigint NOT NULL DEFAULT 0,
    empty_through   bigint NOT NULL DEFAULT 0,
    route_hash      text NOT NULL DEFAULT '',
    pinned_snapshot bigint NOT NULL DEFAULT 0,
    seed_generation bigint NOT NULL DEFAULT 1,
    updated_at      {{type_time}} NOT NULL,
    UNIQUE (fanout_id, org, team_id),
    CHECK (state NOT IN ('retrying', 'waiting') OR before IS NOT NULL)
);

-- The right of one process to work on a shard, by the rules of stream_lease.
CREATE TABLE fanout_shard (
    fanout_id  {{type_uuid}} NOT NULL REFERENCES fanout (fanout_id),
    shard      bigint NOT NULL CHECK (shard >= 0),
    owner      text CHECK (length(owner) BETWEEN 1 AND 200),
    epoch      bigint NOT NULL DEFAULT 0,
    expires_at {{type_time}},
    PRIMARY KEY (fanout_id, shard),
    CHECK (owner IS NULL OR expires_at IS NOT NULL)
);

-- The processes that share the shards out between them.
CREATE TABLE fanout_member (
    owner      text PRIMARY KEY CHECK (length(owner) BETWEEN 1 AND 200),
    expires_at {{type_time}} NOT NULL
);

-- +down
DROP TABLE fanout_member;
DROP TABLE fanout_shard;
DROP TABLE fanout_destination;
DROP TABLE fanout;
