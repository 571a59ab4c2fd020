package changelog

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Sessions opens sessions to the warehouse of an org.
type Sessions interface {
	Open(ctx context.Context, org sluice.Org) (*lake.Session, error)
}

// Files is the store of the lakes' data, as far as a changelog writes to it itself: the raw messages of a flush.
type Files interface {
	// Create makes a file that the warehouse can read under the same path. Close makes it complete.
	Create(ctx context.Context, path string) (io.WriteCloser, error)
	// Folder makes the folder of a path, where the store has folders.
	Folder(ctx context.Context, path string) error
	// Remove takes a file away; one that is not there is none to speak of.
	Remove(ctx context.Context, path string) error
}

// Flushed is what a flush has done.
type Flushed struct {
	Slot      int
	Trigger   Trigger
	Messages  int64
	Rows      int64
	RawBytes  int64
	FileBytes int64
	Filtered  int64
	Refetched int64
	Poison    map[string]int64
	Conflicts []Conflict
	Added     []string
	Steps     map[string]time.Duration // write, survey, decode, commit
	Seq       int64
	Recovered bool // the reply to COMMIT was lost, and it had landed
	At        time.Time
}

// Conflict is a name whose values ended in _extra.
type Conflict struct {
	Column    string
	Count     int64
	Partition int32 // of the first
	Offset    int64
}

// sink writes the buffers of one slot to the lake. It is used by one goroutine at a time.
type sink struct {
	c        *Changelog
	slot     int
	owner    string
	sessions Sessions
	files    Files
	log      *slog.Logger
	now      func(context.Context) (time.Time, error) // the clock of the state DB

	s       *lake.Session
	seq     int64
	epoch   int32
	last    time.Time // _inserted_at of the flush before
	columns lake.Columns
	altered time.Time
	pause   time.Duration // between two changes of the table's schema; zero: schemaPause
	flood   flood
	filter  func() (values *[]string, version int64)
	stop    chan struct{} // closed when a flush that waits to be tried again is given up
}

// schemaPause is how long the table stands still between two changes of its schema: each one reloads the catalog everywhere.
const schemaPause = 10 * time.Second

// Redoing a transaction that lost to another one.
const (
	redoMost = 10
	redoMin  = 50 * time.Millisecond
	redoMax  = 2 * time.Second
)

// maxSessionAge bounds how long a session is used.
const maxSessionAge = 30 * time.Minute

// session gives an open session.
func (k *sink) session(ctx context.Context) (*lake.Session, error) {
	if k.s != nil && !k.s.Broken() && time.Since(k.s.Opened) < maxSessionAge && time.Until(k.s.Expires) > time.Minute {
		return k.s, nil
	}
	k.close()
	s, err := k.sessions.Open(ctx, k.c.Lake)
	if err != nil {
		return nil, err
	}
	k.s = s
	return s, nil
}

func (k *sink) close() {
	if k.s != nil {
		_ = k.s.Close()
		k.s = nil
	}
}

// take makes the slot ours: from this COMMIT on the former owner can commit nothing. It gives what the slot goes on with.
func (k *sink) take(ctx context.Context) (SlotState, error) {
	doing := fmt.Sprintf("take slot %d of changelog %s", k.slot, k.c.Name)
	for try := 1; ; try++ {
		st, err := k.tryTake(ctx, doing)
		var f *lake.Failure
		switch {
		case err == nil:
			k.seq, k.last = st.Seq, st.At
			k.epoch, _ = st.Epoch()
			return st, nil
		case errors.As(err, &f) && (f.Class == lake.Conflict || f.Outcome == sluice.Unknown) && try < redoMost:
			if err := pause(ctx, try); err != nil {
				return st, err
			}
		default:
			return st, err
		}
	}
}

func (k *sink) tryTake(ctx context.Context, doing string) (SlotState, error) {
	s, err := k.session(ctx)
	if err != nil {
		return SlotState{}, err
	}
	st, err := ReadSlot(ctx, s, k.c.ID, k.slot)
	if err != nil || st.Owner == k.owner && st.Seq > 0 { // its own COMMIT, whose reply was lost
		return st, err
	}
	tx, err := s.Begin(ctx, false, doing)
	if err != nil {
		return st, err
	}
	if err := moveFence(ctx, tx, k.c, k.slot, st.Seq, k.owner); err != nil {
		return st, err
	}
	if err := tx.Sign(ctx, "changelog", commitInfo{ChangelogID: k.c.ID, Slot: k.slot, Seq: st.Seq + 1}.text()); err != nil {
		return st, err
	}
	if err := isAlive(ctx, tx, k.c, k.slot, st.Seq+1); err != nil {
		return st, err
	}
	if err := tx.Commit(ctx); err != nil {
		return st, err
	}
	return ReadSlot(ctx, s, k.c.ID, k.slot)
}

func pause(ctx context.Context, try int) error {
	d := min(redoMin<<try, redoMax)
	t := time.NewTimer(d/2 + mathrand.N(d/2))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// flushing is one flush under way.
type flushing struct {
	b       *Buffer
	trigger Trigger
	raw     string // path of the raw messages
	survey  *Survey
	src     Source
	version int64 // of the filter
	stamp   stamp
	plan    Plan
	rows    string // path of the rows; empty: not written yet
	poison  string
	nRows   int64
	nPoison int64
	out     Flushed

	replayed bool // the messages come from quarantine: what is poison stays there
}

// step adds to the time of a step.
func (f *flushing) step(name string, begin time.Time) {
	if f.out.Steps == nil {
		f.out.Steps = map[string]time.Duration{}
	}
	f.out.Steps[name] += time.Since(begin)
}

// flush writes a buffer. It may be called again with the same buffer after an error; ErrFenced and halts are final.
func (k *sink) flush(ctx context.Context, f *flushing) error {
	begin := time.Now()
	f.out = Flushed{Slot: k.slot, Trigger: f.trigger, Messages: f.b.Rows(), RawBytes: f.b.Raw(), Refetched: f.b.Refetched()}
	if err := k.prepare(ctx, f); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := k.attempt(ctx, f)
		var fail *lake.Failure
		switch {
		case err == nil:
			k.seq++
			f.step("all", begin)
			k.done(ctx, f)
			return nil
		case !errors.As(err, &fail):
			return err
		case fail.Outcome == sluice.Unknown || fail.Class == lake.NotOurs:
			done, rerr := k.resolve(ctx, err, landed(k.c, f.b.Ranges()))
			if rerr != nil {
				return rerr
			}
			if done {
				f.out.Recovered = true
				f.step("all", begin)
				k.done(ctx, f)
				return nil
			}
			// Not done, as far as can be seen: the redo takes the same fence value, so that a late COMMIT makes one of the two
			// fail, and writes under a new key, so that it never writes over a file that is registered.
			f.rows, f.poison = "", ""
		case fail.Class == lake.Conflict:
			k.columns = nil // somebody may have altered the table
		default:
			k.columns = nil
			return err
		}
		if try >= redoMost {
			return err
		}
		k.log.DebugContext(ctx, "flush is redone", "try", try, "error", err)
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// prepare writes the raw messages and looks at them; a second call finds its work done.
func (k *sink) prepare(ctx context.Context, f *flushing) error {
	s, err := k.session(ctx)
	if err != nil {
		return err
	}
	if f.stamp.at.IsZero() {
		now, err := k.now(ctx)
		if err != nil {
			return err
		}
		if now.Before(k.last) {
			now = k.last
		}
		f.stamp = newStamp(now)
	}
	if f.raw == "" {
		begin := time.Now()
		path := k.key(s, "raw.parquet")
		w, err := k.files.Create(ctx, path)
		if err == nil {
			err = errors.Join(f.b.write(w), w.Close())
		}
		if err != nil {
			return fmt.Errorf("write the messages of slot %d of changelog %s: %w", k.slot, k.c.Name, err)
		}
		f.raw = path
		f.step("write", begin)
	}
	if f.survey == nil {
		begin := time.Now()
		f.src = Source{Path: f.raw, Def: k.c.Def, Epoch: k.epoch}
		if k.filter != nil {
			f.src.Values, f.version = k.filter()
		}
		survey, err := look(ctx, s, f.src)
		if err != nil {
			return err
		}
		f.survey = &survey
		f.src.Clean = survey.Poisoned() == 0
		f.step("survey", begin)
	}
	if !f.replayed && k.flood.with(f.survey.Rows, f.survey.Poisoned()) {
		return sluice.E("SLUICE-CHANGELOG-POISON-FLOOD", fmt.Sprintf("decode slot %d of changelog %s", k.slot, k.c.Name),
			fmt.Sprintf("%d of %d messages cannot be rows: %s", f.survey.Poisoned(), f.survey.Rows, reasonsText(f.survey.Poison)),
			"that is a wrong decoder rather than bad messages: mend the changelog's config, then `sluice changelog resume`; nothing of this was taken", nil)
	}
	return nil
}

// done notes a flush that is stored.
func (k *sink) done(ctx context.Context, f *flushing) {
	k.last = f.stamp.at
	f.out.Seq, f.out.At = k.seq, f.stamp.at
	k.flood.passed(f.survey.Rows, f.survey.Poisoned())
	k.drop(ctx, f.raw)
}

func reasonsText(m map[string]int64) string {
	out := ""
	for _, r := range sortedKeys(m) {
		if out != "" {
			out += ", "
		}
		out += fmt.Sprintf("%d %s", m[r], r)
	}
	return out
}

// key gives a path that nothing else uses.
func (k *sink) key(s *lake.Session, name string) string { return newKey(s, k.c, k.slot, k.seq+1, name) }

func newKey(s *lake.Session, c *Changelog, slot int, seq int64, name string) string {
	nonce := make([]byte, 6)
	_, _ = rand.Read(nonce) // never fails
	return fmt.Sprintf("%s%s%s/%d-%d-%s/%s", s.DataPath(), lake.WriteFolder, hexID(c.ID), slot, seq, hex.EncodeToString(nonce), name)
}

// drop removes a file that is not needed any more; what stays is swept as an orphan.
func (k *sink) drop(ctx context.Context, path string) {
	if err := k.files.Remove(context.WithoutCancel(ctx), path); err != nil {
		k.log.WarnContext(ctx, "raw messages not removed: the orphan sweep takes them", "path", path, "error", err)
	}
}

// look surveys raw messages.
func look(ctx context.Context, s *lake.Session, src Source) (Survey, error) {
	const doing = "look at the messages"
	out := Survey{Poison: map[string]int64{}}
	var names shapes
	shapesSeen := 0
	count := func(reason string, keep bool, n int64) {
		out.Rows += n
		switch {
		case reason != "":
			out.Poison[reason] += n
		case !keep:
			out.Filtered += n
		}
	}
	scan := func(rows pgx.Rows) error {
		var reason string
		var keep bool
		var shape *string
		var n int64
		if err := rows.Scan(&reason, &keep, &shape, &n); err != nil {
			return err
		}
		count(reason, keep, n)
		if shape == nil {
			return nil
		}
		shapesSeen++
		return names.shape(*shape)
	}
	if err := s.Look(ctx, doing, src.surveySQL(), scan); err != nil {
		return out, err
	}
	if shapesSeen < mostStructures-100 { // a few of the rows are counts of poison and of what the filter left out
		out.Seen = names.seen
		return out, nil
	}
	out, names = Survey{Poison: map[string]int64{}}, shapes{}
	if err := s.Look(ctx, doing, src.countSQL(), scan); err != nil {
		return out, err
	}
	err := s.Look(ctx, doing, src.namesSQL(), func(rows pgx.Rows) error {
		var name, kind string
		var n int64
		if err := rows.Scan(&name, &kind, &n); err != nil {
			return err
		}
		names.add(name, kindNamed(kind))
		return nil
	})
	out.Seen = names.seen
	return out, err
}

// attempt is one try of the transaction.
func (k *sink) attempt(ctx context.Context, f *flushing) error {
	s, err := k.session(ctx)
	if err != nil {
		return err
	}
	if err := k.decide(ctx, s, f); err != nil {
		return err
	}
	if err := k.decode(ctx, s, f); err != nil {
		return err
	}
	begin := time.Now()
	defer func() { f.step("commit", begin) }()
	doing := fmt.Sprintf("flush slot %d of changelog %s", k.slot, k.c.Name)
	tx, err := s.Begin(ctx, f.plan.Changes(), doing)
	if err != nil {
		return err
	}
	ranges := f.b.Ranges()
	sql, want := offsetsSQL(k.c, k.slot, k.seq, k.owner, k.epoch, ranges)
	n, err := tx.Exec(ctx, sql) // the transaction's first use of the lake: its snapshot starts here
	if err != nil {
		return err
	}
	if n != want {
		tx.Rollback()
		return fenced(k.c, k.slot, k.seq) // or an offset is not where it should be, or a replay has moved the fence: resolve tells
	}
	if err := k.alter(ctx, tx, f.plan); err != nil {
		return err
	}
	if f.nRows > 0 {
		if err := tx.Register(ctx, k.c.Table, k.c.Def.Partition == PartitionMonth, f.rows); err != nil {
			return err
		}
	}
	if f.nPoison > 0 {
		if err := tx.Register(ctx, QuarantineTable(k.c.ID), false, f.poison); err != nil {
			return err
		}
	}
	info := commitInfo{ChangelogID: k.c.ID, Slot: k.slot, Seq: k.seq + 1, FilterVersion: f.version}
	for _, r := range ranges {
		info.Ranges = append(info.Ranges, [3]int64{int64(r.Partition), r.Expected, r.Next})
	}
	if err := tx.Sign(ctx, "changelog", info.text()); err != nil {
		return err
	}
	if err := isAlive(ctx, tx, k.c, k.slot, k.seq+1); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if f.plan.Changes() {
		k.columns, k.altered = nil, time.Now()
		for _, c := range f.plan.Add {
			f.out.Added = append(f.out.Added, c.Name)
		}
	}
	return nil
}

// decide makes the plan, waiting for the table's schema to have stood still for a while if it has to change.
func (k *sink) decide(ctx context.Context, s *lake.Session, f *flushing) error {
	if k.columns == nil {
		s.Forget(k.c.Table)
		t, err := s.DescribeTarget(ctx, k.c.Table)
		if err != nil {
			return err
		}
		if !t.Exists {
			return sluice.E("SLUICE-CHANGELOG-TABLE", fmt.Sprintf("flush slot %d of changelog %s", k.slot, k.c.Name), fmt.Sprintf("table %s is gone", k.c.Table),
				"restore it from a snapshot, or drop the changelog and add it anew", nil)
		}
		k.columns = t.Columns
	}
	plan := Decide(k.columns, k.c.Def, f.survey.Seen)
	if plan.Changes() {
		if wait := cmp.Or(k.pause, schemaPause) - time.Since(k.altered); !k.altered.IsZero() && wait > 0 {
			t := time.NewTimer(wait)
			defer t.Stop()
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-t.C:
			}
		}
	}
	if f.rows != "" && !samePlan(plan, f.plan) {
		f.rows, f.poison = "", "" // what was written is not what is wanted now; the file becomes an orphan
	}
	f.plan = plan
	return nil
}

// samePlan reports whether two plans read values in the same way.
func samePlan(a, b Plan) bool {
	if len(a.Fields) != len(b.Fields) || len(a.Others) != len(b.Others) {
		return false
	}
	for i := range a.Fields {
		x, y := a.Fields[i], b.Fields[i]
		if x.Name != y.Name || x.Column != y.Column || !x.Type.Equal(y.Type) || x.Reading != y.Reading || x.Unit != y.Unit {
			return false
		}
	}
	return true
}

// decode writes rows and poison as files of the lake. A file that no COMMIT registers is an orphan, and swept.
func (k *sink) decode(ctx context.Context, s *lake.Session, f *flushing) error {
	if f.rows != "" {
		return nil
	}
	begin := time.Now()
	doing := fmt.Sprintf("decode slot %d of changelog %s", k.slot, k.c.Name)
	name := "rows.parquet"
	if k.c.Def.Partition == PartitionMonth {
		name = "_inserted_month=" + f.stamp.month + "/" + name
	}
	rows := k.key(s, name)
	nRows, err := k.copy(ctx, s, doing, f.src.rowsSQL(f.plan, f.stamp), rows)
	if err != nil {
		return err
	}
	f.nRows, f.nPoison = nRows, 0
	poison := ""
	if !f.replayed && (f.survey.Poisoned() > 0 || k.c.Def.OnConflict == ConflictQuarantine && f.plan.conflict() != "") {
		poison = k.key(s, "quarantine.parquet")
		if f.nPoison, err = k.copy(ctx, s, doing, f.src.poisonSQL(f.plan, f.stamp), poison); err != nil {
			return err
		}
	}
	if !f.replayed && f.nRows+f.nPoison+f.survey.Filtered != f.b.Rows() {
		return sluice.E("SLUICE-CHANGELOG-CONTROL", doing, fmt.Sprintf("%d messages became %d rows, %d of quarantine and %d left out", f.b.Rows(), f.nRows, f.nPoison, f.survey.Filtered),
			"nothing was written; this is a bug: please report it", nil)
	}
	f.out.Rows, f.out.Filtered, f.out.Poison = f.nRows, f.survey.Filtered, f.survey.Poison
	if n := f.nPoison - f.survey.Poisoned(); n > 0 {
		f.out.Poison = map[string]int64{"conflict": n}
		for r, c := range f.survey.Poison {
			f.out.Poison[r] = c
		}
	}
	f.out.Conflicts, f.out.FileBytes = nil, 0
	if err := s.Look(ctx, doing, "SELECT size FROM read_blob("+lake.PathLiteral(rows)+")", func(r pgx.Rows) error { return r.Scan(&f.out.FileBytes) }); err != nil {
		return err
	}
	if f.plan.MayConflict() {
		err := s.Look(ctx, doing, conflictsSQL(rows), func(r pgx.Rows) error {
			var c Conflict
			if err := r.Scan(&c.Column, &c.Count, &c.Partition, &c.Offset); err != nil {
				return err
			}
			f.out.Conflicts = append(f.out.Conflicts, c)
			return nil
		})
		if err != nil {
			return err
		}
	}
	f.rows, f.poison = rows, poison
	f.step("decode", begin)
	return nil
}

func (k *sink) copy(ctx context.Context, s *lake.Session, doing, query, path string) (int64, error) {
	if err := k.files.Folder(ctx, path); err != nil {
		return 0, err
	}
	return s.Statement(ctx, doing, fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet, COMPRESSION zstd)", query, lake.Literal(path)))
}

// alter changes the table as planned. Never a RENAME beside it: that makes a lake unusable (spec/lake.md rule 4).
func (k *sink) alter(ctx context.Context, tx *lake.Txn, p Plan) error {
	for _, c := range p.Add {
		if _, err := tx.Exec(ctx, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", k.c.Table.SQL(), lake.Ident(c.Name), c.Type)); err != nil {
			return k.alterError(err)
		}
	}
	for _, c := range p.Widen {
		if _, err := tx.Exec(ctx, fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s", k.c.Table.SQL(), lake.Ident(c.Name), c.Type)); err != nil {
			return k.alterError(err)
		}
	}
	return nil
}

// alterError: a table that is not as it was described has been altered by another slot: look again and redo.
func (k *sink) alterError(err error) error {
	f := lake.AsFailure(err, lake.PhaseData, "alter the table")
	f.Class = lake.Conflict
	return f
}
