-- What Superset, through SQLAlchemy's psycopg2 dialect, asks.
SELECT pg_catalog.version();
SELECT current_schema();
SHOW standard_conforming_strings;
SHOW transaction isolation level;
SELECT t.oid, typarray FROM pg_type t JOIN pg_namespace ns ON typnamespace = ns.oid WHERE typname = 'hstore';
SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname;
SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_class.relpersistence != 't' AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog' AND pg_catalog.pg_class.relname = 'orders';
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'tools' AND c.relkind in ('r', 'p');
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef) AS DEFAULT, a.attnotnull, a.attrelid AS table_oid, pgd.description AS comment, a.attgenerated AS generated FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_description pgd ON (pgd.objoid = a.attrelid AND pgd.objsubid = a.attnum) WHERE a.attrelid = (SELECT c.oid FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'tools' AND c.relname = 'orders') AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;
SELECT t.typname AS "name", pg_catalog.format_type(t.typbasetype, t.typtypmod) AS "attype", NOT t.typnotnull AS "nullable", t.typdefault AS "default", pg_catalog.pg_type_is_visible(t.oid) AS "visible", n.nspname AS "schema" FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype = 'd';
SELECT t.typname AS "name", pg_catalog.pg_type_is_visible(t.oid) AS "visible", n.nspname AS "schema", e.enumlabel AS "label" FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace LEFT JOIN pg_catalog.pg_enum e ON t.oid = e.enumtypid WHERE t.typtype = 'e' ORDER BY "schema", "name", e.oid;
SELECT a.attname FROM pg_attribute a JOIN (SELECT unnest(ix.indkey) attnum, generate_subscripts(ix.indkey, 1) ord FROM pg_index ix WHERE ix.indrelid = 1 AND ix.indisprimary) k ON a.attnum = k.attnum WHERE a.attrelid = 1 ORDER BY k.ord;
SELECT pgd.description AS table_comment FROM pg_catalog.pg_description pgd WHERE pgd.objsubid = 0 AND pgd.objoid = (SELECT min(oid) FROM pg_class WHERE relname = 'orders');
SELECT DATE_TRUNC('day', placed) AS __timestamp, SUM(price) AS total FROM tools.orders GROUP BY DATE_TRUNC('day', placed) ORDER BY total DESC LIMIT 1000;
