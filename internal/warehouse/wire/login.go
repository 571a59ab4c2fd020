package wire

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/sluice"
	"sluice/internal/warehouse/auth"
	"sluice/internal/warehouse/sqlstate"
)

var orgName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// maxSASL bounds a message of a login: no honest one comes near.
const maxSASL = 4096

// login finds out who the client is. On return the principal is known, or the error is what the client gets.
func (s *Session) login(ctx context.Context, params map[string]string) (auth.Principal, error) {
	user, db := params["user"], params["database"]
	if user == "" {
		return auth.Principal{}, sqlstate.New(sqlstate.InvalidAuthorization, "no PostgreSQL user name specified in startup packet")
	}
	if db == "" {
		db = user
	}
	if params["replication"] != "" && params["replication"] != "false" && params["replication"] != "off" && params["replication"] != "0" {
		return auth.Principal{}, sqlstate.New(sqlstate.FeatureNotSupported, "replication connections are not supported")
	}
	org := sluice.Org(db)
	if s.trusted(user) {
		if !orgName.MatchString(db) {
			return auth.Principal{}, sqlstate.New(sqlstate.InvalidCatalogName, "database %q does not exist", db)
		}
		return auth.Principal{Org: org, Name: user, Role: auth.Owner}, s.io.send(&pgproto3.AuthenticationOk{})
	}
	from := s.nc.RemoteAddr().String()
	if s.cfg.Bans != nil && s.cfg.Bans.Banned(from) > 0 {
		return auth.Principal{}, sqlstate.New(sqlstate.InvalidAuthorization, "too many logins from this address have failed").WithHint("wait some minutes, and check the password")
	}
	account, err := auth.Account{}, auth.ErrNoUser
	if orgName.MatchString(db) {
		account, err = s.cfg.Auth.Lookup(ctx, org, user)
	}
	notReady := errors.Is(err, auth.ErrNotReady)
	var exchange *auth.Exchange
	switch {
	case err == nil, notReady && account.Verifier != "":
		if exchange, err = s.cfg.Secret.Begin(account); err != nil {
			return auth.Principal{}, err
		}
	case errors.Is(err, auth.ErrNoUser), notReady:
		exchange = s.cfg.Secret.BeginUnknown(db, user)
	default:
		s.log.Warn("login could not be checked", "error", sqlstate.Scrub(err.Error()))
		return auth.Principal{}, sqlstate.New(sqlstate.CannotConnectNow, "the login cannot be checked now")
	}
	if err := s.scram(exchange, user); err != nil {
		var refused *sqlstate.Error
		if s.cfg.Bans != nil && errors.As(err, &refused) && refused.Code == sqlstate.InvalidPassword {
			s.cfg.Bans.Failed(from)
		}
		return auth.Principal{}, err
	}
	if notReady {
		return auth.Principal{}, sqlstate.New(sqlstate.CannotConnectNow, "the warehouse of %s is not ready", db)
	}
	return account.Principal, nil
}

// trusted reports whether the client needs no password: it and the listener are on loopback, the configuration allows it,
// and it does not claim to be one of Sluice's services.
func (s *Session) trusted(user string) bool {
	loopback := func(a net.Addr) bool {
		t, ok := a.(*net.TCPAddr)
		return ok && t.IP.IsLoopback()
	}
	return s.cfg.Trust && !strings.HasPrefix(strings.ToLower(user), auth.ServicePrefix) && loopback(s.nc.RemoteAddr()) && loopback(s.nc.LocalAddr())
}

// scram runs the exchange. All failures look alike to the client.
func (s *Session) scram(ex *auth.Exchange, user string) error {
	failed := sqlstate.New(sqlstate.InvalidPassword, "password authentication failed for user %q", user)
	if err := s.io.send(&pgproto3.AuthenticationSASL{AuthMechanisms: []string{auth.Mechanism}}); err != nil {
		return err
	}
	var first pgproto3.SASLInitialResponse
	if err := s.sasl(first.Decode); err != nil {
		return err
	}
	if first.AuthMechanism != auth.Mechanism {
		return sqlstate.New(sqlstate.ProtocolViolation, "client selected an invalid SASL authentication mechanism")
	}
	answer, err := ex.First(string(first.Data))
	if err != nil {
		return sqlstate.New(sqlstate.ProtocolViolation, "malformed SCRAM message")
	}
	if err := s.io.send(&pgproto3.AuthenticationSASLContinue{Data: []byte(answer)}); err != nil {
		return err
	}
	var second pgproto3.SASLResponse
	if err := s.sasl(second.Decode); err != nil {
		return err
	}
	answer, err = ex.Final(string(second.Data))
	if errors.Is(err, auth.ErrProtocol) {
		return sqlstate.New(sqlstate.ProtocolViolation, "malformed SCRAM message")
	}
	if err != nil {
		return failed
	}
	if err := s.io.send(&pgproto3.AuthenticationSASLFinal{Data: []byte(answer)}); err != nil {
		return err
	}
	return s.io.send(&pgproto3.AuthenticationOk{})
}

// sasl sends what waits and reads the client's answer.
func (s *Session) sasl(decode func([]byte) error) error {
	if err := s.io.flush(); err != nil {
		return err
	}
	kind, body, err := s.io.raw(maxSASL)
	if err != nil {
		return err
	}
	if kind != 'p' {
		return sqlstate.New(sqlstate.ProtocolViolation, "expected SASL response, got message type %d", kind)
	}
	if err := decode(body); err != nil {
		return sqlstate.New(sqlstate.ProtocolViolation, "malformed SASL message")
	}
	return nil
}
