package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// applier writes to destinations. It holds no state of its own; one destination is written by one goroutine at a time.
type applier struct {
	f     *Fanout
	owner string
	pool  *pool
	files Files
}

// Applied is what a transaction did.
type Applied struct {
	Rows    int64 // inserted, updated or deleted
	Idle    int64 // stale, or there already
	Bad     int64
	Redone  int
	Took    time.Duration
	Control Control
}

// Redoing a transaction that lost to another one.
const (
	redoMost       = 10
	resolveTimeout = 5 * time.Minute
)

// Flood of rows that cannot be applied: that is a wrong projection, not a bad row.
const (
	floodRows  = 1000
	floodShare = 10 // per cent
)

// apply puts side files into a destination's table and moves its cursor to a snapshot, in one transaction.
func (a *applier) apply(ctx context.Context, d Destination, is Control, parts []Part, to int64, columns lake.Columns) (out Applied, err error) {
	begin := time.Now()
	defer func() { out.Took = time.Since(begin) }()
	var rows, bad int64
	var paths []string
	for _, p := range parts {
		rows, bad = rows+p.Rows, bad+p.Bad
		paths = append(paths, p.Path)
	}
	out.Bad = bad
	if bad >= floodRows && bad*100 > (rows+bad)*floodShare {
		return out, sluice.E("SLUICE-FANOUT-QUARANTINE-FLOOD", "write "+d.text(), fmt.Sprintf("%d of %d rows do not fit the projection", bad, rows+bad),
			"correct the fan-out's columns, then `sluice fanout resume`", nil)
	}
	next := is
	next.Cursor = to
	out.Control, out.Redone, err = a.write(ctx, d, is, next, "follow", func(ctx context.Context, s *lake.Session) (alters bool, do func(context.Context, *lake.Txn) error, err error) {
		script, add, err := a.target(ctx, s, d, is, columns)
		if err != nil {
			return false, nil, err
		}
		if err := a.ensure(ctx, s, d, script, bad > 0); err != nil {
			return false, nil, err
		}
		return len(add) > 0, func(ctx context.Context, tx *lake.Txn) error {
			out.Rows = 0
			for _, c := range add {
				if _, err := tx.Exec(ctx, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", d.Target.SQL(), lake.Ident(c.Name), c.Type)); err != nil {
					return err
				}
			}
			if rows > 0 {
				n, err := a.rows(ctx, tx, script, d, d.Target, paths)
				out.Rows = n
				if err != nil {
					return err
				}
			}
			if bad > 0 {
				_, err := tx.Exec(ctx, script.QuarantineSQL(d.ID, paths))
				return err
			}
			return nil
		}, nil
	})
	out.Idle = max(rows-out.Rows, 0)
	return out, err
}

// rows runs the statements that put side files into a table.
func (a *applier) rows(ctx context.Context, tx *lake.Txn, script Script, d Destination, into lake.Table, paths []string) (n int64, err error) {
	statements := []string{script.InsertSQL(into, paths)}
	if script.Def.Mode == CurrentState {
		statements = script.MergeSQL(into, d.ID, paths)
	}
	for _, q := range statements {
		m, err := tx.Exec(ctx, q)
		if err != nil {
			return 0, err
		}
		n += m
	}
	return n, nil
}

// target looks at a destination's table before it is written: it must be the one that the fence names. add are the columns
// that the source has got meanwhile and that the table takes, too.
func (a *applier) target(ctx context.Context, s *lake.Session, d Destination, is Control, source lake.Columns) (script Script, add lake.Columns, err error) {
	doing := "look at the table of " + d.text()
	t, err := s.DescribeTarget(ctx, d.Target)
	switch {
	case err != nil:
		return script, nil, err
	case !t.Exists:
		return script, nil, sluice.E("SLUICE-FANOUT-TARGET-MISSING", doing, fmt.Sprintf("table %s is gone", d.Target), "`sluice fanout reseed` builds it anew", nil)
	case is.TableID != 0 && t.TableID != is.TableID:
		return script, nil, sluice.E("SLUICE-FANOUT-TARGET-ID", doing, fmt.Sprintf("table %s is not the one that was filled", d.Target),
			"`sluice fanout reseed` builds it anew, `sluice fanout rebind` uses another table", nil)
	}
	columns := t.Columns
	if a.f.Def.Unknown == UnknownAdd {
		p, err := Project(a.f.Def, source, nil)
		if err != nil {
			return script, nil, err
		}
		for _, c := range p.TableColumns() {
			if _, ok := columns.Find(c.Name); !ok {
				add = append(add, c)
			}
		}
		columns = append(append(lake.Columns{}, columns...), add...)
	}
	p, err := Project(a.f.Def, source, columns)
	return Script{a.f.Def, p}, add, err
}

// ensure makes the tables that a destination needs besides its own: where it remembers keys that have gone away, and its
// quarantine.
func (a *applier) ensure(ctx context.Context, s *lake.Session, d Destination, script Script, quarantine bool) error {
	needs := map[lake.Table]string{}
	if script.whole() {
		needs[AwayTable(d.ID)] = script.AwayTableSQL(d.ID)
	}
	if quarantine {
		t := QuarantineTable(d.ID)
		needs[t] = fmt.Sprintf("CREATE TABLE %s (%s)", t.SQL(), quarantineColumns)
	}
	for t, create := range needs {
		ok, err := s.TableExists(ctx, t)
		if err != nil {
			return err
		}
		if ok {
			continue
		}
		if err := alone(ctx, s, "make table "+t.String(), create); err != nil {
			return err
		}
	}
	return nil
}

// work prepares a transaction on a session and gives what it does.
type work func(ctx context.Context, s *lake.Session) (alters bool, do func(context.Context, *lake.Txn) error, err error)

// write runs one fenced transaction to its end: one that lost to another is redone, one whose COMMIT was not answered is read
// back. It gives the control afterwards.
func (a *applier) write(ctx context.Context, d Destination, is, to Control, what string, w work) (after Control, redone int, err error) {
	for try := 1; ; try++ {
		after, err = a.once(ctx, d, is, to, what, w)
		var f *lake.Failure
		switch {
		case err == nil:
			return after, try - 1, nil
		case errors.As(err, &f) && f.Outcome == sluice.Unknown:
			done, read, rerr := a.resolve(ctx, d, is, after, what, err)
			if rerr != nil || done {
				return read, try - 1, rerr
			}
		case errors.As(err, &f) && f.Class == lake.Conflict:
		default:
			return is, try - 1, err
		}
		if try >= redoMost {
			return is, try - 1, err
		}
		if err := rest(ctx, min(50*time.Millisecond<<try, 2*time.Second)); err != nil {
			return is, try - 1, err
		}
	}
}

func (a *applier) once(ctx context.Context, d Destination, is, to Control, what string, w work) (Control, error) {
	s, err := a.pool.get(ctx, d.Org)
	if err != nil {
		return is, err
	}
	defer a.pool.put(s)
	alters, do, err := w(ctx, s)
	if err != nil {
		return is, err
	}
	st := step{d: d, owner: a.owner, is: is, to: to, alters: alters, info: what, do: do}
	after, err := st.commit(ctx, s)
	if alters {
		s.Forget(d.Target)
	}
	return after, err
}

// resolve finds out, on sessions of its own, what became of a transaction whose COMMIT was not answered (spec/lake.md §5).
func (a *applier) resolve(ctx context.Context, d Destination, is, to Control, what string, cause error) (done bool, read Control, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	defer cancel()
	for try := 1; ; try++ {
		done, read, err = a.resolveOnce(ctx, d, is, to, what)
		if err == nil || isFenced(err) || haltsDestination(sluice.CodeOf(err)) {
			return done, read, err
		}
		if rerr := rest(ctx, min(100*time.Millisecond<<try, 5*time.Second)); rerr != nil {
			return false, is, sluice.E("SLUICE-LAKE-UNRESOLVED", "find out whether "+d.text()+" was written", "", "it goes on by itself once the lake answers", errors.Join(cause, err))
		}
	}
}

func (a *applier) resolveOnce(ctx context.Context, d Destination, is, to Control, what string) (bool, Control, error) {
	a.pool.drop(d.Org)
	s, err := a.pool.get(ctx, d.Org)
	if err != nil {
		return false, is, err
	}
	defer a.pool.put(s)
	read, err := readControl(ctx, s, d)
	if err != nil {
		return false, is, err
	}
	o, err := outcome(is, to, read)
	if err != nil || o != sluice.Done {
		return false, is, err
	}
	if !s.OnPostgres() {
		return true, read, nil
	}
	// The engine removes files that it has written when the reply to COMMIT is lost, also if the commit is stored.
	missing, err := s.MissingOf(ctx, signature(d, to, is.Cursor, what))
	if err != nil {
		return false, is, err
	}
	if len(missing) > 0 {
		return false, read, sluice.E("SLUICE-FANOUT-DAMAGED", "find out whether "+d.text()+" was written",
			fmt.Sprintf("%d of its data files were lost with the reply to a COMMIT", len(missing)), "the table is built anew by itself", nil)
	}
	return true, read, nil
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
