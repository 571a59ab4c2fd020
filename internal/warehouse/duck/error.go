package duck

import (
	"context"
	"strings"

	bindings "github.com/duckdb/duckdb-go-bindings"
	driver "github.com/duckdb/duckdb-go/v2"
)

// ErrorType is the engine's own classification of an error.
type ErrorType = driver.ErrorType

// The error types that callers tell apart.
const (
	ErrorInvalid       = driver.ErrorTypeInvalid
	ErrorOutOfRange    = driver.ErrorTypeOutOfRange
	ErrorConversion    = driver.ErrorTypeConversion
	ErrorMismatch      = driver.ErrorTypeMismatchType
	ErrorDivide        = driver.ErrorTypeDivideByZero
	ErrorObjectSize    = driver.ErrorTypeObjectSize
	ErrorInvalidType   = driver.ErrorTypeInvalidType
	ErrorSerialization = driver.ErrorTypeSerialization
	ErrorTransaction   = driver.ErrorTypeTransaction
	ErrorNotImpl       = driver.ErrorTypeNotImplemented
	ErrorExpression    = driver.ErrorTypeExpression
	ErrorCatalog       = driver.ErrorTypeCatalog
	ErrorParser        = driver.ErrorTypeParser
	ErrorConstraint    = driver.ErrorTypeConstraint
	ErrorConnection    = driver.ErrorTypeConnection
	ErrorSyntax        = driver.ErrorTypeSyntax
	ErrorSettings      = driver.ErrorTypeSettings
	ErrorBinder        = driver.ErrorTypeBinder
	ErrorNetwork       = driver.ErrorTypeNetwork
	ErrorIO            = driver.ErrorTypeIO
	ErrorInterrupt     = driver.ErrorTypeInterrupt
	ErrorFatal         = driver.ErrorTypeFatal
	ErrorInternal      = driver.ErrorTypeInternal
	ErrorInvalidInput  = driver.ErrorTypeInvalidInput
	ErrorMemory        = driver.ErrorTypeOutOfMemory
	ErrorPermission    = driver.ErrorTypePermission
	ErrorParamResolve  = driver.ErrorTypeParameterNotResolved
	ErrorParamAllowed  = driver.ErrorTypeParameterNotAllowed
	ErrorDependency    = driver.ErrorTypeDependency
	ErrorHTTP          = driver.ErrorTypeHTTP
	ErrorMissingExt    = driver.ErrorTypeMissingExtension
	ErrorAutoload      = driver.ErrorTypeAutoLoad
	ErrorSequence      = driver.ErrorTypeSequence
	ErrorConfig        = driver.ErrorTypeInvalidConfiguration
)

// Error is an error of the engine: its class, and its text as the engine gave it. It is the driver's type, so that the
// owner of the connection recognises it.
type Error = driver.Error

// Fatal reports whether the engine says that its instance cannot be used any more.
func Fatal(e *Error) bool { return e.Type == ErrorFatal || e.Type == ErrorInternal }

// prefixes are the engine's names of its error types. A text always starts with the one that the engine put there: what
// a user writes into error('…') comes after it.
var prefixes = map[string]ErrorType{
	"Out of Range Error":           ErrorOutOfRange,
	"Conversion Error":             ErrorConversion,
	"Mismatch Type Error":          ErrorMismatch,
	"Divide by Zero Error":         ErrorDivide,
	"Object Size Error":            ErrorObjectSize,
	"Invalid type Error":           ErrorInvalidType,
	"Serialization Error":          ErrorSerialization,
	"TransactionContext Error":     ErrorTransaction,
	"Not implemented Error":        ErrorNotImpl,
	"Expression Error":             ErrorExpression,
	"Catalog Error":                ErrorCatalog,
	"Parser Error":                 ErrorParser,
	"Constraint Error":             ErrorConstraint,
	"Connection Error":             ErrorConnection,
	"Syntax Error":                 ErrorSyntax,
	"Settings Error":               ErrorSettings,
	"Binder Error":                 ErrorBinder,
	"Network Error":                ErrorNetwork,
	"IO Error":                     ErrorIO,
	"INTERRUPT Error":              ErrorInterrupt,
	"FATAL Error":                  ErrorFatal,
	"INTERNAL Error":               ErrorInternal,
	"Invalid Input Error":          ErrorInvalidInput,
	"Out of Memory Error":          ErrorMemory,
	"Permission Error":             ErrorPermission,
	"Parameter Not Resolved Error": ErrorParamResolve,
	"Parameter Not Allowed Error":  ErrorParamAllowed,
	"Dependency Error":             ErrorDependency,
	"HTTP Error":                   ErrorHTTP,
	"Missing Extension Error":      ErrorMissingExt,
	"Extension Autoloading Error":  ErrorAutoload,
	"Sequence Error":               ErrorSequence,
	"Invalid Configuration Error":  ErrorConfig,
}

// errorFromText is for the calls of the C interface that give a text only.
func errorFromText(msg string) *Error {
	prefix, _, _ := strings.Cut(msg, ": ")
	return &Error{Type: prefixes[prefix], Msg: msg}
}

func errorFromResult(r *bindings.Result) *Error {
	return &Error{Type: ErrorType(bindings.ResultErrorType(r)), Msg: bindings.ResultError(r)}
}

// interrupted is the error of a call that was not begun because ctx is over.
func interrupted(context.Context) *Error {
	return &Error{Type: ErrorInterrupt, Msg: "INTERRUPT Error: Interrupted!"}
}
