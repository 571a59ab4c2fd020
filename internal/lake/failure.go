package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"sluice/internal/sluice"
)

// Phase is where in the work on a batch an error came up.
type Phase string

// The phases.
const (
	PhaseConnect  Phase = "connect"
	PhaseControl  Phase = "control"  // reading or making the control table
	PhaseDescribe Phase = "describe" // looking at the file and the target
	PhasePlan     Phase = "plan"
	PhaseData     Phase = "data" // inside the writing transaction, before COMMIT
	PhaseCommit   Phase = "commit"
	PhaseResolve  Phase = "resolve"
	PhaseVerify   Phase = "verify" // looking at the rows of a table before it goes live
)

// Class says what an error means for the batch (spec/loader.md §8).
type Class string

// The classes.
const (
	Permanent  Class = "permanent"   // quarantined at once
	Counted    Class = "counted"     // uses one of the attempts
	Deferred   Class = "deferred"    // a cause outside the batch: waits, uses no attempt
	Conflict   Class = "conflict"    // redo the whole transaction in place
	SecondLook Class = "second_look" // permanent when it comes again after a while
	Reread     Class = "reread"      // permanent when it comes again at once
	NotOurs    Class = "not_ours"    // the stream is somebody else's: drop the work, write nothing
)

// Failure is an error with everything that the loader has to know about it. Outcome says whether the write it belongs to
// is stored.
type Failure struct {
	Phase   Phase
	Class   Class
	Outcome sluice.Outcome
	Err     *sluice.Error
}

// Error renders the person's error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives the person's error.
func (f *Failure) Unwrap() error { return f.Err }

// Fail makes a failure that this program itself has found, before anything was written.
func Fail(phase Phase, class Class, err *sluice.Error) *Failure {
	return &Failure{Phase: phase, Class: class, Outcome: sluice.NotDone, Err: err}
}

// AsFailure gives the failure in err's chain; an error that is none is classified as of the phase.
func AsFailure(err error, phase Phase, doing string) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return classify(err, phase, doing)
}

// Retryable reports whether the same work may simply be done again.
func Retryable(err error) bool {
	var f *Failure
	return errors.As(err, &f) && (f.Class == Deferred || f.Class == Conflict)
}

// OutcomeUnknown reports whether the write may or may not be stored.
func OutcomeUnknown(err error) bool {
	var f *Failure
	return errors.As(err, &f) && f.Outcome == sluice.Unknown
}

// rule is one row of the classification: the first row that fits decides.
type rule struct {
	phases []Phase  // empty: any
	states []string // SQLSTATEs, or prefixes ending in *; empty: any
	text   []string // all of these must be in the message; the engine often gives nothing but text
	class  Class
	code   sluice.Code
	what   string // empty: the message
	hint   string
}

// rules is the whole classification, SQLSTATE and phase first, text only where the engine gives no code
// (spec/loader.md §8, spec/lake.md §12). Errors of COMMIT never come here for their outcome: they are Unknown.
var rules = []rule{
	// the connection
	{
		phases: []Phase{PhaseConnect}, states: []string{"28000", "28P01"}, class: Deferred, code: "SLUICE-LOAD-CREDENTIAL",
		hint: "a new credential is issued by itself; if it stays, compare the clocks and the state DB of loader and warehouse",
	},
	{
		phases: []Phase{PhaseConnect}, states: []string{"3D000"}, class: Deferred, code: "SLUICE-LOAD-CONNECT",
		what: "the warehouse does not know the org's database", hint: "see `sluice org show ORG`: it may not be provisioned yet",
	},
	{states: []string{"57P03", "53300", "57P01", "57P02", "08*"}, class: Deferred, code: "SLUICE-LOAD-CONNECT", hint: "it is tried again by itself; see `sluice doctor`"},

	// conflicts between writers
	{states: []string{"40001"}, class: Conflict, code: "SLUICE-LAKE-CONFLICT", hint: "it is redone by itself"},
	{text: []string{"Transaction conflict"}, class: Conflict, code: "SLUICE-LAKE-CONFLICT", hint: "it is redone by itself"},
	{text: []string{"Exceeded the maximum retry count"}, class: Conflict, code: "SLUICE-LAKE-CONFLICT", hint: "it is redone by itself"},

	// the batch's rows
	{
		text: []string{nullKey}, class: Permanent, code: "SLUICE-LOAD-NULL-KEY", what: "a row has NULL in a key column",
		hint: "mend the extract, or let NULL equal NULL with null_keys = match",
	},

	// the batch's file
	{
		text: []string{"No files found that match"}, class: SecondLook, code: "SLUICE-LOAD-FILE-GONE",
		what: "the file does not exist", hint: "put the file back and run `sluice quarantine retry`, or discard the batch",
	},
	{
		text: []string{"HTTP 404"}, class: SecondLook, code: "SLUICE-LOAD-FILE-GONE",
		what: "the store has no such object", hint: "put the object back and run `sluice quarantine retry`, or discard the batch",
	},
	{text: []string{"HTTP 403"}, class: Counted, code: "SLUICE-LOAD-FILE-DENIED", hint: "give the warehouse's credential the right to read this object"},
	{text: []string{"HTTP 412"}, class: Permanent, code: "SLUICE-LOAD-FILE-CHANGED", hint: "a file must not change after it is enqueued: enqueue the new content as a new run"},
	{
		text: []string{"ETag on reading file"}, class: Permanent, code: "SLUICE-LOAD-FILE-CHANGED",
		what: "the object was replaced while it was read", hint: "a file must not change after it is enqueued: enqueue the new content as a new run",
	},
	{text: []string{"Transferred a partial file"}, class: Deferred, code: "SLUICE-LOAD-STORE-AWAY", what: "the store broke off in the middle of the object", hint: "it is tried again by itself"},
	{text: []string{"HTTP 5"}, class: Deferred, code: "SLUICE-LOAD-STORE-AWAY", hint: "it is tried again by itself"},
	{text: []string{"HTTP 429"}, class: Deferred, code: "SLUICE-LOAD-STORE-AWAY", hint: "it is tried again by itself"},
	{text: []string{"error for HTTP "}, class: Deferred, code: "SLUICE-LOAD-STORE-AWAY", hint: "it is tried again by itself"},
	{text: []string{"No magic bytes found"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", hint: corruptHint},
	{text: []string{"too small to be a Parquet file"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", hint: corruptHint},
	{text: []string{"Failed to read file"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", hint: corruptHint},
	{text: []string{"Failed to read Parquet file"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", hint: corruptHint},
	{text: []string{"Parquet", "Corrupt"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", hint: corruptHint},
	{text: []string{"TProtocolException"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", hint: corruptHint},
	{text: []string{"Footer length error"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", hint: corruptHint},
	{text: []string{"don't know what type"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", what: damaged, hint: corruptHint},
	{text: []string{"Corrupted file?"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", hint: corruptHint},
	{text: []string{"Failed to decompress"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", hint: corruptHint},
	{text: []string{"unsupported GZIP stream"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", hint: corruptHint},
	{text: []string{"Out of buffer"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", what: damaged, hint: corruptHint},
	{text: []string{"Invalid string encoding found in Parquet file"}, class: Reread, code: "SLUICE-LOAD-FILE-CORRUPT", hint: corruptHint},

	// the lake
	{text: []string{"Cannot open file", ".parquet"}, class: Permanent, code: "SLUICE-LAKE-DAMAGED", hint: "data files of the lake are missing: see SLUICE-LAKE-DAMAGED in docs/errors.md"},
	{text: []string{"Unable to connect to Postgres"}, class: Deferred, code: "SLUICE-LAKE-CATALOG-DOWN", hint: "it is tried again by itself; look at the catalog's PostgreSQL server"},
	{text: []string{"database is locked"}, class: Deferred, code: "SLUICE-LAKE-LOCKED", hint: "it is tried again by itself"},
	{states: []string{"55P03"}, class: Deferred, code: "SLUICE-LAKE-LOCKED", hint: "it is tried again by itself"},
	{text: []string{"Conflicting lock is held"}, class: Deferred, code: "SLUICE-LAKE-IN-USE", hint: "another process has the lake open: a DuckDB-file catalog has one process"},
	{text: []string{"already exists", "Column with name"}, class: Permanent, code: "SLUICE-LAKE-BRICKED", hint: "restore the catalog from a backup"},

	// resources
	{states: []string{"53200"}, class: Counted, code: "SLUICE-LOAD-MEMORY", hint: "raise warehouse.memory_limit, or make the batches smaller"},
	{text: []string{"Out of Memory"}, class: Counted, code: "SLUICE-LOAD-MEMORY", hint: "raise warehouse.memory_limit, or make the batches smaller"},
	{states: []string{"53100"}, class: Deferred, code: "SLUICE-LOAD-DISK", hint: "free space on the warehouse's disk; it is tried again by itself"},
	{text: []string{"No space left on device"}, class: Deferred, code: "SLUICE-LOAD-DISK", hint: "free space on the warehouse's disk; it is tried again by itself"},
	{states: []string{"57014"}, class: Counted, code: "SLUICE-LOAD-TIMEOUT", hint: "raise loader.batch_timeout, or make the batches smaller"},

	// the values and the statement
	{
		states: []string{"22P02", "22003", "22007", "22008", "22012", "42804"}, class: Permanent, code: "SLUICE-LOAD-TYPE-CONFLICT",
		hint: "mend the extract and enqueue it as a new run, or rebuild the table with a new full refresh",
	},
	{
		text: []string{"Conversion Error"}, class: Permanent, code: "SLUICE-LOAD-TYPE-CONFLICT",
		hint: "mend the extract and enqueue it as a new run, or rebuild the table with a new full refresh",
	},
	{states: []string{"42501"}, class: Deferred, code: "SLUICE-LOAD-DENIED", hint: "the warehouse's configuration keeps the loader out: see its log"},
	{states: []string{"0A000", "42601", "42703", "42P01", "42883", "3F000"}, class: Permanent, code: "SLUICE-LOAD-STATEMENT", hint: "this is a bug, or something the engine does not support: the statement is in the log"},
	{states: []string{"25P02"}, class: Counted, code: "SLUICE-LOAD-UNCLASSIFIED", what: "a statement was sent in a failed transaction", hint: "this is a bug: please report it"},
}

// damaged takes the place of messages that say nothing to anybody.
const damaged = "a page or the footer of the file is damaged"

const corruptHint = "write the file again under a new path and enqueue it as a new run, or discard the batch"

// classify turns any error of the wire into a failure. Errors of the COMMIT phase are Unknown whatever their text says.
func classify(err error, phase Phase, doing string) *Failure {
	outcome := sluice.NotDone
	if phase == PhaseCommit {
		outcome = sluice.Unknown
	}
	state, msg := "", err.Error()
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		state, msg = pe.Code, pe.Message
		if pe.Detail != "" {
			msg += ": " + pe.Detail
		}
	}
	if pe == nil {
		if f := classifyTransport(err, phase, doing, outcome); f != nil {
			return f
		}
	}
	for _, r := range rules {
		if r.fits(phase, state, msg) {
			what := r.what
			if what == "" {
				what = firstLine(msg)
			}
			return &Failure{phase, r.class, outcome, sluice.E(r.code, doing, what, r.hint, err)}
		}
	}
	return &Failure{phase, Counted, outcome, sluice.E("SLUICE-LOAD-UNCLASSIFIED", doing, firstLine(msg),
		"the log has the whole error; it is tried again a few times", err)}
}

// classifyTransport handles what never reached the server or never came back.
func classifyTransport(err error, phase Phase, doing string, outcome sluice.Outcome) *Failure {
	var ne net.Error
	var ce *pgconn.ConnectError
	switch {
	case errors.Is(err, context.DeadlineExceeded) && phase != PhaseConnect:
		return &Failure{phase, Counted, outcome, sluice.E("SLUICE-LOAD-TIMEOUT", doing, "it took longer than its limit",
			"raise loader.batch_timeout, or make the batches smaller", err)}
	case errors.Is(err, context.Canceled), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed), errors.As(err, &ne), errors.As(err, &ce), pgconn.Timeout(err),
		strings.Contains(err.Error(), "conn closed"), strings.Contains(err.Error(), "unexpected EOF"):
		return &Failure{phase, Deferred, outcome, sluice.E("SLUICE-LOAD-CONNECT", doing, firstLine(err.Error()),
			"it is tried again by itself; see `sluice doctor`", err)}
	}
	return nil
}

func (r rule) fits(phase Phase, state, msg string) bool {
	if len(r.phases) > 0 {
		ok := false
		for _, p := range r.phases {
			ok = ok || p == phase
		}
		if !ok {
			return false
		}
	}
	if len(r.states) > 0 {
		ok := false
		for _, s := range r.states {
			ok = ok || state == s || (strings.HasSuffix(s, "*") && state != "" && strings.HasPrefix(state, s[:len(s)-1]))
		}
		if !ok {
			return false
		}
	}
	for _, t := range r.text {
		if !strings.Contains(msg, t) {
			return false
		}
	}
	return len(r.states) > 0 || len(r.text) > 0
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if len(s) > 500 {
		s = s[:500] + "…"
	}
	return s
}

func internalFailure(phase Phase, format string, a ...any) *Failure {
	return Fail(phase, Permanent, sluice.E("SLUICE-LAKE-CONTROL", "", fmt.Sprintf(format, a...),
		"write nothing by hand; see docs/errors.md", nil))
}
