package duck

import (
	"context"
	"strings"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// ErrorType is the engine's own classification of an error.
type ErrorType = bindings.ErrorType

// The error types that callers tell apart.
const (
	ErrorInvalid       = bindings.ErrorTypeInvalid
	ErrorOutOfRange    = bindings.ErrorTypeOutOfRange
	ErrorConversion    = bindings.ErrorTypeConversion
	ErrorMismatch      = bindings.ErrorTypeMismatchType
	ErrorDivide        = bindings.ErrorTypeDivideByZero
	ErrorObjectSize    = bindings.ErrorTypeObjectSize
	ErrorInvalidType   = bindings.ErrorTypeInvalidType
	ErrorSerialization = bindings.ErrorTypeSerialization
	ErrorTransaction   = bindings.ErrorTypeTransaction
	ErrorNotImpl       = bindings.ErrorTypeNotImplemented
	ErrorExpression    = bindings.ErrorTypeExpression
	ErrorCatalog       = bindings.ErrorTypeCatalog
	ErrorParser        = bindings.ErrorTypeParser
	ErrorConstraint    = bindings.ErrorTypeConstraint
	ErrorConnection    = bindings.ErrorTypeConnection
	ErrorSyntax        = bindings.ErrorTypeSyntax
	ErrorSettings      = bindings.ErrorTypeSettings
	ErrorBinder        = bindings.ErrorTypeBinder
	ErrorNetwork       = bindings.ErrorTypeNetwork
	ErrorIO            = bindings.ErrorTypeErrorIO
	ErrorInterrupt     = bindings.ErrorTypeInterrupt
	ErrorFatal         = bindings.ErrorTypeFatal
	ErrorInternal      = bindings.ErrorTypeInternal
	ErrorInvalidInput  = bindings.ErrorTypeInvalidInput
	ErrorMemory        = bindings.ErrorTypeOutOfMemory
	ErrorPermission    = bindings.ErrorTypePermission
	ErrorParamResolve  = bindings.ErrorTypeParameterNotResolved
	ErrorParamAllowed  = bindings.ErrorTypeParameterNotAllowed
	ErrorDependency    = bindings.ErrorTypeDependency
	ErrorHTTP          = bindings.ErrorTypeHTTP
	ErrorMissingExt    = bindings.ErrorTypeMissingExtension
	ErrorAutoload      = bindings.ErrorTypeAutoload
	ErrorSequence      = bindings.ErrorTypeSequence
	ErrorConfig        = bindings.ErrorTypeInvalidConfiguration
)

// Error is an error of the engine: its class, and its text as the engine gave it.
type Error struct {
	Type ErrorType
	Msg  string
}

// Error gives the engine's text.
func (e *Error) Error() string { return e.Msg }

// Fatal reports whether the instance cannot be used any more.
func (e *Error) Fatal() bool { return e.Type == ErrorFatal || e.Type == ErrorInternal }

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
	return &Error{Type: bindings.ResultErrorType(r), Msg: bindings.ResultError(r)}
}

// interrupted is the error of a call that was not begun because ctx is over.
func interrupted(context.Context) *Error {
	return &Error{Type: ErrorInterrupt, Msg: "INTERRUPT Error: Interrupted!"}
}
