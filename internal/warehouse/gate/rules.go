package gate

// verbs are the first words of what a tenant may send; everything else is refused, whatever the engine may learn.
var verbs = set(
	"select", "with", "from", "values", "table", "(", "pivot", "unpivot", "describe", "desc", "show", "summarize", "explain",
	"insert", "update", "delete", "merge", "truncate", "create", "alter", "drop", "comment", "analyze", "prepare", "execute",
)

// known are first words that the engine or PostgreSQL has, so that their refusal is no syntax error.
var known = set(
	"select", "with", "from", "values", "table", "(", "pivot", "unpivot", "describe", "desc", "show", "summarize", "explain",
	"insert", "update", "delete", "merge", "truncate", "create", "alter", "drop", "comment", "analyze", "prepare", "execute",
	"attach", "detach", "load", "install", "force", "export", "import", "copy", "call", "use", "pragma", "checkpoint", "vacuum",
	"grant", "revoke", "do", "listen", "notify", "lock", "cluster", "reindex", "refresh", "declare", "fetch", "move", "close",
	"security", "reassign", "variable",
)

// reading are those that a reader may send; the engine's classification must agree.
var reading = set("select", "with", "from", "values", "table", "(", "pivot", "unpivot", "describe", "desc", "show", "summarize", "explain")

// objects are what a tenant may CREATE, ALTER or DROP.
var objects = set("table", "view", "schema", "macro", "function", "type", "sequence", "index")

// functions are refused when they are called.
var functions = set(
	// files
	"read_csv", "read_csv_auto", "read_parquet", "read_json", "read_json_auto", "read_json_objects", "read_json_objects_auto",
	"read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_text", "read_blob", "read_xlsx", "read_duckdb", "sniff_csv",
	"glob", "parquet_scan", "parquet_schema", "parquet_metadata", "parquet_file_metadata", "parquet_kv_metadata",
	"parquet_bloom_probe", "parquet_full_metadata", "csv_sniffer", "st_read", "iceberg_scan", "delta_scan", "arrow_scan",
	"arrow_scan_dumb", "pandas_scan", "python_map_function", "seq_scan", "write_log", "copy_database",
	// SQL in a string, other databases
	"query", "query_table", "json_execute_serialized_sql", "from_substrait", "from_substrait_json", "get_substrait",
	"sqlite_scan", "sqlite_query", "sqlite_execute", "sqlite_attach", "mysql_query", "mysql_scan", "mysql_execute",
	// the process
	"getenv", "pragma_version", "pragma_platform", "pragma_database_size", "pragma_storage_info", "pragma_user_agent",
	"duckdb_settings", "duckdb_secrets", "duckdb_databases", "duckdb_extensions", "duckdb_logs", "duckdb_logs_parsed",
	"duckdb_log_contexts", "duckdb_memory", "duckdb_temporary_files", "duckdb_external_file_cache", "duckdb_approx_database_count",
	"duckdb_connection_count", "duckdb_optimizers", "duckdb_profiling_settings", "which_secret", "pg_timezone_abbrevs_file",
	"enable_logging", "disable_logging", "enable_profiling", "disable_profiling", "set_log_level", "truncate_duckdb_logs",
	"force_checkpoint", "checkpoint", "add_parquet_key", "enable_peg_parser", "load_aws_credentials", "sql_auto_complete",
	"start_ui", "stop_ui_server", "checkpoint_database", "test_all_types",
	// the lake
	"set_commit_message", "snapshots", "table_info", "table_changes", "table_insertions", "table_deletions", "set_option",
	"options", "merge_adjacent_files", "rewrite_data_files", "expire_snapshots", "cleanup_old_files", "delete_orphaned_files",
	"flush_inlined_data", "add_data_files", "last_committed_snapshot", "current_snapshot",
)

// open are functions of the lake list that a tenant may call: they read the lake's own history.
var open = set("snapshots", "table_info", "table_changes", "table_insertions", "table_deletions", "last_committed_snapshot", "current_snapshot")

// names are refused as a name anywhere, also without a call: views of the engine over what a tenant must not see.
var names = set("duckdb_secrets", "duckdb_databases", "duckdb_extensions", "duckdb_logs", "duckdb_settings", "duckdb_memory", "duckdb_temporary_files")

// prefixes are refused as the beginning of any name.
var prefixes = []string{"__ducklake", "__internal_"}

// families are refused as the beginning of a function's name. Tables may be called so: a source of type Postgres gives
// tables like postgres_orders.
var families = []string{
	"ducklake_", "postgres_", "pg_scan", "sqlite_", "mysql_", "pragma_storage", "st_read", "st_drivers",
	"read_csv", "read_json", "read_ndjson", "read_parquet", "parquet_", "substrait",
}

// service are the functions and prefixes that the loader may use all the same.
var service = set(
	// what is in the lake, by its own tables
	"__ducklake_metadata_lake",
	// files, and the lake's functions
	"read_blob", "read_parquet", "parquet_schema", "parquet_metadata", "parquet_file_metadata", "parquet_kv_metadata", "parquet_full_metadata",
	"glob", "ducklake_add_data_files", "ducklake_list_files", "ducklake_table_info", "ducklake_snapshots", "ducklake_options", "ducklake_settings",
	"ducklake_set_commit_message", "ducklake_last_committed_snapshot", "ducklake_current_snapshot", "ducklake_set_option",
	"ducklake_table_changes", "ducklake_table_insertions", "ducklake_table_deletions", "ducklake_max_retry_count",
	"ducklake_retry_wait_ms", "ducklake_retry_backoff",
	"set_commit_message", "snapshots", "table_info", "table_changes", "table_insertions", "table_deletions", "set_option", "options",
	"last_committed_snapshot", "current_snapshot", "add_data_files", "duckdb_settings",
)

// serviceVerbs are what the services may send besides the tenants' verbs.
var serviceVerbs = set("copy", "call", "use", "checkpoint", "vacuum")

// fileEndings make a quoted name in the place of a table a file.
var fileEndings = []string{
	".csv", ".tsv", ".txt", ".parquet", ".json", ".jsonl", ".ndjson", ".xlsx", ".gz", ".zst", ".bz2", ".db", ".duckdb", ".ddb",
	".sqlite", ".arrow", ".feather", ".orc", ".avro", ".geojson", ".shp",
}
