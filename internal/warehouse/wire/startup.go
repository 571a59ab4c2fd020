package wire

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/warehouse/sqlstate"
)

const (
	protocolMajor = 3
	cancelCode    = 80877102
	sslCode       = 80877103
	gssCode       = 80877104
)

// CancelRequest is what a client sends on a connection of its own to cancel the statement of another.
type CancelRequest struct{ PID, Key uint32 }

// startup reads packets until one asks for a session or a cancel. nil, nil: the client has gone.
func (s *Session) startup() (map[string]string, *CancelRequest, error) {
	for tries := 0; ; tries++ {
		body, err := s.io.packet()
		if err != nil {
			return nil, nil, err
		}
		switch code := binary.BigEndian.Uint32(body); {
		case code == sslCode && tries < 4:
			if err := s.encrypt(); err != nil {
				return nil, nil, err
			}
		case code == gssCode && tries < 4:
			if err := s.io.answer('N'); err != nil {
				return nil, nil, err
			}
		case code == cancelCode && len(body) == 12:
			return nil, &CancelRequest{binary.BigEndian.Uint32(body[4:]), binary.BigEndian.Uint32(body[8:])}, nil
		case code>>16 == protocolMajor:
			params, err := parameters(body[4:])
			if err == nil {
				err = s.negotiate(code, params)
			}
			return params, nil, err
		default:
			return nil, nil, sqlstate.New(sqlstate.ProtocolViolation, "unsupported frontend protocol %d.%d: server supports 3.0", code>>16, code&0xffff)
		}
	}
}

// packet reads one packet of the startup phase: length and body, at least a code.
func (f *frames) packet() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:])) - 4
	if n < 4 || n > maxStartup {
		return nil, sqlstate.New(sqlstate.ProtocolViolation, "invalid length of startup packet")
	}
	return f.take(int(n))
}

func (f *frames) answer(b byte) error {
	f.out = append(f.out, b)
	return f.flush()
}

// encrypt answers an SSLRequest. Bytes that a client sent on before the answer would be taken for encrypted ones by a
// listener in the middle, so they end the connection.
func (s *Session) encrypt() error {
	if s.cfg.TLS == nil || s.encrypted {
		return s.io.answer('N')
	}
	if s.io.in.Buffered() > 0 {
		return sqlstate.New(sqlstate.ProtocolViolation, "received unencrypted data after SSL request")
	}
	if err := s.io.answer('S'); err != nil {
		return err
	}
	tc := tls.Server(s.io.nc, s.cfg.TLS)
	if err := tc.HandshakeContext(s.life); err != nil {
		return errors.Join(errClient, err)
	}
	s.io = newFrames(tc, s.io.max)
	s.encrypted = true
	return nil
}

// parameters reads the name and value pairs of a startup packet.
func parameters(b []byte) (map[string]string, error) {
	bad := sqlstate.New(sqlstate.ProtocolViolation, "invalid startup packet layout: expected terminator as last byte")
	if len(b) == 0 || b[len(b)-1] != 0 {
		return nil, bad
	}
	out := make(map[string]string)
	parts := strings.Split(string(b[:len(b)-1]), "\x00")
	for i := 0; i < len(parts) && parts[i] != ""; i += 2 {
		if i+1 >= len(parts) {
			return nil, bad
		}
		out[parts[i]] = parts[i+1]
	}
	return out, nil
}

// negotiate tells a client that asks for a newer minor version, or for protocol options, what it gets.
func (s *Session) negotiate(code uint32, params map[string]string) error {
	var unknown []string
	for name := range params {
		if strings.HasPrefix(name, "_pq_.") {
			unknown = append(unknown, name)
			delete(params, name)
		}
	}
	if code&0xffff == 0 && len(unknown) == 0 {
		return nil
	}
	return s.io.send(&pgproto3.NegotiateProtocolVersion{NewestMinorProtocol: 0, UnrecognizedOptions: unknown})
}
