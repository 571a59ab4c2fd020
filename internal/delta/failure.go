package delta

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/delta/action"
	"sluice/internal/delta/dv"
	"sluice/internal/delta/schema"
	"sluice/internal/delta/segment"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
)

// The codes of this package and of those below it. docs/errors.md says what each means.
const (
	CodeNotATable      = segment.CodeNoTable
	CodeNotFound       = segment.CodeNotFound
	CodeUnavailable    = segment.CodeUnavailable
	CodeLogGap         = segment.CodeGap
	CodeCheckpoint     = segment.CodeCheckpoint
	CodeLogCorrupt     = action.CodeLogCorrupt
	CodeLimit          = action.CodeLimit
	CodeUnsupported    = action.CodeUnsupported
	CodeSchema         = schema.Code
	CodePartitionValue = schema.CodeValue
	CodeDVCorrupt      = dv.Code

	CodeReserved     sluice.Code = "SLUICE-DELTA-RESERVED-COLUMN"
	CodeCRC          sluice.Code = "SLUICE-DELTA-CRC-MISMATCH"
	CodePath         sluice.Code = "SLUICE-DELTA-PATH"
	CodeRowCount     sluice.Code = "SLUICE-DELTA-ROW-COUNT"
	CodeSnapshotGone sluice.Code = "SLUICE-DELTA-SNAPSHOT-GONE"
	CodeStore        sluice.Code = "SLUICE-DELTA-STORE"
)

// Gone reports whether a snapshot can no longer be read, because files of it were removed or replaced: the caller plans
// anew at a newer version.
func Gone(err error) bool { return sluice.CodeOf(err) == CodeSnapshotGone }

// Retryable reports whether the same call may succeed later.
func Retryable(err error) bool {
	return sluice.CodeOf(err) == CodeStore && !errors.Is(err, objstore.ErrDenied)
}

// during says what was being done when an error came up, and gives errors of the store their code.
func during(err error, format string, args ...any) error {
	if err == nil || errors.Is(err, errStop) {
		return err
	}
	doing := fmt.Sprintf(format, args...)
	var own *sluice.Error
	if errors.As(err, &own) {
		if own.Doing != "" {
			return err
		}
		copied := *own
		copied.Doing = doing
		return &copied
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	hint := "try again; if it stays, look at the store"
	if errors.Is(err, objstore.ErrDenied) {
		hint = "give the credentials the right that is named"
	}
	return sluice.E(CodeStore, doing, err.Error(), hint, err)
}

// gone makes the error of a snapshot that has lost a file.
func gone(version int64, what string, cause error) error {
	return sluice.E(CodeSnapshotGone, "", fmt.Sprintf("version %d can no longer be read: %s", version, what),
		"plan anew at a newer version; if it happens again, the table's vacuum retention is too short for this load", cause)
}

// lost reports whether an error of the store says that an object is no longer what it was.
func lost(err error) bool {
	return errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrPrecondition)
}

// errStop ends a walk because its caller has enough.
var errStop = errors.New("enough")
