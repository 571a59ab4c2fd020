package sqlstate

import "sluice/internal/warehouse/duck"

// row maps an engine error to an SQLSTATE: its class must be kind (0: any), its text must hold text ("": any). The first
// row that fits wins, so a class's special cases stand before its general one.
type row struct {
	kind duck.ErrorType
	text string
	code string
}

var table = []row{
	{duck.ErrorInterrupt, "", QueryCanceled},
	{duck.ErrorMemory, "max_temp_directory_size", DiskFull},
	{duck.ErrorMemory, "", OutOfMemory},
	{duck.ErrorFatal, "", InternalError},
	{duck.ErrorInternal, "", InternalError},

	// DuckLake reports a lost race as a failed COMMIT, whose class differs from build to build.
	{0, "Transaction conflict", SerializationFailure},
	{0, "Exceeded the maximum retry count", SerializationFailure},
	{duck.ErrorTransaction, "Current transaction is aborted", InFailedTransaction},
	{duck.ErrorTransaction, "no transaction is active", NoActiveTransaction},
	{duck.ErrorTransaction, "within a transaction", ActiveTransaction},
	{duck.ErrorTransaction, "read-only", ReadOnlyTransaction},
	{duck.ErrorTransaction, "onflict", SerializationFailure},

	{0, "database is locked", LockNotAvailable},
	{0, "Unable to connect to Postgres", CannotConnectNow},
	{0, "No space left on device", DiskFull},
	{duck.ErrorIO, "temp directory", DiskFull},
	{duck.ErrorPermission, "", InsufficientPrivilege},
	{duck.ErrorIO, "No files found that match the pattern", UndefinedFile},
	{duck.ErrorIO, "No such file or directory", UndefinedFile},
	{duck.ErrorHTTP, "404", UndefinedFile},
	{duck.ErrorHTTP, "403", IOError},
	{duck.ErrorHTTP, "", IOError},
	{duck.ErrorNetwork, "", IOError},
	{duck.ErrorConnection, "", IOError},
	{duck.ErrorIO, "Extension \"", UndefinedFile},
	{duck.ErrorIO, "", IOError},

	{duck.ErrorParser, "", SyntaxError},
	{duck.ErrorSyntax, "", SyntaxError},

	{duck.ErrorCatalog, "unrecognized configuration parameter", UndefinedObject},
	{duck.ErrorCatalog, "Table with name", tableCode},
	{duck.ErrorCatalog, "View with name", tableCode},
	{duck.ErrorCatalog, "Index with name", tableCode},
	{duck.ErrorCatalog, "Sequence with name", tableCode},
	{duck.ErrorCatalog, "Function with name", functionCode},
	{duck.ErrorCatalog, "Type with name", typeCode},
	{duck.ErrorCatalog, "Schema with name", schemaCode},
	{duck.ErrorBinder, "Schema with name", schemaCode},
	{duck.ErrorBinder, "Catalog \"", InvalidCatalogName},
	{duck.ErrorCatalog, "Column with name", DuplicateColumn},
	{duck.ErrorCatalog, "already exists", DuplicateObject},
	{duck.ErrorCatalog, "does not exist", UndefinedObject},
	{duck.ErrorCatalog, "is an internal system entry", InsufficientPrivilege},
	{duck.ErrorCatalog, "", UndefinedObject},
	{duck.ErrorDependency, "", DependentObjects},

	{duck.ErrorBinder, "Cannot mix", SyntaxError},
	{duck.ErrorBinder, "Ambiguous reference", AmbiguousColumn},
	{duck.ErrorBinder, "No function matches", UndefinedFunction},
	{duck.ErrorBinder, "must appear in the GROUP BY clause", GroupingError},
	{duck.ErrorBinder, "aggregate", GroupingError},
	{duck.ErrorBinder, "read-only", ReadOnlyTransaction},
	{duck.ErrorBinder, "Referenced table", UndefinedTable},
	{duck.ErrorBinder, "Referenced column", UndefinedColumn},
	{duck.ErrorBinder, "Referenced update column", UndefinedColumn},
	{duck.ErrorBinder, "does not have a column", UndefinedColumn},
	{duck.ErrorBinder, "does not contain column", UndefinedColumn},
	{duck.ErrorBinder, "Values list", UndefinedColumn},
	{duck.ErrorBinder, "Column with name", DuplicateColumn},
	{duck.ErrorBinder, "LIMIT/OFFSET cannot be negative", InvalidRowCount},
	{duck.ErrorBinder, "Cannot compare values of type", DatatypeMismatch},
	{duck.ErrorBinder, "an explicit cast is required", DatatypeMismatch},
	{duck.ErrorBinder, "Unexpected prepared parameter", FeatureNotSupported},
	{duck.ErrorBinder, "not supported", FeatureNotSupported},
	{duck.ErrorBinder, "Prepared statement", InvalidStatementName},
	{duck.ErrorBinder, "", SyntaxErrorOrAccess},

	{duck.ErrorConversion, "date field value out of range", DatetimeOverflow},
	{duck.ErrorConversion, "timestamp field value out of range", DatetimeOverflow},
	{duck.ErrorConversion, "Date out of range", DatetimeOverflow},
	{duck.ErrorConversion, "invalid date field format", InvalidDatetime},
	{duck.ErrorConversion, "invalid timestamp field format", InvalidDatetime},
	{duck.ErrorConversion, "time field value out of range", DatetimeOverflow},
	{duck.ErrorConversion, "interval", InvalidDatetime},
	{duck.ErrorConversion, "extract specifier", InvalidDatetime},
	{duck.ErrorConversion, "out of range for the destination type", NumericOutOfRange},
	{duck.ErrorConversion, "", InvalidTextRepresentation},
	{duck.ErrorOutOfRange, "date", DatetimeOverflow},
	{duck.ErrorOutOfRange, "timestamp", DatetimeOverflow},
	{duck.ErrorOutOfRange, "negative number", InvalidArgument},
	{duck.ErrorOutOfRange, "", NumericOutOfRange},
	{duck.ErrorDivide, "", DivisionByZero},
	{duck.ErrorMismatch, "", DatatypeMismatch},
	{duck.ErrorInvalidType, "", DatatypeMismatch},

	{duck.ErrorConstraint, "NOT NULL", NotNullViolation},
	{duck.ErrorConstraint, "UNIQUE", UniqueViolation},
	{duck.ErrorConstraint, "duplicate key", UniqueViolation},
	{duck.ErrorConstraint, "CHECK", CheckViolation},
	{duck.ErrorConstraint, "foreign key", ForeignKeyViolation},
	{duck.ErrorConstraint, "", IntegrityViolation},

	{duck.ErrorNotImpl, "", FeatureNotSupported},
	{duck.ErrorMissingExt, "", FeatureNotSupported},
	{duck.ErrorAutoload, "", FeatureNotSupported},
	{duck.ErrorParamResolve, "", IndeterminateType},
	{duck.ErrorParamAllowed, "", InvalidParameter},
	{duck.ErrorConfig, "", InvalidParameter},
	{duck.ErrorSettings, "", InvalidParameter},
	{duck.ErrorInvalidInput, "More than one row returned by a subquery", CardinalityViolation},
	{duck.ErrorInvalidInput, "Cannot prepare multiple statements", SyntaxError},
	{duck.ErrorInvalidInput, "read-only", ReadOnlyTransaction},
	{duck.ErrorInvalidInput, "Cannot open file", IOError},
	{duck.ErrorInvalidInput, "", InvalidParameter},
	{duck.ErrorObjectSize, "", ProgramLimit},
	{duck.ErrorSequence, "", ObjectNotReady},
	{duck.ErrorSerialization, "", IOError},
}

// Codes that depend on whether the object is missing or there already.
const (
	tableCode    = "table"
	functionCode = "function"
	typeCode     = "type"
	schemaCode   = "schema"
)

var existence = map[string]struct{ missing, duplicate string }{
	tableCode:    {UndefinedTable, DuplicateTable},
	functionCode: {UndefinedFunction, DuplicateFunction},
	typeCode:     {UndefinedObject, DuplicateObject},
	schemaCode:   {InvalidSchemaName, DuplicateSchema},
}
