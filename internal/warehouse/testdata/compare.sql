-- One query on each line, sent to PostgreSQL and to a warehouse.
SELECT 1 + 2
SELECT 7 - 10
SELECT 6 * 7
SELECT 7 % 3
SELECT -7 % 3
SELECT 2 ^ 10
SELECT abs(-5)
SELECT sign(-2.5)
SELECT round(2.567, 2)
SELECT round(-2.5)
SELECT ceil(1.2)
SELECT floor(-1.2)
SELECT trunc(2.9)
SELECT sqrt(16)
SELECT cbrt(27)
SELECT power(2, 8)
SELECT exp(0)
SELECT ln(1)
SELECT log10(1000)
SELECT pi()
SELECT degrees(pi())
SELECT radians(180.0)
SELECT gcd(12, 18)
SELECT lcm(4, 6)
SELECT factorial(5)
SELECT greatest(1, 5, 3)
SELECT least(1, 5, 3)
SELECT 5 & 3
SELECT 5 | 3
SELECT 1 << 4
SELECT 256 >> 2
SELECT 1.5::numeric(10,2) + 2
SELECT 10::numeric / 4
SELECT 10 / 4
SELECT 1::float8 / 3
SELECT 1.10::numeric(5,2) * 2
SELECT 12345678901234567890::numeric + 1
SELECT (0.1 + 0.2)::numeric(10,5)
SELECT 3::int2 + 4::int2
SELECT 2147483647::int8 + 1
SELECT 9223372036854775807
SELECT 1e3
SELECT div(7, 2)
SELECT mod(7, 3)
SELECT width_bucket(5, 0, 10, 5)
SELECT random() >= 0
SELECT sin(0)
SELECT cos(0)
SELECT tan(0)
SELECT atan2(1, 1)
SELECT 'NaN'::float8
SELECT 'Infinity'::float8
SELECT 1 = 1.0
SELECT 1 <> 2
SELECT NULL = NULL
SELECT NULL IS NULL
SELECT 1 IS DISTINCT FROM NULL
SELECT 1 BETWEEN 0 AND 2
SELECT 2 IN (1, 2, 3)
SELECT NOT true
SELECT true AND NULL
SELECT false OR NULL
SELECT 'a' || 'b'
SELECT lower('ABC')
SELECT upper('abc')
SELECT length('héllo')
SELECT octet_length('héllo')
SELECT char_length('abc')
SELECT substring('abcdef' from 2 for 3)
SELECT substr('abcdef', 3)
SELECT left('abcdef', 2)
SELECT right('abcdef', 2)
SELECT trim('  x ')
SELECT ltrim('xxa', 'x')
SELECT rtrim('axx', 'x')
SELECT btrim('xax', 'x')
SELECT replace('abcabc', 'b', 'X')
SELECT translate('abc', 'ab', 'xy')
SELECT position('c' in 'abc')
SELECT strpos('abc', 'b')
SELECT reverse('abc')
SELECT repeat('ab', 3)
SELECT lpad('7', 3, '0')
SELECT rpad('7', 3, '0')
SELECT split_part('a,b,c', ',', 2)
SELECT initcap('hello world')
SELECT concat('a', NULL, 'b')
SELECT concat_ws('-', 'a', NULL, 'b')
SELECT md5('abc')
SELECT ascii('A')
SELECT chr(65)
SELECT starts_with('abc', 'ab')
SELECT 'abc' LIKE 'a%'
SELECT 'abc' NOT LIKE '%d'
SELECT 'ABC' ILIKE 'a_c'
SELECT 'abc' ~ 'b'
SELECT 'abc' !~ '^b'
SELECT 'abc' SIMILAR TO 'a.*'
SELECT regexp_replace('abcabc', 'b', 'X')
SELECT regexp_replace('abcabc', 'b', 'X', 'g')
SELECT coalesce(NULL, 'x')
SELECT nullif('a', 'a')
SELECT CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END
SELECT quote_ident('a b')
SELECT quote_literal('it''s')
SELECT format('%s-%s', 'a', 'b')
SELECT to_hex(255)
SELECT encode('abc'::bytea, 'hex')
SELECT decode('616263', 'hex')
SELECT encode('abc'::bytea, 'base64')
SELECT string_to_array('a,b', ',')
SELECT array_to_string(ARRAY['a','b'], '-')
SELECT overlay('abcdef' placing 'XX' from 2 for 3)
SELECT E'tab\there'
SELECT 'a' < 'B'
SELECT 'x'::char(3) || 'y'
SELECT 'abc'::varchar(2)
SELECT bit_length('abc')
SELECT '5'::int + 1
SELECT '2.50'::numeric
SELECT 't'::bool
SELECT 'yes'::bool
SELECT '\x00ff'::bytea
SELECT '{1,2,3}'::int[]
SELECT 12::text
SELECT true::text
SELECT 1.50::text
SELECT 1e20::float8::text
SELECT 0.00001::float8::text
SELECT (1.0/3)::float4::text
SELECT DATE '2024-02-29'
SELECT DATE '2024-02-29' + 1
SELECT DATE '2024-03-01' - DATE '2024-02-01'
SELECT DATE '2024-01-31' + INTERVAL '1 month'
SELECT TIMESTAMP '2024-01-01 10:00:00' + INTERVAL '90 minutes'
SELECT TIMESTAMP '2024-01-02 00:00:00' - TIMESTAMP '2024-01-01 12:30:00'
SELECT TIMESTAMPTZ '2024-07-01 12:00:00+02'
SELECT TIMESTAMPTZ '2024-07-01 12:00:00+02' AT TIME ZONE 'America/New_York'
SELECT TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'Europe/Berlin'
SELECT extract(year FROM DATE '2024-02-29')
SELECT extract(dow FROM DATE '2024-02-25')
SELECT extract(isodow FROM DATE '2024-02-25')
SELECT extract(doy FROM DATE '2024-02-29')
SELECT extract(week FROM DATE '2024-01-01')
SELECT extract(quarter FROM DATE '2024-05-01')
SELECT extract(epoch FROM TIMESTAMP '2024-01-01 00:00:00')
SELECT extract(hour FROM TIME '13:14:15')
SELECT extract(second FROM TIMESTAMP '2024-01-01 00:00:12.5')
SELECT extract(milliseconds FROM TIMESTAMP '2024-01-01 00:00:12.5')
SELECT date_part('month', DATE '2024-02-29')
SELECT date_trunc('month', TIMESTAMP '2024-02-29 10:11:12')
SELECT date_trunc('week', TIMESTAMP '2024-02-29 10:11:12')
SELECT date_trunc('hour', TIMESTAMPTZ '2024-02-29 10:11:12+00')
SELECT age(TIMESTAMP '2024-03-01', TIMESTAMP '2023-01-15')
SELECT make_date(2024, 2, 29)
SELECT make_timestamp(2024, 1, 2, 3, 4, 5.5)
SELECT to_timestamp(0)
SELECT INTERVAL '1 year 2 months 3 days 04:05:06'
SELECT INTERVAL '1 day' * 3
SELECT INTERVAL '1 month' + INTERVAL '1 day'
SELECT justify_days(INTERVAL '45 days')
SELECT TIME '12:34:56' + INTERVAL '1 hour'
SELECT DATE 'infinity'
SELECT TIMESTAMP '-infinity'
SELECT DATE '0001-01-01'
SELECT TIMESTAMP '1999-12-31 23:59:59.999999'
SELECT to_char(TIMESTAMP '2024-01-02 03:04:05', 'YYYY-MM-DD HH24:MI:SS')
SELECT to_date('2024-01-02', 'YYYY-MM-DD')
SELECT (DATE '2024-01-01', DATE '2024-02-01') OVERLAPS (DATE '2024-01-15', DATE '2024-03-01')
SELECT DATE '2024-01-01' < TIMESTAMP '2024-01-01 00:00:01'
SELECT current_date = now()::date
SELECT UUID 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'
SELECT '{"a": [1, 2]}'::json -> 'a'
SELECT '{"a": [1, 2]}'::json -> 'a' ->> 0
SELECT '{"a": {"b": "c"}}'::json #>> '{a,b}'
SELECT json_array_length('[1,2,3]'::json)
SELECT ARRAY[1,2,3]
SELECT ARRAY[1,NULL]::int[]
SELECT (ARRAY[1,2,3])[2]
SELECT array_length(ARRAY[1,2,3], 1)
SELECT cardinality(ARRAY[1,2])
SELECT ARRAY[1,2] || ARRAY[3]
SELECT array_append(ARRAY[1], 2)
SELECT array_position(ARRAY['a','b'], 'b')
SELECT 2 = ANY(ARRAY[1,2])
SELECT ARRAY[1,2] @> ARRAY[2]
SELECT ARRAY['a','b']::text
SELECT unnest(ARRAY[1,2,3])
SELECT 'a'::text || 1
SELECT 1::text || 2
SELECT ROW(1, 'a')::text
SELECT * FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY id
SELECT count(*) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT count(v), count(DISTINCT g) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT sum(id), min(v), max(d) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT sum(v) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT avg(id)::numeric(10,4) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT g, count(*), sum(v) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) GROUP BY g ORDER BY g
SELECT g, count(*) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) GROUP BY g HAVING count(*) > 1 ORDER BY 1
SELECT id FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY v
SELECT id FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY v DESC
SELECT id FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY v NULLS FIRST
SELECT id FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY g DESC, id LIMIT 2 OFFSET 1
SELECT DISTINCT g FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY g
SELECT DISTINCT ON (g) g, id FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY g, id DESC
SELECT string_agg(g, ',' ORDER BY id) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT array_agg(id ORDER BY id DESC) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT bool_and(id > 0), bool_or(id > 4) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT stddev(id)::numeric(10,4), variance(id)::numeric(10,4) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT mode() WITHIN GROUP (ORDER BY g) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT count(*) FILTER (WHERE id > 2) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT id, row_number() OVER (ORDER BY id DESC) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY id
SELECT id, rank() OVER (PARTITION BY g ORDER BY id) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY id
SELECT id, lag(id) OVER (ORDER BY id), lead(id, 2, 0) OVER (ORDER BY id) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY id
SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY id
SELECT id, first_value(g) OVER (ORDER BY id), ntile(2) OVER (ORDER BY id) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY id
SELECT id, percent_rank() OVER (ORDER BY id) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY id
SELECT date_trunc('month', d), count(*) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) GROUP BY 1 ORDER BY 1
SELECT a.id, b.w FROM (SELECT * FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)) a LEFT JOIN (VALUES (1, 'x'), (3, 'y')) b(id, w) ON a.id = b.id ORDER BY a.id
SELECT id FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) WHERE g IN (SELECT g FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) WHERE id > 2) ORDER BY id
SELECT id FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) WHERE EXISTS (SELECT 1 WHERE id > 3) ORDER BY id
SELECT (SELECT max(id) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d))
SELECT id, (SELECT count(*) FROM (VALUES (1), (2)) x(n) WHERE n <= id) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) ORDER BY id
SELECT g, GROUPING(g), count(*) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) GROUP BY ROLLUP (g) ORDER BY 2, 1
SELECT g, id, count(*) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) GROUP BY GROUPING SETS ((g), (id)) ORDER BY 1, 2
SELECT coalesce(g, 'none'), sum(id) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) GROUP BY 1 ORDER BY 1
SELECT CASE WHEN v > 0 THEN 'pos' WHEN v < 0 THEN 'neg' ELSE 'other' END AS k, count(*) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) GROUP BY k ORDER BY k
SELECT id FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d) WHERE v IS NOT NULL AND d BETWEEN '2024-01-01' AND '2024-01-31' ORDER BY id
SELECT corr(id, v)::numeric(10,6) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
SELECT json_build_object('a', 1)
SELECT json_agg(id ORDER BY id) FROM (VALUES (1, 'a', 10.5, DATE '2024-01-01'), (2, 'b', NULL, DATE '2024-01-15'), (3, 'a', -3.25, DATE '2024-02-01'), (4, NULL, 0, NULL), (5, 'c', 100, DATE '2024-02-29')) t(id, g, v, d)
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r ORDER BY n
SELECT 1 UNION SELECT 1
SELECT 1 UNION ALL SELECT 2 ORDER BY 1
SELECT 1 INTERSECT SELECT 1
SELECT 1 EXCEPT SELECT 2
VALUES (1, 'a'), (2, 'b')
SELECT n FROM generate_series(1, 5, 2) AS n
SELECT * FROM generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1 day') AS d
SELECT a.x, b.y FROM (VALUES (1), (2)) a(x) CROSS JOIN (VALUES (3), (4)) b(y) ORDER BY 1, 2
SELECT * FROM (VALUES (1, 2)) a(x, y) NATURAL JOIN (VALUES (1, 3)) b(x, z)
SELECT x FROM (VALUES (1), (2), (3)) a(x) FULL JOIN (VALUES (3), (4)) b(y) ON x = y ORDER BY x NULLS LAST
SELECT a.x, l.y FROM (VALUES (1), (2)) a(x), LATERAL (SELECT a.x * 10 AS y) l ORDER BY 1
SELECT 1 AS "Quoted Name", 2 AS other
SELECT current_database() IS NOT NULL
SELECT 1 WHERE false
SELECT NULL
SELECT NULL::int
SELECT 1/0
SELECT 'x'::int
SELECT * FROM nowhere
SELECT nope
SELECT lower(1, 2)
SELECT '2024-02-30'::date
SELECT 300::int2 * 300::int2
SELECT 2147483647::int4 + 1::int4
SELECT 99999999999::int4
SELECT (SELECT 1 UNION SELECT 2)
SELECT sum(1) OVER () FROM nowhere
SELEC 1
SELECT 1 FROM
SELECT a FROM (VALUES (1)) t(a) GROUP BY b
SELECT a, count(*) FROM (VALUES (1)) t(a)
SELECT 'a' + 1
SELECT ARRAY[1,2] = ARRAY[1,2]
SELECT ARRAY[2] > ARRAY[1,5]
SELECT (1, 2) = (1, 2)
SELECT (1, 2) < (1, 3)
