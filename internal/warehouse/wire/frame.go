package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/warehouse/sqlstate"
)

const (
	readBuffer  = 4096
	flushAt     = 32 * 1024
	keepOut     = 64 * 1024
	growStep    = 64 * 1024 // what a message's claimed length is trusted with before bytes arrive
	headerBytes = 5
)

// frames reads and writes messages of one connection.
type frames struct {
	nc   net.Conn
	in   *bufio.Reader
	body []byte
	out  []byte
	max  int
}

func newFrames(nc net.Conn, max int) *frames {
	return &frames{nc: nc, in: bufio.NewReaderSize(nc, readBuffer), max: max}
}

// await blocks until a byte is there, and takes nothing.
func (f *frames) await() error {
	_, err := f.in.Peek(1)
	return err
}

// nextIs reports whether the next message has arrived in part and is of the kind.
func (f *frames) nextIs(kind byte) bool {
	if f.in.Buffered() == 0 {
		return false
	}
	b, err := f.in.Peek(1)
	return err == nil && b[0] == kind
}

// raw reads one message of the regular kind: type, length, body. The body is valid until the next call.
func (f *frames) raw(max int) (byte, []byte, error) {
	var head [headerBytes]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return 0, nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[1:])) - 4
	if n < 0 || n > int64(max) {
		return 0, nil, sqlstate.New(sqlstate.ProtocolViolation, "invalid message length")
	}
	body, err := f.take(int(n))
	return head[0], body, err
}

// take reads n bytes; memory grows as they arrive.
func (f *frames) take(n int) ([]byte, error) {
	if cap(f.body) > keepOut && n < keepOut {
		f.body = nil
	}
	f.body = f.body[:0]
	for len(f.body) < n {
		step := min(n-len(f.body), max(growStep, len(f.body)))
		from := len(f.body)
		f.body = append(f.body, make([]byte, step)...)
		if _, err := io.ReadFull(f.in, f.body[from:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return f.body, nil
}

// read reads a message of a running session.
func (f *frames) read() (pgproto3.FrontendMessage, error) {
	kind, body, err := f.raw(f.max)
	if err != nil {
		return nil, err
	}
	return decode(kind, body)
}

func decode(kind byte, body []byte) (pgproto3.FrontendMessage, error) {
	var m pgproto3.FrontendMessage
	switch kind {
	case 'Q':
		m = &pgproto3.Query{}
	case 'P':
		m = &pgproto3.Parse{}
	case 'B':
		m = &pgproto3.Bind{}
	case 'D':
		m = &pgproto3.Describe{}
	case 'E':
		m = &pgproto3.Execute{}
	case 'C':
		m = &pgproto3.Close{}
	case 'H':
		m = &pgproto3.Flush{}
	case 'S':
		m = &pgproto3.Sync{}
	case 'X':
		m = &pgproto3.Terminate{}
	case 'd':
		m = &pgproto3.CopyData{}
	case 'c':
		m = &pgproto3.CopyDone{}
	case 'f':
		m = &pgproto3.CopyFail{}
	case 'F':
		m = &pgproto3.FunctionCall{}
	default:
		return nil, sqlstate.New(sqlstate.ProtocolViolation, "invalid frontend message type %d", kind)
	}
	if err := m.Decode(body); err != nil {
		return nil, sqlstate.New(sqlstate.ProtocolViolation, "invalid message of type %q: %s", string(kind), err)
	}
	return m, nil
}

// send appends a message to what goes out at the next flush.
func (f *frames) send(m pgproto3.BackendMessage) error {
	out, err := m.Encode(f.out)
	if err != nil {
		return fmt.Errorf("encode %T: %w", m, err)
	}
	f.out = out
	return f.relieve()
}

// relieve writes when much is waiting.
func (f *frames) relieve() error {
	if len(f.out) < flushAt {
		return nil
	}
	return f.flush()
}

func (f *frames) flush() error {
	if len(f.out) == 0 {
		return nil
	}
	_, err := f.nc.Write(f.out)
	f.out = f.out[:0]
	if cap(f.out) > keepOut {
		f.out = nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errClient, err)
	}
	return nil
}

// rest frees buffers of a session that waits for its client.
func (f *frames) rest() {
	if cap(f.body) > readBuffer {
		f.body = nil
	}
	if len(f.out) == 0 && cap(f.out) > readBuffer {
		f.out = nil
	}
}

// errClient marks errors of the connection to the client: there is nobody to tell.
var errClient = errors.New("write to client")
