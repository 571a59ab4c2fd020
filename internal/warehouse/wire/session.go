package wire

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/warehouse/auth"
	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/gate/token"
	"sluice/internal/warehouse/sqlstate"
)

// Session is one client connection. Run is its life; Cancel, Drain and Info may be called by others.
type Session struct {
	cfg *Config
	nc  net.Conn
	io  *frames
	log *slog.Logger
	pid uint32
	key uint32

	life      context.Context // ends when the session must
	kill      context.CancelCauseFunc
	draining  atomic.Bool
	encrypted bool

	mu     sync.Mutex
	cancel context.CancelCauseFunc // of the statement that runs
	info   Info
	shown  *shown // the last statement

	who      auth.Principal
	conn     Conn
	db       *duck.Conn
	vars     settings
	tx       transaction
	prepared map[string]*prepared
	portals  map[string]*portal
	pinned   *portal // the suspended portal whose result the engine connection is still giving
	overlay  overlay
	skipping bool // after an error of the extended protocol, until Sync
	single   bool // the message at hand is followed by Sync
	holds    turn // of the lake's writers
	endTurn  func()

	unwatch func() // stops looking whether the client is still there

	sqlPrepared map[string]gate.Effect // of statements made with PREPARE in SQL
}

// Info is what is shown of a session.
type Info struct {
	PID         uint32
	Principal   auth.Principal
	Application string
	Remote      string
	State       string // starting, idle, active, idle in transaction, idle in transaction (aborted)
	Since       time.Time
	Began       time.Time // of the session
	Transaction time.Time // begin of the open one; zero if there is none
	Statement   time.Time // begin of the last one
	Query       string    // the last statement, without its literals
}

// Why a statement or session ends before its time.
var (
	errCancel   = sqlstate.New(sqlstate.QueryCanceled, "canceling statement due to user request")
	errTimeout  = sqlstate.New(sqlstate.QueryCanceled, "canceling statement due to statement timeout")
	errShutdown = sqlstate.New(sqlstate.AdminShutdown, "terminating connection: the server is shutting down").WithHint("connect again")
	errRetired  = sqlstate.New(sqlstate.AdminShutdown, "terminating connection: the warehouse's engine was restarted").WithHint("connect again")
	errEnded    = sqlstate.New(sqlstate.AdminShutdown, "terminating connection: the login has ended").WithHint("log in again with a login that is valid")
	errLogin    = sqlstate.New(sqlstate.InvalidAuthorization, "login timeout")
	errGone     = errors.New("the client has gone")
	errOver     = errors.New("the session is over")
)

// New makes the session of an accepted connection; pid and key are its cancel key.
func New(cfg *Config, nc net.Conn, pid, key uint32) *Session {
	s := &Session{
		cfg: cfg, nc: nc, io: newFrames(nc, cfg.MaxMessage), pid: pid, key: key,
		log:      cfg.Log.With("session", pid),
		prepared: make(map[string]*prepared), portals: make(map[string]*portal), sqlPrepared: make(map[string]gate.Effect),
		vars: defaults(cfg.ServerVersion),
	}
	s.info = Info{PID: pid, Remote: nc.RemoteAddr().String(), State: "starting", Since: time.Now(), Began: time.Now()}
	return s
}

// Info tells what the session is doing.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.info
	if s.shown != nil {
		i.Query = withoutLiterals(s.shown.client, s.shown.tokens)
	}
	return i
}

// showStatement remembers what runs, for Info.
func (s *Session) showStatement(text string, tokens []token.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = &shown{text, tokens}
	s.info.Statement, s.info.Transaction = time.Now(), s.tx.began
}

// shown is a statement as its client sent it.
type shown struct {
	client string
	tokens []token.Token
}

// Cancel interrupts the statement that runs, if key is the session's.
func (s *Session) Cancel(key uint32) {
	if key == s.key {
		s.interrupt(errCancel)
	}
}

func (s *Session) interrupt(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel(cause)
	}
}

// End ends the session of a login that has ended; a statement that runs is interrupted. With idle only a session that does
// nothing is ended. A session that is still logging in is left alone: its login is looked up after that.
func (s *Session) End(idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info.Principal.Name != "" && (!idle || s.info.State == "idle") {
		s.kill(errEnded)
	}
}

// Drain asks the session to end as soon as it is idle outside a transaction.
func (s *Session) Drain() {
	s.draining.Store(true)
	_ = s.nc.SetReadDeadline(time.Now())
}

// Hooks are what a session needs of its server.
type Hooks struct {
	// Admit takes a place for the session; the error is what the client gets.
	Admit func() (release func(), err error)
	// Cancel passes a cancel request on.
	Cancel func(CancelRequest)
}

// Run serves the client until it leaves or ctx is over; then a running statement is interrupted. It closes the network
// connection.
func (s *Session) Run(ctx context.Context, hooks Hooks) {
	life, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	s.life, s.kill = life, kill
	defer func() { _ = s.io.nc.Close() }()
	// Whatever ends the session's life also ends a wait for the client's next message.
	stop := context.AfterFunc(life, func() { _ = s.nc.SetReadDeadline(time.Now()) })
	defer stop()
	release, err := s.open(life, hooks)
	if release != nil {
		defer release()
	}
	if s.conn != nil {
		defer s.close()
	}
	if err == nil {
		err = s.loop(life)
	}
	s.farewell(err)
}

// farewell tells the client why the session ends, if it ends by an error that the client did not cause by leaving.
func (s *Session) farewell(err error) {
	var e *sqlstate.Error
	switch {
	case err == nil, errors.Is(err, errOver), errors.Is(err, errGone), errors.Is(err, errClient):
		s.log.Debug("session ended")
		return
	case s.life.Err() != nil:
		e = s.death()
	case errors.As(err, &e):
	case isNetwork(err):
		s.log.Debug("session lost", "error", err.Error())
		return
	default:
		e = sqlstate.From(err)
	}
	s.log.Debug("session ended by error", "sqlstate", e.Code, "error", e.Message)
	_ = s.nc.SetWriteDeadline(time.Now().Add(2 * time.Second))
	if s.io.send(errorResponse("FATAL", e)) == nil {
		_ = s.io.flush()
	}
}

// death is the error that goes with the end of the session's life.
func (s *Session) death() *sqlstate.Error {
	var e *sqlstate.Error
	if errors.As(context.Cause(s.life), &e) {
		return e
	}
	return errShutdown
}

func isNetwork(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) || errors.Is(err, net.ErrClosed) || isEOF(err)
}

// open does everything up to the first ReadyForQuery.
func (s *Session) open(life context.Context, hooks Hooks) (release func(), err error) {
	ctx, cancel := context.WithTimeoutCause(life, s.cfg.LoginTimeout, errLogin)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.nc.SetReadDeadline(time.Now()) })
	defer func() {
		if !stop() && err != nil && life.Err() == nil && isNetwork(err) {
			err = errLogin
		}
	}()
	params, cancelReq, err := s.startup()
	if err != nil {
		if isNetwork(err) && ctx.Err() == nil {
			err = errGone
		}
		return nil, err
	}
	if cancelReq != nil {
		hooks.Cancel(*cancelReq)
		return nil, errOver
	}
	if release, err = hooks.Admit(); err != nil {
		return nil, err
	}
	if s.who, err = s.login(ctx, params); err != nil {
		return release, err
	}
	if err := s.attach(ctx); err != nil {
		return release, err
	}
	return release, s.greet(ctx, params)
}

// attach gets the session's engine connection.
func (s *Session) attach(ctx context.Context) error {
	conn, err := s.cfg.Engine.Connect(ctx, s.who.Org)
	if err != nil {
		return connectError(s.who, err)
	}
	s.conn = conn
	if err := conn.SQL().Raw(func(dc any) (err error) { s.db, err = duck.FromDriver(dc); return err }); err != nil {
		return err
	}
	go func() {
		select {
		case <-conn.Retired():
			s.kill(errRetired)
		case <-s.life.Done():
		}
	}()
	return nil
}

func (s *Session) close() {
	for name := range s.portals {
		s.dropPortal(name)
	}
	for _, p := range s.prepared {
		p.close()
	}
	defer s.giveUp()
	if err := s.conn.Close(); err != nil {
		s.log.Warn("engine connection did not close", "error", sqlstate.Scrub(err.Error()))
	}
}

// greet sends what a client waits for before its first statement.
func (s *Session) greet(ctx context.Context, params map[string]string) error {
	if err := s.initialise(ctx, params); err != nil {
		return err
	}
	s.log = s.log.With("org", s.who.Org, "user", s.who.Name)
	s.mu.Lock()
	s.info.Principal = s.who
	s.mu.Unlock()
	for _, name := range reported {
		if err := s.io.send(&pgproto3.ParameterStatus{Name: name, Value: s.vars.values[lower(name)]}); err != nil {
			return err
		}
	}
	key := []byte{byte(s.key >> 24), byte(s.key >> 16), byte(s.key >> 8), byte(s.key)}
	if err := s.io.send(&pgproto3.BackendKeyData{ProcessID: s.pid, SecretKey: key}); err != nil {
		return err
	}
	return s.ready()
}

// ready ends a message cycle.
func (s *Session) ready() error {
	if s.tx.now != txOpen {
		s.giveUp()
	}
	if err := s.io.send(&pgproto3.ReadyForQuery{TxStatus: s.tx.status()}); err != nil {
		return err
	}
	return s.io.flush()
}

// loop reads and handles messages until the session ends.
func (s *Session) loop(ctx context.Context) error {
	for {
		if err := s.await(); err != nil {
			return err
		}
		msg, err := s.io.read()
		if err != nil {
			return err
		}
		if err := s.handle(ctx, msg); err != nil {
			return err
		}
		if s.life.Err() != nil {
			return s.death()
		}
	}
}

// await waits for the client's next message.
func (s *Session) await() error {
	if s.io.in.Buffered() > 0 {
		return nil
	}
	s.show(s.tx.state())
	s.io.rest()
	for {
		var limit time.Time
		if s.cfg.IdleInTx > 0 && s.tx.open() {
			limit = time.Now().Add(s.cfg.IdleInTx)
		}
		_ = s.nc.SetReadDeadline(limit)
		// These are looked at after the deadline is set, because whoever changes them moves the deadline afterwards.
		if s.life.Err() != nil {
			return s.death()
		}
		if s.draining.Load() && !s.tx.open() {
			return errShutdown
		}
		err := s.io.await()
		switch {
		case err == nil:
			_ = s.nc.SetReadDeadline(time.Time{})
			if s.life.Err() != nil {
				return s.death()
			}
			s.show("active")
			return nil
		case isEOF(err):
			return errGone
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case !limit.IsZero() && !time.Now().Before(limit):
			return sqlstate.New(sqlstate.IdleInTransaction, "terminating connection due to idle-in-transaction timeout")
		}
	}
}

func (s *Session) show(state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info.State != state {
		s.info.State, s.info.Since = state, time.Now()
		if state == "idle" {
			s.info.Transaction = time.Time{}
		}
	}
}

// handle answers one message. An error ends the session; errors of statements are sent and are none here.
func (s *Session) handle(ctx context.Context, msg pgproto3.FrontendMessage) error {
	switch m := msg.(type) {
	case *pgproto3.Terminate:
		return errOver
	case *pgproto3.Sync:
		s.skipping = false
		return s.sync(ctx)
	case *pgproto3.Query:
		s.skipping = false
		return s.scope(ctx, func(ctx context.Context) error { return s.simple(ctx, m.String) })
	case *pgproto3.CopyData, *pgproto3.CopyDone, *pgproto3.CopyFail:
		return nil // what a client sends on after a COPY that was refused
	}
	if s.skipping {
		return nil
	}
	s.single = s.io.nextIs('S')
	err := s.scope(ctx, func(ctx context.Context) error {
		switch m := msg.(type) {
		case *pgproto3.Parse:
			return s.parse(ctx, m)
		case *pgproto3.Bind:
			return s.bind(ctx, m)
		case *pgproto3.Describe:
			return s.describe(m)
		case *pgproto3.Execute:
			return s.execute(ctx, m)
		case *pgproto3.Close:
			return s.closeObject(m)
		case *pgproto3.Flush:
			return s.io.flush()
		}
		return sqlstate.New(sqlstate.ProtocolViolation, "message %T is not supported", msg)
	})
	if err == nil || fatal(err) {
		return err
	}
	s.skipping = true
	return s.fail(ctx, err)
}

// scope runs the work of one message: it can be cancelled, it has the statement timeout, and a client that goes away ends
// it.
func (s *Session) scope(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	s.cancel = cancel
	s.mu.Unlock()
	if d := s.vars.timeout; d > 0 {
		t := time.AfterFunc(d, func() { cancel(errTimeout) })
		defer t.Stop()
	}
	s.unwatch = sync.OnceFunc(s.watch(func() { cancel(errGone) }))
	err := f(ctx)
	s.unwatch()
	s.mu.Lock()
	s.cancel = nil
	s.mu.Unlock()
	return err
}

// sync ends an extended message cycle, and with it the implicit transaction.
func (s *Session) sync(ctx context.Context) error {
	if err := s.endImplicit(ctx); err != nil {
		if fatal(err) {
			return err
		}
		if err := s.fail(ctx, err); err != nil {
			return err
		}
	}
	return s.ready()
}
