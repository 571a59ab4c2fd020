-- Changelogs: topics that are kept in tables, and who works on them (package changelog).
CREATE TABLE changelog (
    changelog_id {{type_uuid}} PRIMARY KEY,
    name         text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 48),
    lake         text NOT NULL CHECK (length(lake) BETWEEN 1 AND 63),
    table_schema text NOT NULL CHECK (length(table_schema) BETWEEN 1 AND 255),
    table_name   text NOT NULL CHECK (length(table_name) BETWEEN 1 AND 255),
    cluster      text NOT NULL CHECK (length(cluster) <= 200),
    topic        text NOT NULL CHECK (length(topic) BETWEEN 1 AND 249),
    topic_id     text,
    slots        bigint NOT NULL CHECK (slots BETWEEN 1 AND 64),
    desired      text NOT NULL CHECK (desired IN ('run', 'pause')),
    status       text NOT NULL CHECK (status IN ('starting', 'running', 'paused', 'halted')),
    halt_code    text CHECK (length(halt_code) <= 100),
    halt_detail  text CHECK (length(halt_detail) <= 2000),
    halted_at    {{type_time}},
    config       {{type_json}} NOT NULL,
    list         {{type_json}},              -- of include_values, as last accepted
    created_at   {{type_time}} NOT NULL,
    updated_at   {{type_time}} NOT NULL,
    UNIQUE (lake, table_schema, table_name),
    CHECK ((status = 'halted') = (halt_code IS NOT NULL)),
    CHECK ((status = 'halted') = (halted_at IS NOT NULL))
);

-- The right of one process to work on a slot, by the rules of stream_lease.
CREATE TABLE changelog_slot (
    changelog_id {{type_uuid}} NOT NULL REFERENCES changelog (changelog_id),
    slot         bigint NOT NULL CHECK (slot >= 0),
    owner        text CHECK (length(owner) BETWEEN 1 AND 200),
    epoch        bigint NOT NULL DEFAULT 0,
    expires_at   {{type_time}},
    PRIMARY KEY (changelog_id, slot),
    CHECK (owner IS NULL OR expires_at IS NOT NULL)
);

-- The processes that share the slots out between them.
CREATE TABLE changelog_member (
    owner      text PRIMARY KEY CHECK (length(owner) BETWEEN 1 AND 200),
    expires_at {{type_time}} NOT NULL
);

-- +down
DROP TABLE changelog_member;
DROP TABLE changelog_slot;
DROP TABLE changelog;
