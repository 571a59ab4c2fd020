package warehouse_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/warehouse"
)

// raw is a client that sends what it likes.
type raw struct {
	t  *testing.T
	nc net.Conn
	fe *pgproto3.Frontend
}

// hijack logs in with pgx and takes the connection over.
func hijack(t *testing.T, srv *warehouse.Server, user string) *raw {
	t.Helper()
	pc, err := pgconn.Connect(t.Context(), dsn(srv, user))
	if err != nil {
		t.Fatal(err)
	}
	h, err := pc.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Conn.Close() })
	_ = h.Conn.SetDeadline(time.Now().Add(20 * time.Second))
	return &raw{t, h.Conn, h.Frontend}
}

// talk sends messages and writes down what comes back up to ReadyForQuery, one word each.
func (r *raw) talk(messages ...pgproto3.FrontendMessage) string {
	r.t.Helper()
	for _, m := range messages {
		r.fe.Send(m)
	}
	if err := r.fe.Flush(); err != nil {
		r.t.Fatal(err)
	}
	return r.until("Z")
}

// until reads up to a message whose word begins with end.
func (r *raw) until(end string) string {
	r.t.Helper()
	var out []string
	for {
		m, err := r.fe.Receive()
		if err != nil {
			return strings.Join(append(out, "gone"), " ")
		}
		word := ""
		switch m := m.(type) {
		case *pgproto3.ParseComplete:
			word = "1"
		case *pgproto3.BindComplete:
			word = "2"
		case *pgproto3.CloseComplete:
			word = "3"
		case *pgproto3.NoData:
			word = "n"
		case *pgproto3.ParameterDescription:
			word = fmt.Sprint("t", m.ParameterOIDs)
		case *pgproto3.RowDescription:
			word = "T["
			for i, f := range m.Fields {
				if i > 0 {
					word += ","
				}
				word += fmt.Sprintf("%s:%d:%d", f.Name, f.DataTypeOID, f.Format)
			}
			word += "]"
		case *pgproto3.DataRow:
			word = "D"
			for _, v := range m.Values {
				word += fmt.Sprintf("(%s)", v)
			}
		case *pgproto3.CommandComplete:
			word = "C:" + strings.ReplaceAll(string(m.CommandTag), " ", "_")
		case *pgproto3.PortalSuspended:
			word = "s"
		case *pgproto3.EmptyQueryResponse:
			word = "I"
		case *pgproto3.ErrorResponse:
			word = "E:" + m.Code
		case *pgproto3.NoticeResponse:
			word = "N:" + m.Code
		case *pgproto3.ReadyForQuery:
			word = "Z:" + string(m.TxStatus)
		case *pgproto3.ParameterStatus:
			word = "S:" + m.Name
		default:
			word = fmt.Sprintf("%T", m)
		}
		out = append(out, word)
		if strings.HasPrefix(word, end) {
			return strings.Join(out, " ")
		}
	}
}

func (r *raw) expect(want string, messages ...pgproto3.FrontendMessage) {
	r.t.Helper()
	if got := r.talk(messages...); got != want {
		r.t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func parse(name, sql string, oids ...uint32) *pgproto3.Parse {
	return &pgproto3.Parse{Name: name, Query: sql, ParameterOIDs: oids}
}

func bind(portal, stmt string, args ...string) *pgproto3.Bind {
	b := &pgproto3.Bind{DestinationPortal: portal, PreparedStatement: stmt}
	for _, a := range args {
		b.Parameters = append(b.Parameters, []byte(a))
	}
	return b
}

func execute(portal string, rows uint32) *pgproto3.Execute {
	return &pgproto3.Execute{Portal: portal, MaxRows: rows}
}

func describe(kind byte, name string) *pgproto3.Describe {
	return &pgproto3.Describe{ObjectType: kind, Name: name}
}

func closing(kind byte, name string) *pgproto3.Close {
	return &pgproto3.Close{ObjectType: kind, Name: name}
}
func query(sql string) *pgproto3.Query { return &pgproto3.Query{String: sql} }

var sync_, flush = &pgproto3.Sync{}, &pgproto3.Flush{}

func TestExtendedProtocol(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	r := hijack(t, srv, "olga")
	r.expect("C:CREATE_TABLE Z:I", query("CREATE TABLE t (id INTEGER, name VARCHAR)"))
	// describing and running
	r.expect("1 t[23] T[id:23:0,name:25:0] Z:I", parse("s", "SELECT id, name FROM t WHERE id = $1"), describe('S', "s"), sync_)
	r.expect("2 T[id:23:0,name:25:0] C:SELECT_0 Z:I", bind("", "s", "1"), describe('P', ""), execute("", 0), sync_)
	r.expect("1 t[23 25] n Z:I", parse("ins", "INSERT INTO t VALUES ($1, $2)"), describe('S', "ins"), sync_)
	r.expect("2 n C:INSERT_0_1 Z:I", bind("", "ins", "1", "one"), describe('P', ""), execute("", 0), sync_)
	r.expect("1 t[23] T[id:23:0] Z:I", parse("", "INSERT INTO t VALUES ($1, 'x') RETURNING id"), describe('S', ""), sync_)
	r.expect("2 D(2) C:INSERT_0_1 Z:I", bind("", "", "2"), execute("", 0), sync_)
	// an empty statement, a control statement, SHOW
	r.expect("1 t[] n 2 I Z:I", parse("", " -- nothing"), describe('S', ""), bind("", ""), execute("", 0), sync_)
	r.expect("1 2 n C:BEGIN Z:T", parse("", "BEGIN"), bind("", ""), describe('P', ""), execute("", 0), sync_)
	r.expect("1 2 T[TimeZone:25:0] D(UTC) C:SHOW Z:T", parse("", "SHOW TimeZone"), bind("", ""), describe('P', ""), execute("", 0), sync_)
	r.expect("1 2 C:COMMIT Z:I", parse("", "COMMIT"), bind("", ""), execute("", 0), sync_)
	// names
	r.expect("E:42P05 Z:I", parse("s", "SELECT 1"), sync_)
	r.expect("3 1 2 3 D(1) C:SELECT_1 Z:I", closing('S', "s"), parse("s", "SELECT 1"), bind("p", "s"), closing('S', "s"), execute("p", 0), sync_)
	r.expect("1 2 E:42P03 Z:I", parse("", "SELECT 1"), bind("p", ""), bind("p", ""), sync_)
	r.expect("E:26000 Z:I", bind("", "nowhere"), sync_)
	r.expect("E:34000 Z:I", execute("nowhere", 0), sync_)
	r.expect("3 3 Z:I", closing('S', "nowhere"), closing('P', "nowhere"), sync_)
	// an error skips everything up to Sync
	r.expect("E:42P01 Z:I", parse("", "SELECT * FROM nowhere"), bind("", ""), execute("", 0), flush, sync_)
	r.expect("E:42601 Z:I", parse("", "SELECT 1; SELECT 2"), sync_)
	r.expect("E:42601 Z:I", parse("", "SELEC 1"), sync_)
	r.expect("1 E:08P01 Z:I", parse("", "SELECT $1::int"), bind("", ""), sync_)
	r.expect("1 E:22P02 Z:I", parse("", "SELECT $1::int"), bind("", "", "x"), sync_)
	r.expect("T[v:23:0] D(7) C:SELECT_1 Z:I", query("SELECT 7 AS v"))
	// inside a block
	r.expect("C:BEGIN Z:T", query("BEGIN"))
	r.expect("E:42P01 Z:E", parse("", "SELECT * FROM nowhere"), sync_)
	r.expect("E:25P02 Z:E", parse("", "SELECT 1"), sync_)
	r.expect("E:25P02 Z:E", bind("", "ins", "1", "one"), sync_)
	r.expect("1 2 C:ROLLBACK Z:I", parse("", "COMMIT"), bind("", ""), execute("", 0), sync_)
}

// Types of parameters that the engine cannot tell, and columns that depend on values.
func TestUntypedParameters(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	r := hijack(t, srv, "olga")
	r.talk(query("CREATE TABLE t (id INTEGER, d DATE, ts TIMESTAMP); INSERT INTO t VALUES (1, '2024-01-02', '2024-01-02 03:04:05')"))
	for _, c := range []struct {
		sql     string
		oids    []uint32
		args    []string
		s, p, d string // Describe of the statement, of the portal, the first row
	}{
		{"SELECT $1", nil, []string{"x"}, `t[25] T[?column?:25:0]`, "", "D(x)"},
		{"SELECT $1", []uint32{20}, []string{"7"}, `t[20] T[?column?:20:0]`, "", "D(7)"},
		{"SELECT $1", []uint32{1700}, []string{"7.25"}, `t[1700] T[?column?:1700:0]`, "", "D(7.2500000000)"},
		{"SELECT id + $1 AS v FROM t", nil, []string{"41"}, `t[20] T[v:20:0]`, "", "D(42)"},
		{"SELECT id + $1 AS v FROM t", []uint32{25}, []string{"41"}, `t[25] T[v:20:0]`, "", "D(42)"},
		{"SELECT id, $1 AS v FROM t WHERE id = $2", nil, []string{"x", "1"}, `t[25 23] T[id:23:0,v:25:0]`, "", "D(1)(x)"},
		{"SELECT $1 || 'x' AS v", nil, []string{"y"}, `t[25] T[v:25:0]`, "", "D(yx)"},
		{"SELECT d FROM t WHERE d > $1 AND ts < $2", nil, []string{"2024-01-01", "Jan 3 2024"}, `t[1082 1114] T[d:1082:0]`, "", "E:22007"},
		{"SELECT d FROM t WHERE ts > $1", []uint32{1043}, []string{"2024-01-01T00:00:00"}, `t[1043] T[d:1082:0]`, "", "D(2024-01-02)"},
		{"SELECT count(*) AS n FROM t WHERE id = ANY($1)", nil, []string{"{1,2}"}, ``, "", "D(1)"},
		{"SELECT sum(range)::INT AS v FROM range($1)", nil, []string{"4"}, `t[20] T[v:23:0]`, "T[v:23:0]", "D(6)"},
		{"SELECT range AS v FROM range($1, $2)", []uint32{21, 21}, []string{"3", "9"}, `t[21 21] T[v:20:0]`, "T[v:20:0]", "D(3)"},
		{"SELECT unnest($1::INT[]) AS v", nil, []string{"{4,5}"}, `t[1007] T[v:23:0]`, "", "D(4)"},
		{"SELECT * FROM t LIMIT $1 OFFSET $2", nil, []string{"1", "0"}, `t[20 20] T[id:23:0,d:1082:0,ts:1114:0]`, "", "D(1)(2024-01-02)(2024-01-02 03:04:05)"},
		{"SELECT 1 AS v WHERE $1 = 'it''s $1' -- $1", nil, []string{"it's $1"}, `t[25] T[v:23:0]`, "", "D(1)"},
	} {
		got := r.talk(parse("", c.sql, c.oids...), describe('S', ""), sync_)
		if want := "1 " + c.s + " Z:I"; c.s != "" && got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.sql, got, want)
		}
		got = r.talk(bind("", "", c.args...), describe('P', ""), execute("", 1), sync_)
		if !strings.Contains(got, c.d) || c.p != "" && !strings.Contains(got, c.p) {
			t.Errorf("%s: got %s, want %s %s", c.sql, got, c.p, c.d)
		}
	}
}

func TestPortals(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{SpoolBytes: 4096})
	r := hijack(t, srv, "olga")
	r.expect("1 C:BEGIN Z:T", parse("q", "SELECT range AS i FROM range(5)"), query("BEGIN"))
	r.expect("2 D(0) D(1) s Z:T", bind("a", "q"), execute("a", 2), sync_)
	// a second portal and other statements while the first is open
	r.expect("2 D(0) s Z:T", bind("b", "q"), execute("b", 1), sync_)
	r.expect("D(2) D(3) s D(1) D(2) D(3) s Z:T", execute("a", 2), execute("b", 3), sync_)
	r.expect("T[x:23:0] D(1) C:SELECT_1 Z:T", query("SELECT 1 AS x"))
	r.expect("D(4) C:SELECT_1 D(4) C:SELECT_1 Z:T", execute("a", 0), execute("b", 0), sync_)
	r.expect("C:SELECT_0 Z:T", execute("a", 0), sync_)
	// exactly as many rows as asked for: suspended, then none
	r.expect("3 2 D(0) D(1) D(2) D(3) D(4) s C:SELECT_0 Z:T", closing('P', "a"), bind("a", "q"), execute("a", 5), execute("a", 5), sync_)
	// rows that do not fit into the limit when another statement needs the engine
	r.expect("1 2 D(0) s Z:T", parse("", "SELECT range AS i FROM range(100000)"), bind("big", ""), execute("big", 1), sync_)
	r.expect("E:54000 Z:E", query("SELECT 1"))
	r.expect("C:ROLLBACK Z:I", query("ROLLBACK"))
	r.expect("E:34000 Z:I", execute("a", 0), sync_)
	// outside a block a portal ends with Sync
	r.expect("2 D(0) s Z:I", bind("a", "q"), execute("a", 1), sync_)
	r.expect("E:34000 Z:I", execute("a", 0), sync_)
	r.expect("2 D(0) s D(1) s Z:I", bind("a", "q"), execute("a", 1), execute("a", 1), sync_)
	// statements that are not queries ignore the limit and run once
	r.expect("1 2 C:CREATE_TABLE E:55000 Z:I", parse("", "CREATE TABLE u (i INTEGER)"), bind("c", ""), execute("c", 1), execute("c", 1), sync_)
}

func TestPreparedStatementsFollowTheSchema(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	r := hijack(t, srv, "olga")
	r.talk(query("CREATE TABLE t (i INTEGER); INSERT INTO t VALUES (1)"))
	r.expect("1 1 Z:I", parse("all", "SELECT * FROM t"), parse("one", "SELECT i FROM t"), sync_)
	r.expect("2 D(1) C:SELECT_1 Z:I", bind("", "all"), execute("", 0), sync_)
	other := connect(t, srv, "olga")
	if _, err := other.Exec(t.Context(), "ALTER TABLE t ADD COLUMN j INTEGER"); err != nil {
		t.Fatal(err)
	}
	r.expect("2 E:0A000 Z:I", bind("", "all"), execute("", 0), sync_)
	r.expect("2 D(1) C:SELECT_1 Z:I", bind("", "one"), execute("", 0), sync_)
	if _, err := other.Exec(t.Context(), "ALTER TABLE t ALTER i TYPE VARCHAR"); err != nil {
		t.Fatal(err)
	}
	r.expect("2 E:0A000 Z:I", bind("", "one"), execute("", 0), sync_)
	if _, err := other.Exec(t.Context(), "DROP TABLE t"); err != nil {
		t.Fatal(err)
	}
	r.expect("2 E:42P01 Z:I", bind("", "one"), execute("", 0), sync_)
}

// Describe must not run a statement, be it slow or writing.
func TestDescribeRunsNothing(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	r := hijack(t, srv, "olga")
	r.talk(query("CREATE TABLE t (i INTEGER)"))
	begin := time.Now()
	r.expect("1 t[] T[n:20:0] 2 T[n:20:0] Z:I", parse("", "SELECT count(*) AS n FROM range(10000000000) a, range(1000) b WHERE a.range % 3 = b.range % 2"),
		describe('S', ""), bind("", ""), describe('P', ""), sync_)
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("describing took %s", d)
	}
	r.expect("1 t[] T[i:23:0] 2 T[i:23:0] Z:I", parse("", "INSERT INTO t VALUES (1) RETURNING i"), describe('S', ""), bind("", ""), describe('P', ""), sync_)
	r.expect("T[n:20:0] D(0) C:SELECT_1 Z:I", query("SELECT count(*) AS n FROM t"))
}

func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{MaxMessage: 1 << 16})
	for name, bytes := range map[string][]byte{
		"negative length":    {'Q', 0xff, 0xff, 0xff, 0xff},
		"length below four":  {'Q', 0, 0, 0, 3},
		"huge length":        {'Q', 0x7f, 0xff, 0xff, 0xff},
		"unknown type":       {'!', 0, 0, 0, 4},
		"query without NUL":  {'Q', 0, 0, 0, 5, 'x'},
		"bind cut short":     {'B', 0, 0, 0, 8, 0, 0, 0xff, 0xff},
		"parse with no body": {'P', 0, 0, 0, 4},
	} {
		r := hijack(t, srv, "olga")
		if _, err := r.nc.Write(bytes); err != nil {
			t.Fatal(err)
		}
		if got := r.until("gone"); got != "E:08P01 gone" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, bytes := range map[string][]byte{
		"huge startup":     {0x7f, 0xff, 0xff, 0xff},
		"negative startup": {0xff, 0xff, 0xff, 0xff},
		"short startup":    {0, 0, 0, 4},
		"protocol 2":       {0, 0, 0, 8, 0, 2, 0, 0},
		"no terminator":    {0, 0, 0, 9, 0, 3, 0, 0, 'x'},
		"HTTP":             []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		nc, err := net.Dial("tcp", srv.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = nc.Write(bytes)
		answer, err := io.ReadAll(nc)
		if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() || len(answer) == 0 || answer[0] != 'E' {
			t.Errorf("%s: answer %q, %v", name, answer, err)
		}
		_ = nc.Close()
	}
}

func TestSSLAndGSSAreDeclined(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	nc, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	_ = nc.SetDeadline(time.Now().Add(5 * time.Second))
	for _, code := range []uint32{80877104, 80877103} {
		b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), code)
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		var answer [1]byte
		if _, err := io.ReadFull(nc, answer[:]); err != nil || answer[0] != 'N' {
			t.Fatal(answer, err)
		}
	}
}
