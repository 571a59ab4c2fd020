package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// pipe is a connection that reads from a buffer and forgets what is written.
type pipe struct{ io.Reader }

func (pipe) Write(b []byte) (int, error)      { return len(b), nil }
func (pipe) Close() error                     { return nil }
func (pipe) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (pipe) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (pipe) SetDeadline(time.Time) error      { return nil }
func (pipe) SetReadDeadline(time.Time) error  { return nil }
func (pipe) SetWriteDeadline(time.Time) error { return nil }

func seed(f *testing.F, messages ...pgproto3.FrontendMessage) {
	f.Helper()
	var b []byte
	for _, m := range messages {
		var err error
		if b, err = m.Encode(b); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b)
}

// FuzzMessages checks that no bytes make the decoder panic, take memory for a length that is only claimed, or go on
// forever.
func FuzzMessages(f *testing.F) {
	seed(f, &pgproto3.Query{String: "SELECT 1"}, &pgproto3.Sync{})
	seed(f, &pgproto3.Parse{Name: "a", Query: "SELECT $1", ParameterOIDs: []uint32{23}}, &pgproto3.Flush{})
	seed(f, &pgproto3.Bind{PreparedStatement: "a", ParameterFormatCodes: []int16{1}, Parameters: [][]byte{{0, 0, 0, 1}, nil}, ResultFormatCodes: []int16{1}})
	seed(f, &pgproto3.Describe{ObjectType: 'S', Name: "a"}, &pgproto3.Execute{Portal: "p", MaxRows: 7}, &pgproto3.Close{ObjectType: 'P', Name: "p"})
	seed(f, &pgproto3.CopyData{Data: []byte("x")}, &pgproto3.CopyDone{}, &pgproto3.CopyFail{Message: "m"}, &pgproto3.Terminate{})
	f.Add([]byte{'B', 0, 0, 0, 12, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{'F', 0, 0, 0, 8, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{'Q', 0x3f, 0xff, 0xff, 0xff, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		fr := newFrames(pipe{bytes.NewReader(data)}, 1<<30)
		for range len(data) + 1 {
			if _, err := fr.read(); isNetwork(err) {
				break
			} else if err != nil && fr.in.Buffered() == 0 {
				break
			}
			if cap(fr.body) > 4*len(data)+4*growStep {
				t.Fatalf("%d bytes of memory for %d bytes of input", cap(fr.body), len(data))
			}
		}
	})
}

// FuzzStartup does the same for what comes before a login.
func FuzzStartup(f *testing.F) {
	packet := func(code uint32, body string) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
		return append(binary.BigEndian.AppendUint32(b, code), body...)
	}
	f.Add(packet(196608, "user\x00olga\x00database\x00acme\x00\x00"))
	f.Add(packet(196610, "user\x00olga\x00_pq_.x\x00y\x00\x00"))
	f.Add(packet(sslCode, ""))
	f.Add(append(packet(gssCode, ""), packet(cancelCode, "\x00\x00\x00\x01\x00\x00\x00\x02")...))
	f.Add(packet(196608, "options\x00-c a=b --x-y=z -cq\x00user\x00\x00"))
	f.Add([]byte{0, 0, 0, 4})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &Session{cfg: &Config{}, io: newFrames(pipe{bytes.NewReader(data)}, 1<<20), life: t.Context()}
		params, req, err := s.startup()
		if err == nil && params == nil && req == nil {
			t.Fatal("neither a session nor a cancel nor an error")
		}
		startupSettings(params)
		if cap(s.io.body) > 2*maxStartup+growStep {
			t.Fatalf("%d bytes for a startup packet", cap(s.io.body))
		}
	})
}
