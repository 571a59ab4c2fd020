package wire

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/sluice"
	"sluice/internal/warehouse/auth"
	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/sqlstate"
)

// fatal reports whether an error ends the session.
func fatal(err error) bool {
	return errors.Is(err, errClient) || errors.Is(err, errGone) || errors.Is(err, errOver) || errors.Is(err, errShutdown) || errors.Is(err, errRetired)
}

// engineError is what every error of the engine passes: the owner of the instance is told, secrets are cut out, and an
// interrupt becomes the reason for it.
func (s *Session) engineError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var e *duck.Error
	if errors.As(err, &e) && e.Type == duck.ErrorInterrupt && ctx.Err() != nil {
		if s.life.Err() != nil {
			return s.death()
		}
		return context.Cause(ctx)
	}
	return s.conn.Check(err)
}

// fail sends an error of a statement, and ends the transaction that it happened in.
func (s *Session) fail(ctx context.Context, err error) error {
	s.abort(ctx)
	e := sqlstate.From(err)
	s.log.Debug("statement failed", "sqlstate", e.Code)
	return s.io.send(errorResponse("ERROR", e))
}

func errorResponse(severity string, e *sqlstate.Error) *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{
		Severity: severity, SeverityUnlocalized: severity, Code: e.Code, Message: e.Message, Detail: e.Detail, Hint: e.Hint,
		Position: int32(e.Position), Where: e.Where,
	}
}

// warn sends something that is not an error.
func (s *Session) warn(code, message string) error {
	return s.io.send(&pgproto3.NoticeResponse{Severity: "WARNING", SeverityUnlocalized: "WARNING", Code: code, Message: message})
}

// connectError tells a client why its warehouse cannot be reached; all but an unknown org may pass.
func connectError(who auth.Principal, err error) error {
	switch sluice.CodeOf(err) {
	case "SLUICE-NOT-FOUND", "SLUICE-CONTROL-NO-ORG":
		return sqlstate.New(sqlstate.InvalidCatalogName, "database %q does not exist", who.Org)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return sqlstate.New(sqlstate.CannotConnectNow, "the warehouse of %s did not open in time", who.Org)
	}
	return sqlstate.New(sqlstate.CannotConnectNow, "%s", sqlstate.Scrub(err.Error())).WithHint(sluice.HintOf(err))
}
