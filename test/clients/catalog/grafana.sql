-- What Grafana's PostgreSQL data source and its query builder ask.
SELECT current_setting('server_version_num')::int / 100 AS version;
SELECT version();
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';
SELECT quote_ident(table_name) AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache', '_timescaledb_catalog', '_timescaledb_internal', '_timescaledb_config', 'timescaledb_information', 'timescaledb_experimental') AND quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1), array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i, string_to_array(current_setting('search_path'), ',') s);
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE quote_ident(table_name) = 'orders' AND quote_ident(table_schema) = 'tools';
SELECT extract(epoch FROM TIMESTAMPTZ '2024-01-01 00:00:00+00') AS "time", 1.5 AS value;
SELECT floor(extract(epoch FROM placed) / 60) * 60 AS "time", avg(price) AS v FROM tools.orders WHERE placed BETWEEN '2024-01-01T00:00:00Z' AND '2024-02-01T00:00:00Z' GROUP BY 1 ORDER BY 1;
