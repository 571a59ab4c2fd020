-- name: AuditInsert
INSERT INTO audit (at, who, action, org, object, before, after, request_id)
VALUES ({{now}}, :who, :action, :org, :object, {{json :before}}, {{json :after}}, :request_id);

-- name: AuditList
SELECT id, at, who, action, org, object, before, after, request_id FROM audit
WHERE id < :before_id AND (CAST(:org AS text) IS NULL OR org = :org) ORDER BY id DESC LIMIT :limit;

-- name: CounterBump
UPDATE change_counter SET generation = generation + 1;

-- name: CounterGet
SELECT generation FROM change_counter;

-- name: AuditPrune
DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < {{ago :age}} ORDER BY id LIMIT 1000);
