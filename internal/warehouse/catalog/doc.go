// Package catalog makes a session look like a PostgreSQL database to psql, drivers and BI tools: it rewrites what the
// engine's dialect has not (OPERATOR(pg_catalog.~), COLLATE, ::regclass, current_setting, version and the like), and lays
// temporary views and macros over the engine's own pg_catalog and information_schema.
//
// The views show the org's lake only: the lake's own catalog, the loader's control schema and staging tables are not in
// them. They are made in a session when its first statement needs them, and belong to it.
package catalog
