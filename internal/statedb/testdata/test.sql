-- name: Future
INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, {{pg}}true{{end}}{{sqlite}}1{{end}});

-- name: Make
CREATE TABLE counter (one integer PRIMARY KEY, n bigint NOT NULL);

-- name: Zero
INSERT INTO counter (one, n) VALUES (1, 0);

-- name: Read
SELECT n FROM counter;

-- name: ReadLocked
SELECT n FROM counter WHERE one = 1 {{lock counter}};

-- name: Write
UPDATE counter SET n = :n WHERE one = 1;

-- name: Clock
SELECT {{now}}, {{after :d}}, {{ago :d}};

-- name: Lists
-- A comment with :colons and 'a literal :too'.
SELECT count(*) FROM (SELECT 'a' AS org, 1 AS id UNION ALL SELECT 'b', 2 UNION ALL SELECT 'c', 3) x
WHERE org {{in_text :orgs}} AND id {{in_bigint :ids}} AND 'x:y' = 'x:y';
