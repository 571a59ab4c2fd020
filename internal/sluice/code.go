package sluice

// Kind groups codes by what the caller has to do; exit codes and HTTP statuses follow from it.
type Kind string

// The kinds of errors.
const (
	KindUsage       Kind = "usage"       // the call is malformed: exit 2, HTTP 400 or 422
	KindNotFound    Kind = "not_found"   // exit 3, HTTP 404
	KindRefused     Kind = "refused"     // a precondition or a conflict: exit 4, HTTP 409 or 403
	KindUnsupported Kind = "unsupported" // the input cannot be read: exit 5, HTTP 422
	KindFailed      Kind = "failed"      // anything else: exit 1, HTTP 500 or 503
)

// CodeInfo is one row of the registry: docs/errors.md has an entry for each, and a test compares.
type CodeInfo struct {
	Code    Code
	Kind    Kind
	Status  int // HTTP status
	Summary string
}

// Codes is the registry of every code that Sluice can show. Nothing else may invent one.
var Codes = []CodeInfo{
	// general
	{"SLUICE-USAGE", KindUsage, 400, "the command or request is malformed"},
	{"SLUICE-INTERNAL", KindFailed, 500, "something that should not happen"},
	{"SLUICE-CONFIG", KindUsage, 422, "the configuration has mistakes"},
	{"SLUICE-NOT-FOUND", KindNotFound, 404, "no such object"},
	{"SLUICE-SERVER-AWAY", KindFailed, 503, "the server does not answer"},

	// state DB
	{"SLUICE-STATE-AWAY", KindFailed, 503, "the state DB does not answer"},
	{"SLUICE-STATE-VERSION", KindRefused, 409, "the state DB has a schema that this binary does not know"},

	// extensions and engine
	{"SLUICE-EXTENSION-MISSING", KindFailed, 500, "an engine extension is not installed"},
	{"SLUICE-EXTENSION-HASH", KindFailed, 500, "an engine extension is not the pinned file"},
	{"SLUICE-ENGINE-OPEN", KindFailed, 500, "the engine of an org cannot be opened"},

	// control plane
	{"SLUICE-CONTROL-INVALID", KindUsage, 422, "a value is not allowed"},
	{"SLUICE-CONTROL-EXISTS", KindRefused, 409, "the object exists already"},
	{"SLUICE-CONTROL-NO-ORG", KindNotFound, 404, "no such org"},
	{"SLUICE-CONTROL-NO-TEAM", KindNotFound, 404, "no such team"},
	{"SLUICE-CONTROL-NO-USER", KindNotFound, 404, "no such user"},
	{"SLUICE-CONTROL-CONFLICT", KindRefused, 409, "somebody else changed the object meanwhile"},
	{"SLUICE-CONTROL-REFUSED", KindRefused, 409, "the object is not in a state that allows this"},
	{"SLUICE-CONTROL-REVOKED", KindRefused, 410, "the credential is revoked"},
	{"SLUICE-CONTROL-NOT-READY", KindRefused, 409, "the org's warehouse is not ready"},

	// the API's door
	{"SLUICE-API-LOGIN", KindRefused, 401, "the caller is not known"},
	{"SLUICE-API-ROLE", KindRefused, 403, "the token's role does not allow this"},
	{"SLUICE-API-RATE", KindRefused, 429, "too many requests"},

	// names
	{"SLUICE-NAME-POLICY", KindUsage, 422, "unknown naming policy"},
	{"SLUICE-NAME-EMPTY", KindUsage, 422, "a source has no name"},
	{"SLUICE-NAME-AMBIGUOUS", KindRefused, 409, "two existing tables could belong to the stream"},
	{"SLUICE-PERSONS-NAME", KindUsage, 422, "no persons tables can be named after this table"},
	{"SLUICE-NAME-TAKEN", KindRefused, 409, "the table name belongs to another stream"},

	// queue
	{"SLUICE-LOAD-NO-STREAM", KindNotFound, 404, "no such stream"},
	{"SLUICE-LOAD-NO-RUN", KindNotFound, 404, "no such run"},
	{"SLUICE-LOAD-NO-BATCH", KindNotFound, 404, "no such batch"},
	{"SLUICE-LOAD-SYNC-TYPE", KindUsage, 422, "the sync type does not fit the stream"},
	{"SLUICE-LOAD-BATCH-CONFLICT", KindRefused, 409, "the batch exists with other content"},
	{"SLUICE-LOAD-RUN-SEALED", KindRefused, 409, "the run takes no more batches"},
	{"SLUICE-LOAD-RUN-COUNT", KindUsage, 422, "total_batches does not fit the final index"},
	{"SLUICE-LOAD-RUN-GAP", KindFailed, 409, "a run that was given up has a missing batch"},
	{"SLUICE-LOAD-PATH-REFUSED", KindRefused, 403, "the path is outside the org's extract prefixes"},
	{"SLUICE-LOAD-STATE", KindRefused, 409, "the object is not in a state that allows this"},
	{"SLUICE-LOAD-LEASE-LOST", KindRefused, 409, "another loader owns the stream by now"},

	// loader: the batch
	{"SLUICE-LOAD-FILE-GONE", KindFailed, 500, "the batch's file does not exist"},
	{"SLUICE-LOAD-FILE-CHANGED", KindFailed, 500, "the batch's file is not the one that was enqueued"},
	{"SLUICE-LOAD-FILE-CORRUPT", KindUnsupported, 422, "the batch's file is not readable Parquet"},
	{"SLUICE-LOAD-FILE-DENIED", KindFailed, 500, "the store refuses to let the batch's file be read"},
	{"SLUICE-LOAD-STORE-AWAY", KindFailed, 503, "the store does not answer"},
	{"SLUICE-LOAD-ROW-COUNT", KindFailed, 500, "the number of rows is not the announced one"},
	{"SLUICE-LOAD-TYPE-CONFLICT", KindFailed, 500, "a column's values do not fit the table's type"},
	{"SLUICE-LOAD-TYPE-UNSUPPORTED", KindUnsupported, 422, "the lake cannot hold a column's type"},
	{"SLUICE-LOAD-COLUMN-CASE", KindFailed, 500, "two columns differ only in case"},
	{"SLUICE-LOAD-COLUMN-RESERVED", KindFailed, 500, "a column name is reserved"},
	{"SLUICE-LOAD-SCHEMA-FROZEN", KindFailed, 500, "the stream's policy allows no schema change"},
	{"SLUICE-LOAD-NO-KEY", KindFailed, 500, "an incremental stream has no primary key"},
	{"SLUICE-LOAD-KEY-MISSING", KindFailed, 500, "a key column is not in the file"},
	{"SLUICE-LOAD-NULL-KEY", KindFailed, 500, "a key column has NULLs"},
	{"SLUICE-LOAD-CDC-OP", KindFailed, 500, "a change row has an unknown operation"},
	{"SLUICE-LOAD-CDC-ORDER", KindFailed, 500, "a change row has no order value"},
	{"SLUICE-LOAD-STATEMENT", KindFailed, 500, "the engine refuses the statement"},

	// loader: the circumstances
	{"SLUICE-LOAD-INTERRUPTED", KindFailed, 500, "the loader died while it applied the batch"},
	{"SLUICE-LOAD-TIMEOUT", KindFailed, 500, "the batch took longer than its limit"},
	{"SLUICE-LOAD-MEMORY", KindFailed, 500, "the engine ran out of memory"},
	{"SLUICE-LOAD-DISK", KindFailed, 500, "a disk is full"},
	{"SLUICE-LOAD-CONNECT", KindFailed, 503, "the warehouse does not answer"},
	{"SLUICE-LOAD-CREDENTIAL", KindFailed, 500, "the warehouse refuses the loader's credential"},
	{"SLUICE-LOAD-DENIED", KindFailed, 500, "the warehouse refuses a statement of the loader"},
	{"SLUICE-LOAD-FENCE-LOST", KindFailed, 409, "another writer moved the stream's fence"},
	{"SLUICE-LOAD-FENCE-AHEAD", KindFailed, 409, "the lake is ahead of the state DB"},
	{"SLUICE-LOAD-UNCLASSIFIED", KindFailed, 500, "an error that no rule names"},

	// lake
	{"SLUICE-LAKE-CONFLICT", KindRefused, 409, "another transaction changed the same table"},
	{"SLUICE-LAKE-LOCKED", KindFailed, 503, "the catalog database is locked"},
	{"SLUICE-LAKE-IN-USE", KindRefused, 409, "another process has the lake's catalog file open"},
	{"SLUICE-LAKE-CATALOG-DOWN", KindFailed, 503, "the lake's catalog server does not answer"},
	{"SLUICE-LAKE-BRICKED", KindFailed, 500, "the lake's catalog is damaged"},
	{"SLUICE-LAKE-DAMAGED", KindFailed, 500, "data files of a committed snapshot are missing"},
	{"SLUICE-LAKE-CONTROL", KindFailed, 500, "the control table of a stream is not as it must be"},
	{"SLUICE-LAKE-UNRESOLVED", KindFailed, 500, "the outcome of a commit cannot be found out"},
	{"SLUICE-LAKE-VERSION", KindRefused, 409, "the lake has a version that this binary does not know"},

	// Delta tables
	{"SLUICE-DELTA-NOT-A-TABLE", KindNotFound, 404, "there is no Delta log at the location"},
	{"SLUICE-DELTA-VERSION-NOT-FOUND", KindNotFound, 404, "the table has no such version"},
	{"SLUICE-DELTA-VERSION-UNAVAILABLE", KindNotFound, 404, "the version can no longer be read"},
	{"SLUICE-DELTA-UNSUPPORTED", KindUnsupported, 422, "the table needs a feature that is not supported"},
	{"SLUICE-DELTA-SCHEMA", KindUnsupported, 422, "the table's schema cannot be read"},
	{"SLUICE-DELTA-RESERVED-COLUMN", KindUnsupported, 422, "a data file has a column whose name the engine keeps for itself"},
	{"SLUICE-DELTA-LOG-GAP", KindFailed, 500, "a commit is missing from the table's log"},
	{"SLUICE-DELTA-LOG-CORRUPT", KindFailed, 500, "the table's log is not as the protocol says"},
	{"SLUICE-DELTA-CHECKPOINT-CORRUPT", KindFailed, 500, "a checkpoint cannot be read and cannot be done without"},
	{"SLUICE-DELTA-CRC-MISMATCH", KindFailed, 500, "the log and its checksum file disagree"},
	{"SLUICE-DELTA-PARTITION-VALUE", KindFailed, 500, "a partition value is missing or is not one of its type"},
	{"SLUICE-DELTA-PATH", KindFailed, 500, "a path in the log leads where it may not"},
	{"SLUICE-DELTA-DV-CORRUPT", KindFailed, 500, "a deletion vector is corrupt"},
	{"SLUICE-DELTA-ROW-COUNT", KindFailed, 500, "the rows read are not as many as planned"},
	{"SLUICE-DELTA-SNAPSHOT-GONE", KindFailed, 500, "files of the version were removed or replaced while it was read"},
	{"SLUICE-DELTA-LIMIT", KindFailed, 500, "something in the table is larger than what is read"},
	{"SLUICE-DELTA-STORE", KindFailed, 503, "the store of the table does not answer or refuses"},
	{"SLUICE-DELTA-TARGET", KindRefused, 409, "the file to be written is there already, or is being written"},

	// backfill, copy and registration
	{"SLUICE-BACKFILL-STATE", KindRefused, 409, "the stream's plan is not in a state that allows this"},
	{"SLUICE-BACKFILL-BUSY", KindRefused, 409, "the swap of the plan is under way"},
	{"SLUICE-BACKFILL-NO-PLAN", KindNotFound, 404, "the stream has no plan"},
	{"SLUICE-BACKFILL-NO-SOURCE", KindUsage, 422, "the stream has no history to load from"},
	{"SLUICE-BACKFILL-NO-TABLE", KindNotFound, 404, "there is no Delta table at the stream's address"},
	{"SLUICE-BACKFILL-COVERAGE", KindRefused, 409, "it cannot be proven which batches the history holds"},
	{"SLUICE-BACKFILL-BEHIND", KindRefused, 409, "the history lacks batches that the table has"},
	{"SLUICE-BACKFILL-SCHEMA", KindUnsupported, 422, "the history's columns cannot become a table"},
	{"SLUICE-BACKFILL-TARGET-CHANGED", KindFailed, 409, "the table is another one than when it was planned"},
	{"SLUICE-BACKFILL-VERIFY", KindFailed, 500, "the staged table is not what was planned"},

	// warehouse
	{"SLUICE-WAREHOUSE-LISTEN", KindFailed, 500, "a port cannot be opened"},
	{"SLUICE-WAREHOUSE-REFUSED", KindRefused, 403, "the statement may not run in a warehouse"},

	// changelogs
	{"SLUICE-CHANGELOG-NOT-FOUND", KindNotFound, 404, "no such changelog"},
	{"SLUICE-CHANGELOG-EXISTS", KindRefused, 409, "the changelog or its table exists already"},
	{"SLUICE-CHANGELOG-INVALID", KindUsage, 422, "the changelog's definition has a mistake"},
	{"SLUICE-CHANGELOG-DECODER", KindUnsupported, 422, "the changelog's decoder is not built"},
	{"SLUICE-CHANGELOG-STATE", KindRefused, 409, "the changelog is not in a state that allows this"},
	{"SLUICE-CHANGELOG-FENCED", KindFailed, 409, "another process owns the slot by now"},
	{"SLUICE-CHANGELOG-CONTROL", KindFailed, 500, "the control table of a slot is not as it must be"},
	{"SLUICE-CHANGELOG-TABLE", KindFailed, 500, "the changelog's table is gone"},
	{"SLUICE-CHANGELOG-TOPIC", KindFailed, 503, "the topic cannot be read"},
	{"SLUICE-CHANGELOG-AUTH", KindFailed, 500, "the brokers refuse the credential"},
	{"SLUICE-CHANGELOG-GAP", KindFailed, 409, "messages are lost: the topic begins behind what the lake needs"},
	{"SLUICE-CHANGELOG-TRUNCATED", KindFailed, 409, "the topic has lost messages that the lake has"},
	{"SLUICE-CHANGELOG-TOPIC-RECREATED", KindFailed, 409, "the topic is another one than before"},
	{"SLUICE-CHANGELOG-POISON-FLOOD", KindFailed, 422, "most messages cannot be rows"},
	{"SLUICE-CHANGELOG-VALUES", KindFailed, 503, "the list of include_values was not taken"},

	// fan-outs
	{"SLUICE-FANOUT-NOT-FOUND", KindNotFound, 404, "no such fan-out or destination"},
	{"SLUICE-FANOUT-EXISTS", KindRefused, 409, "the fan-out exists already"},
	{"SLUICE-FANOUT-INVALID", KindUsage, 422, "the fan-out's definition has a mistake"},
	{"SLUICE-FANOUT-STATE", KindRefused, 409, "the destination is not in a state that allows this"},
	{"SLUICE-FANOUT-GAP", KindFailed, 409, "snapshots of the source expired before they were read"},
	{"SLUICE-FANOUT-SOURCE-RECREATED", KindFailed, 409, "the source table is another one than before"},
	{"SLUICE-FANOUT-NOT-INSERT-ONLY", KindFailed, 409, "rows of a changelog were updated or rewritten"},
	{"SLUICE-FANOUT-FEED", KindFailed, 500, "the source's history cannot be understood"},
	{"SLUICE-FANOUT-TARGET-CHANGED", KindRefused, 409, "discovery names another table for the destination"},
	{"SLUICE-FANOUT-TARGET-SHAPE", KindFailed, 409, "the destination's table does not fit the fan-out's columns"},
	{"SLUICE-FANOUT-PROJECTION", KindUsage, 422, "the fan-out's columns do not fit the source"},
	{"SLUICE-FANOUT-KEY-NOT-UNIQUE", KindFailed, 409, "the destination's table has a key more than once"},
	{"SLUICE-FANOUT-ROUTE-NOT-IN-KEY", KindUsage, 422, "the route column is not among the keys"},
	{"SLUICE-FANOUT-TARGET-MISSING", KindFailed, 409, "the destination's table is gone"},
	{"SLUICE-FANOUT-TARGET-ID", KindFailed, 409, "the destination's table is not the one that was filled"},
	{"SLUICE-FANOUT-AMBIGUOUS", KindRefused, 409, "a team is in two orgs"},
	{"SLUICE-FANOUT-FENCED", KindFailed, 409, "another process writes the destination by now"},
	{"SLUICE-FANOUT-DAMAGED", KindFailed, 500, "data files of the destination are missing"},
	{"SLUICE-FANOUT-CONTROL", KindFailed, 500, "the control table of a destination is not as it must be"},
	{"SLUICE-FANOUT-QUARANTINE-FLOOD", KindFailed, 422, "most rows do not fit the projection"},
	{"SLUICE-FANOUT-DIFFERS", KindFailed, 409, "a destination is not what the source says"},
	{"SLUICE-FANOUT-UNREACHABLE", KindFailed, 503, "the destination's warehouse cannot be written for now"},
	{"SLUICE-FANOUT-CREDENTIAL", KindFailed, 503, "the destination's warehouse refuses the credential"},

	// demo
	{"SLUICE-DEMO-MISMATCH", KindFailed, 500, "the demo's result is not the right answer"},
}

// Info looks a code up. An unknown code is SLUICE-INTERNAL's row, so a caller always gets a kind.
func Info(c Code) CodeInfo {
	for _, i := range Codes {
		if i.Code == c {
			return i
		}
	}
	return CodeInfo{c, KindFailed, 500, "unknown code"}
}

// ExitCode maps an error to the process's exit code: 0 ok, 1 failure, 2 usage, 3 not found, 4 refused, 5 input not
// supported.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	switch Info(CodeOf(err)).Kind {
	case KindUsage:
		return 2
	case KindNotFound:
		return 3
	case KindRefused:
		return 4
	case KindUnsupported:
		return 5
	case KindFailed:
	}
	return 1
}
