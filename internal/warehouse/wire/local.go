package wire

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	"sluice/internal/warehouse/gate"
)

// runLocal answers SET, SHOW and the like.
func (s *Session) runLocal(ctx context.Context, p *portal, describe bool) (rows int64, err error) {
	l := p.stmt.local
	p.done = true
	switch l.Verb {
	case gate.Show:
		return s.runShow(p, describe)
	case gate.Set:
		err = s.set(ctx, l)
	case gate.Reset:
		err = s.reset(ctx, l.Name)
	case gate.Discard:
		err = s.discard(ctx, l.Name)
	case gate.Deallocate:
		err = s.deallocate(ctx, l)
	case gate.Declare:
		err = s.declare(ctx, p.stmt)
	case gate.CloseCursor:
		err = s.closeCursor(l.Name)
	case gate.Fetch, gate.Move:
		if rows, err = s.fetch(ctx, p, describe); err == nil {
			return rows, s.complete(l.Tag + " " + strconv.FormatInt(rows, 10))
		}
	case gate.Ignore:
	}
	if err != nil {
		return 0, err
	}
	return 0, s.complete(l.Tag)
}

func (s *Session) set(ctx context.Context, l *gate.Local) error {
	if l.Local && s.tx.now == txIdle {
		return s.warn("25P01", "SET LOCAL can only be used in transaction blocks")
	}
	before := s.vars.values[l.Name]
	if err := s.assign(ctx, l.Name, l.Values); err != nil {
		return err
	}
	s.tx.remember(l.Name, before, l.Local)
	return nil
}

func (s *Session) reset(ctx context.Context, name string) error {
	names := []string{name}
	if name == "all" {
		names = slices.Sorted(maps.Keys(s.vars.values))
	}
	for _, n := range names {
		if name == "all" && (rules[n] == fixed || s.vars.values[n] == s.vars.initial[n]) {
			continue
		}
		before := s.vars.values[n]
		if err := s.assign(ctx, n, nil); err != nil {
			return err
		}
		s.tx.remember(n, before, false)
	}
	return nil
}

func (s *Session) discard(ctx context.Context, what string) error {
	if what == "all" {
		s.dropPortals()
		if err := s.deallocate(ctx, &gate.Local{Name: "all", Tag: "DEALLOCATE ALL"}); err != nil {
			return err
		}
		return s.reset(ctx, "all")
	}
	return nil
}

// deallocate drops a statement of the protocol, or one that was made with PREPARE in the engine.
func (s *Session) deallocate(ctx context.Context, l *gate.Local) error {
	if l.Tag == "DEALLOCATE ALL" {
		for name := range s.prepared {
			s.dropPrepared(name)
		}
		return nil
	}
	if s.prepared[l.Name] != nil {
		s.dropPrepared(l.Name)
		return nil
	}
	if err := s.unpin(ctx); err != nil {
		return err
	}
	return s.engineError(ctx, s.db.Exec(ctx, "DEALLOCATE "+quote(l.Name)))
}

func (s *Session) runShow(p *portal, describe bool) (int64, error) {
	name := p.stmt.local.Name
	rows := [][]string{{s.vars.values[name]}}
	if name == "all" {
		rows = nil
		for _, n := range slices.Sorted(maps.Keys(s.vars.values)) {
			rows = append(rows, []string{show(n), s.vars.values[n], ""})
		}
	}
	if describe {
		if err := s.io.send(rowDescription(p.stmt.columns, p.formats)); err != nil {
			return 0, err
		}
	}
	for _, r := range rows {
		s.io.out = appendTextRow(s.io.out, r)
	}
	return int64(len(rows)), s.complete("SHOW")
}

// appendTextRow appends a DataRow of texts; text is the same in both formats.
func appendTextRow(dst []byte, row []string) []byte {
	from := len(dst)
	dst = append(dst, 'D', 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(row)))
	for _, c := range row {
		dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(c))), c...)
	}
	binary.BigEndian.PutUint32(dst[from+1:], uint32(len(dst)-from-1))
	return dst
}

// change is a setting that the end of the transaction may take back.
type change struct {
	name, before string
	local        bool
}

func (t *transaction) remember(name, before string, local bool) {
	if t.now == txOpen {
		t.changes = append(t.changes, change{name, before, local})
	}
}

// takeBack undoes settings at the end of a transaction: all of them after a rollback, those of SET LOCAL after a commit.
func (s *Session) takeBack(ctx context.Context, changes []change, committed bool) {
	for _, c := range slices.Backward(changes) {
		if committed && !c.local {
			continue
		}
		if _, ok := rules[c.name]; !ok {
			continue
		}
		if err := s.assign(context.WithoutCancel(ctx), c.name, pathOr(c.name, c.before)); err != nil {
			s.log.Warn("setting could not be taken back", "setting", c.name, "error", err.Error())
		}
	}
}

func pathOr(name, v string) []string {
	if name == "search_path" {
		return splitPath(v)
	}
	return []string{v}
}
