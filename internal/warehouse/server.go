package warehouse

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/warehouse/auth"
	"sluice/internal/warehouse/sqlstate"
	"sluice/internal/warehouse/wire"
)

// serverVersion is what clients parse for features, and who they talk to.
const serverVersion = "15.0 (Sluice)"

// keepAlive finds a half-open connection in 10 s × 3.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 10 * time.Second, Count: 3}

// Server accepts clients. New, then Listen, then Run.
type Server struct {
	cfg     Config
	log     *slog.Logger
	session wire.Config
	queries atomic.Int64

	mu       sync.Mutex
	listener net.Listener
	sessions map[uint32]*wire.Session
	lastPID  uint32
	admitted int
}

// New makes a server; it starts nothing.
func New(cfg Config, engine Engine, authenticator auth.Authenticator, log *slog.Logger) *Server {
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg, log: log.With("component", "warehouse"), sessions: make(map[uint32]*wire.Session)}
	s.session = wire.Config{
		Engine: engine, Auth: authenticator, Secret: auth.NewSecret(), TLS: cfg.TLS, Bans: cfg.Bans, Trust: cfg.TrustLoopback,
		LoginTimeout: cfg.LoginTimeout, IdleInTx: cfg.IdleInTx, MaxMessage: cfg.MaxMessage, SpoolBytes: cfg.SpoolBytes,
		ServerVersion: serverVersion, Log: s.log, Queries: &s.queries, Sessions: func() []wire.Info { return s.Status().Sessions },
	}
	return s
}

// Listen opens the port. From here on clients can connect; they are answered once Run has begun.
func (s *Server) Listen() error { return s.listen(context.Background()) }

func (s *Server) listen(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return sluice.E("SLUICE-WAREHOUSE-LISTEN", "listen for warehouse clients on "+s.cfg.Listen, reason(err),
			"stop what uses the port, or choose another with warehouse.listen", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = l
	return nil
}

// reason takes the address, which is said already, off a listen error.
func reason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

// Addr is the address that is listened on, nil before Listen.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Run serves clients until ctx is over. Then nobody is let in any more, idle sessions end, and what runs may go on for the
// grace period; the rest is told 57P01. It returns nil after a clean end.
func (s *Server) Run(ctx context.Context) error {
	if s.Addr() == nil {
		if err := s.listen(ctx); err != nil {
			return err
		}
	}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	stop := context.AfterFunc(ctx, func() { _ = s.listener.Close() })
	defer stop()
	s.log.Info("warehouse listens", "addr", s.Addr().String())
	var wg sync.WaitGroup
	err := s.accept(ctx, life, &wg)
	s.drain()
	gone := make(chan struct{})
	go func() { wg.Wait(); close(gone) }()
	grace := time.NewTimer(s.cfg.Grace)
	defer grace.Stop()
	select {
	case <-gone:
	case <-grace.C:
		kill()
		<-gone
	}
	return err
}

// accept lets clients in until the listener is closed.
func (s *Server) accept(ctx, life context.Context, wg *sync.WaitGroup) error {
	wait := 5 * time.Millisecond
	for {
		nc, err := s.listener.Accept()
		switch {
		case err == nil:
			wait = 5 * time.Millisecond
			wg.Go(func() { s.serve(ctx, life, nc) })
			continue
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept warehouse clients: %w", err)
		}
		// Out of file descriptors, most likely: it passes when sessions end.
		s.log.Warn("client not accepted", "error", err.Error())
		select {
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Server) serve(ctx, life context.Context, nc net.Conn) {
	if tc, ok := nc.(*net.TCPConn); ok {
		_ = tc.SetKeepAliveConfig(keepAlive)
		_ = tc.SetNoDelay(true)
	}
	session, pid := s.register(nc)
	defer s.forget(pid)
	if ctx.Err() != nil {
		session.Drain()
	}
	session.Run(life, wire.Hooks{Admit: s.admit, Cancel: s.cancel})
}

// register gives a session its cancel key.
func (s *Server) register(nc net.Conn) (*wire.Session, uint32) {
	var key [4]byte
	_, _ = rand.Read(key[:]) // never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		s.lastPID++
		if _, taken := s.sessions[s.lastPID]; !taken && s.lastPID != 0 && s.lastPID < 1<<31 {
			break
		}
		if s.lastPID >= 1<<31 {
			s.lastPID = 0
		}
	}
	session := wire.New(&s.session, nc, s.lastPID, binary.BigEndian.Uint32(key[:]))
	s.sessions[s.lastPID] = session
	return session, s.lastPID
}

func (s *Server) forget(pid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, pid)
}

// admit takes a place among the sessions.
func (s *Server) admit() (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admitted >= s.cfg.MaxConnections {
		return nil, sqlstate.New(sqlstate.TooManyConnections, "sorry, too many clients already")
	}
	s.admitted++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.admitted--
	}), nil
}

// cancel passes a cancel request to its session; a wrong key changes nothing, and nobody is told.
func (s *Server) cancel(r wire.CancelRequest) {
	s.mu.Lock()
	session := s.sessions[r.PID]
	s.mu.Unlock()
	if session != nil {
		session.Cancel(r.Key)
	}
}

// End ends the sessions that the function names, all or only while they are idle, see wire.Session.End.
func (s *Server) End(which func(wire.Info) (end, idle bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		if end, idle := which(session.Info()); end {
			session.End(idle)
		}
	}
}

// drain asks all sessions to end when they are idle.
func (s *Server) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		session.Drain()
	}
}

// Status is what is shown of a server.
type Status struct {
	Addr        string
	Connections int   // admitted
	Active      int   // with a statement under way
	Queries     int64 // statements since the start
	Sessions    []wire.Info
}

// Status tells what the server is doing, from memory.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Connections: s.admitted, Queries: s.queries.Load()}
	if s.listener != nil {
		st.Addr = s.listener.Addr().String()
	}
	for _, session := range s.sessions {
		info := session.Info()
		if info.State == "active" {
			st.Active++
		}
		st.Sessions = append(st.Sessions, info)
	}
	slices.SortFunc(st.Sessions, func(a, b wire.Info) int { return int(a.PID) - int(b.PID) })
	return st
}
