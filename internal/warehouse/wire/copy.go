package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/warehouse/bulk"
	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/gate/token"
	"sluice/internal/warehouse/sqlstate"
	"sluice/internal/warehouse/value"
)

// runCopy runs COPY … FROM STDIN and COPY … TO STDOUT.
func (s *Session) runCopy(ctx context.Context, p *portal) (rows int64, err error) {
	p.done = true
	if err := s.mayRun(p.stmt); err != nil {
		return 0, err
	}
	if p.stmt.copy.Out {
		rows, err = s.copyOut(ctx, p.stmt)
	} else {
		rows, err = s.copyIn(ctx, p.stmt)
	}
	if err != nil {
		return rows, err
	}
	return rows, s.complete(fmt.Sprintf("COPY %d", rows))
}

// copyQuery is the query whose rows a COPY sends, or whose columns it fills.
func (s *Session) copyQuery(ctx context.Context, st *prepared) (*prepared, error) {
	text := st.copy.Statement(st.text)
	q := &prepared{text: text, tokens: token.Scan(text), dropped: true}
	if err := s.resolve(ctx, q, nil); err != nil {
		e := *sqlstate.From(err)
		e.Position = 0
		return nil, &e
	}
	if !q.rows || len(q.params) > 0 {
		q.close()
		return nil, sqlstate.New(sqlstate.FeatureNotSupported, "COPY takes a query without parameters")
	}
	return q, nil
}

func columnNames(columns []duck.Column) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return names
}

func copyFormats(o bulk.Options, n int) (overall byte, codes []uint16) {
	codes = make([]uint16, n)
	if o.Format == bulk.Binary {
		overall = 1
		for i := range codes {
			codes[i] = 1
		}
	}
	return overall, codes
}

func (s *Session) copyOut(ctx context.Context, st *prepared) (rows int64, err error) {
	q, err := s.copyQuery(ctx, st)
	if err != nil {
		return 0, err
	}
	opt := st.copy.Options
	po := &portal{stmt: q, formats: []int16{value.Text}}
	if opt.Format == bulk.Binary {
		po.formats[0] = value.Binary
	}
	defer po.close()
	if err := s.start(ctx, po); err != nil {
		return 0, err
	}
	overall, codes := copyFormats(opt, len(q.columns))
	if err := s.io.send(&pgproto3.CopyOutResponse{OverallFormat: overall, ColumnFormatCodes: codes}); err != nil {
		return 0, err
	}
	w := bulk.NewWriter(opt, columnNames(q.columns))
	begin := w.Begin(nil) // the head of binary data is one message with the first row, as clients expect
	if opt.Format != bulk.Binary {
		if err := s.copyData(func(dst []byte) []byte { return append(dst, begin...) }); err != nil {
			return 0, err
		}
		begin = nil
	}
	var field []byte
	for {
		ch, err := po.result.Next(ctx)
		if err != nil {
			return rows, s.engineError(ctx, err)
		}
		if ch == nil {
			break
		}
		po.chunk = ch
		for row := range ch.Size() {
			if field, err = s.copyRow(po, w, begin, row, field); err != nil {
				return rows, err
			}
			begin = nil
			rows++
		}
		ch.Close()
		po.chunk = nil
	}
	if err := s.copyData(func(dst []byte) []byte { return w.End(append(dst, begin...)) }); err != nil {
		return rows, err
	}
	return rows, s.io.send(&pgproto3.CopyDone{})
}

// copyRow sends a row of the chunk, after what begins the data; field is memory that is used again.
func (s *Session) copyRow(po *portal, w *bulk.Writer, begin []byte, row int, field []byte) ([]byte, error) {
	var err error
	sendErr := s.copyData(func(dst []byte) []byte {
		dst = w.Row(append(dst, begin...))
		for i, enc := range po.encoders {
			v := po.chunk.Column(i)
			if v.Null(row) {
				dst = w.Null(dst)
				continue
			}
			var e error
			if field, e = enc(field[:0], v, row); e != nil && err == nil {
				err = fmt.Errorf("column %q: %w", po.stmt.columns[i].Name, e)
			}
			dst = w.Field(dst, field)
		}
		return w.EndRow(dst)
	})
	return field, errors.Join(err, sendErr)
}

// copyData sends what f appends as one CopyData message, if it is anything.
func (s *Session) copyData(f func([]byte) []byte) error {
	at := len(s.io.out)
	out := f(append(s.io.out, 'd', 0, 0, 0, 0))
	if len(out) == at+headerBytes {
		return nil
	}
	binary.BigEndian.PutUint32(out[at+1:], uint32(len(out)-at-1))
	s.io.out = out
	return s.io.relieve()
}

// copySource is the name under which the engine sees the rows that a COPY brings.
const copySource = "sluice_copy"

// copyBytes is how much of long values the engine collects before it writes them.
const copyBytes = 64 << 20

// copyIn reads rows from the client. All of them are one transaction, the client's own if it has one.
func (s *Session) copyIn(ctx context.Context, st *prepared) (rows int64, err error) {
	own := s.tx.now == txIdle
	if own {
		if err := s.begin(ctx, true); err != nil {
			return 0, err
		}
	}
	if err := s.take(ctx, st.tokens); err != nil {
		return 0, err
	}
	q, err := s.copyQuery(ctx, st)
	if err != nil {
		return 0, err
	}
	columns := q.columns
	q.close()
	in, err := s.newIntake(st.copy, columns)
	if err != nil {
		return 0, err
	}
	defer in.close()
	overall, codes := copyFormats(st.copy.Options, len(columns))
	if err := s.io.send(&pgproto3.CopyInResponse{OverallFormat: overall, ColumnFormatCodes: codes}); err != nil {
		return 0, err
	}
	if err := s.io.flush(); err != nil {
		return 0, err
	}
	if err := s.receive(ctx, in); err != nil {
		return 0, in.where(err)
	}
	if err := in.app.Finish(ctx); err != nil {
		return 0, in.where(s.engineError(ctx, err))
	}
	s.tx.wrote++
	in.close()
	if own {
		if err := s.commit(ctx); err != nil {
			return 0, err
		}
	}
	return in.rows, nil
}

// receive feeds the client's messages to the intake until it says that it is done.
func (s *Session) receive(ctx context.Context, in *intake) error {
	s.unwatch()
	stop := context.AfterFunc(ctx, func() { _ = s.nc.SetReadDeadline(time.Now()) })
	defer func() {
		stop()
		_ = s.nc.SetReadDeadline(time.Time{})
	}()
	for {
		kind, body, err := s.copyMessage(ctx)
		if err != nil {
			return err
		}
		switch kind {
		case 'd':
			in.reader.Feed(body)
		case 'c':
			in.reader.Close()
		case 'f':
			return sqlstate.New(sqlstate.QueryCanceled, "COPY from stdin failed: %s", strings.TrimRight(string(body), "\x00"))
		case 'H', 'S': // a client may have sent them with the statement
			continue
		default:
			return sqlstate.New(sqlstate.ProtocolViolation, "unexpected message type 0x%02X during COPY from stdin", kind)
		}
		if err := in.take(ctx); err != nil || kind == 'c' {
			return err
		}
	}
}

// copyMessage waits for the client's next message. What ends the statement ends the wait.
func (s *Session) copyMessage(ctx context.Context) (byte, []byte, error) {
	for {
		err := s.io.await()
		if err == nil {
			kind, body, err := s.io.raw(s.cfg.MaxMessage)
			if isEOF(err) {
				err = errGone
			}
			return kind, body, err
		}
		switch {
		case isEOF(err):
			return 0, nil, errGone
		case ctx.Err() != nil && s.life.Err() != nil:
			return 0, nil, s.death()
		case ctx.Err() != nil:
			return 0, nil, context.Cause(ctx)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, nil, err
		}
		_ = s.nc.SetReadDeadline(time.Time{}) // it was a request to drain, which waits for the end of the COPY
	}
}

// intake turns COPY data into rows of a table.
type intake struct {
	s       *Session
	table   string
	names   []string
	reader  *bulk.Reader
	readers []value.Reader
	app     *duck.Appender
	column  int // that is being read
	raw     []byte
	rows    int64
	casts   map[*duck.Type]*duck.Stmt
}

func (s *Session) newIntake(c *gate.Copy, columns []duck.Column) (*intake, error) {
	in := &intake{s: s, table: c.Table, names: columnNames(columns), casts: map[*duck.Type]*duck.Stmt{}}
	in.reader = bulk.NewReader(c.Options, in.names, s.cfg.MaxMessage)
	format := value.Text
	if c.Options.Format == bulk.Binary {
		format = value.Binary
	}
	types := make([]*duck.Type, len(columns))
	targets, sources := make([]string, len(columns)), make([]string, len(columns))
	for i, col := range columns {
		source := fmt.Sprintf("c%d", i+1)
		types[i], targets[i], sources[i] = col.Type, quote(col.Name), source
		if !flat(col.Type) { // such values come as JSON
			types[i], sources[i] = duck.JSONType(), fmt.Sprintf("CAST(%s AS %s)", source, col.Type.Name())
		}
		r, err := value.NewReader(types[i], format, s.vars.zone, in.cast)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", col.Name, err)
		}
		in.readers = append(in.readers, r)
	}
	sql := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", c.Table, strings.Join(targets, ", "), strings.Join(sources, ", "), copySource)
	names := make([]string, len(columns))
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i+1)
	}
	app, err := s.db.NewAppender(sql, copySource, types, names, copyBytes)
	if err != nil {
		return nil, s.conn.Check(err)
	}
	in.app = app
	return in, nil
}

// flat reports whether values of a type have a form of their own in a COPY.
func flat(t *duck.Type) bool {
	switch t.ID {
	case duck.List:
		return t.Child.ID != duck.List && flat(t.Child)
	case duck.Struct, duck.Map, duck.Union, duck.Array:
		return false
	}
	return true
}

func (in *intake) close() {
	for _, st := range in.casts {
		st.Close()
	}
	in.casts = nil
	if in.app != nil {
		in.app.Close()
		in.app = nil
	}
}

// take reads the rows that have arrived.
func (in *intake) take(ctx context.Context) error {
	for {
		in.column = -1
		row, ok, err := in.reader.Next()
		if err != nil || !ok {
			return err
		}
		at, size := in.app.Row(), 0
		for i, f := range row {
			if f.Null {
				in.app.Column(i).SetNull(at)
				continue
			}
			in.column, in.raw = i, f.Bytes
			size += len(f.Bytes)
			if err := in.readers[i](in.app.Column(i), at, f.Bytes); err != nil {
				return err
			}
		}
		in.column = -1
		in.rows++
		if err := in.app.EndRow(ctx, size); err != nil {
			return in.s.engineError(ctx, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// cast has the engine read a text.
func (in *intake) cast(b *duck.Builder, row int, text []byte) error {
	ctx := in.s.life
	st := in.casts[b.Type]
	if st == nil {
		var err error
		if st, err = in.s.db.Prepare(ctx, "SELECT CAST($1::VARCHAR AS "+b.Type.Name()+")"); err != nil {
			return in.s.engineError(ctx, err)
		}
		in.casts[b.Type] = st
	}
	arg := duck.TextValue(string(text))
	defer arg.Close()
	if err := st.Bind(1, arg); err != nil {
		return in.s.engineError(ctx, err)
	}
	r, err := st.Execute(ctx)
	if err != nil {
		return in.s.engineError(ctx, err)
	}
	defer r.Close()
	ch, err := r.Next(ctx)
	if err != nil || ch == nil {
		return in.s.engineError(ctx, err)
	}
	defer ch.Close()
	if !b.Copy(row, ch.Column(0), 0) {
		return fmt.Errorf("a column of type %s: %w", b.Type.Name(), value.ErrType)
	}
	return nil
}

// maxShown bounds how much of a value an error shows.
const maxShown = 100

// where adds the place in the data to an error.
func (in *intake) where(err error) error {
	if fatal(err) {
		return err
	}
	e := *sqlstate.From(err)
	if e.Where != "" {
		return &e
	}
	e.Position = 0
	e.Where = fmt.Sprintf("COPY %s, line %d", in.table, in.reader.Line())
	if in.column >= 0 {
		shown := string(in.raw)
		if len(shown) > maxShown {
			shown = strings.ToValidUTF8(shown[:maxShown], "") + "..."
		}
		e.Where += fmt.Sprintf(", column %s: %q", in.names[in.column], strings.ToValidUTF8(shown, "?"))
	}
	return &e
}
