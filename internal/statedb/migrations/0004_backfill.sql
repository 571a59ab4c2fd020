-- What planning a history needs beside the plan itself (packages stream and backfill).
ALTER TABLE plan ADD COLUMN asked_version bigint CHECK (asked_version >= 0);
ALTER TABLE plan ADD COLUMN covered_answer text CHECK (length(covered_answer) <= 20000); -- the operator's: all, none or RUN:INDEX,…
ALTER TABLE plan ADD COLUMN options {{type_json}};                                       -- columns to keep, checks, how chunks are written
ALTER TABLE plan ADD COLUMN pin {{type_json}};                                           -- what the planner saw of source and table
ALTER TABLE plan ADD COLUMN covered bigint NOT NULL DEFAULT 0;
ALTER TABLE plan ADD COLUMN error_code text CHECK (length(error_code) <= 100);
ALTER TABLE plan ADD COLUMN deferrals bigint NOT NULL DEFAULT 0;
ALTER TABLE plan ADD COLUMN defer_reason text CHECK (length(defer_reason) <= 200);
ALTER TABLE plan ADD COLUMN fallback text CHECK (length(fallback) <= 2000);              -- why files are not registered as they are
ALTER TABLE plan ADD COLUMN resumed boolean NOT NULL DEFAULT false;                      -- it had a slot before: it comes before new ones
ALTER TABLE plan ADD COLUMN wanted_at {{type_time}};                                     -- since when it waits for a slot
ALTER TABLE plan ADD COLUMN end_reason text CHECK (length(end_reason) <= 2000);
ALTER TABLE plan ADD COLUMN replan_window_at {{type_time}};                              -- begin of the day in which replans are counted
CREATE INDEX plan_open ON plan (org, created_at) WHERE state IN ('wanted', 'planning', 'running', 'paused', 'halted');
CREATE INDEX plan_stream ON plan (stream_id, generation);

-- What the planner has seen of a stream's source before there is a plan: an empty table is believed at the second look.
CREATE TABLE source_look (
    stream_id  {{type_uuid}} PRIMARY KEY REFERENCES stream (stream_id),
    first_at   {{type_time}} NOT NULL,
    looked_at  {{type_time}} NOT NULL,
    empty_at   {{type_time}},
    error_code text CHECK (length(error_code) <= 100),
    error_text text CHECK (length(error_text) <= 2000),
    failures   bigint NOT NULL DEFAULT 0,
    not_before {{type_time}} NOT NULL
);

-- The row that whoever grants slots locks, so that two processes cannot exceed a cap.
CREATE TABLE slot_lock (
    one integer PRIMARY KEY CHECK (one = 1)
);
INSERT INTO slot_lock (one) VALUES (1);

-- When a planner pass last ended, by process.
CREATE TABLE planner_pass (
    instance text PRIMARY KEY CHECK (length(instance) <= 200),
    ended_at {{type_time}} NOT NULL
);

-- +down
DROP TABLE planner_pass;
DROP TABLE slot_lock;
DROP TABLE source_look;
DROP INDEX plan_stream;
DROP INDEX plan_open;
ALTER TABLE plan DROP COLUMN replan_window_at;
ALTER TABLE plan DROP COLUMN end_reason;
ALTER TABLE plan DROP COLUMN wanted_at;
ALTER TABLE plan DROP COLUMN resumed;
ALTER TABLE plan DROP COLUMN fallback;
ALTER TABLE plan DROP COLUMN defer_reason;
ALTER TABLE plan DROP COLUMN deferrals;
ALTER TABLE plan DROP COLUMN error_code;
ALTER TABLE plan DROP COLUMN covered;
ALTER TABLE plan DROP COLUMN pin;
ALTER TABLE plan DROP COLUMN options;
ALTER TABLE plan DROP COLUMN covered_answer;
ALTER TABLE plan DROP COLUMN asked_version;
