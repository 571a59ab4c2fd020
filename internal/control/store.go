package control

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

//go:embed *.sql
var files embed.FS

var queries = statedb.MustLoad(files, "*.sql")

// Store is the control plane's part of a state DB.
type Store struct{ db *statedb.DB }

// New makes a Store. It starts nothing.
func New(db *statedb.DB) *Store { return &Store{db: db} }

// By names who changes something, for the audit log.
type By struct{ Who, RequestID string }

var (
	dnsLabel   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
)

func invalid(doing, what, hint string) error {
	return sluice.E("SLUICE-CONTROL-INVALID", doing, what, hint, nil)
}

// maxWho is the longest name that the audit log keeps.
const maxWho = 200

// Entry is one row of the audit log. Before and After are what JSON makes of them; secrets do not belong there.
type Entry struct {
	Action string
	Org    sluice.Org // empty: of no org
	Object string
	Before any
	After  any
}

// Audit writes an audit row in the transaction of the change that it tells of. Other stores use it for theirs.
func Audit(ctx context.Context, tx *statedb.Tx, by By, e Entry) error {
	doc := func(v any) (any, error) {
		if v == nil {
			return nil, nil
		}
		data, err := json.Marshal(v)
		return string(data), err
	}
	before, err := doc(e.Before)
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	after, err := doc(e.After)
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	who := by.Who
	if who == "" {
		who = "system"
	}
	if len(who) > maxWho {
		who = strings.ToValidUTF8(who[:maxWho], "")
	}
	_, err = statedb.Exec(ctx, tx, queries.Get("AuditInsert"), statedb.Args{
		"who": who, "action": e.Action, "org": statedb.Null(e.Org), "object": e.Object,
		"before": before, "after": after, "request_id": statedb.Null(by.RequestID),
	})
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	return nil
}

// Bump raises the configuration's generation in the transaction of a change to an org, team, stream or warehouse.
func Bump(ctx context.Context, tx *statedb.Tx) error {
	if _, err := statedb.Exec(ctx, tx, queries.Get("CounterBump"), nil); err != nil {
		return fmt.Errorf("raise the generation: %w", err)
	}
	return nil
}

// Generation is the number that rises with every change that readers of the configuration see.
func (s *Store) Generation(ctx context.Context) (int64, error) {
	n, _, err := statedb.One(ctx, s.db, queries.Get("CounterGet"), nil, statedb.Value[int64])
	return n, err
}

// AuditRow is an audit row as it is listed.
type AuditRow struct {
	ID        int64           `json:"id"`
	At        time.Time       `json:"at"`
	Who       string          `json:"who"`
	Action    string          `json:"action"`
	Org       sluice.Org      `json:"org,omitempty"`
	Object    string          `json:"object"`
	Before    json.RawMessage `json:"before,omitempty"`
	After     json.RawMessage `json:"after,omitempty"`
	RequestID string          `json:"request_id,omitempty"`
}

// AuditLog lists audit rows, newest first, older than the row before (0: from the newest); org empty means all.
func (s *Store) AuditLog(ctx context.Context, org sluice.Org, before int64, limit int) ([]AuditRow, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	args := statedb.Args{"org": statedb.Null(org), "before_id": before, "limit": min(max(limit, 1), 1000)}
	return statedb.All(ctx, s.db, queries.Get("AuditList"), args, func(scan statedb.Scan) (r AuditRow, err error) {
		err = scan(&r.ID, statedb.Time(&r.At), &r.Who, &r.Action, statedb.Text(&r.Org), &r.Object,
			jsonColumn(&r.Before), jsonColumn(&r.After), statedb.Text(&r.RequestID))
		return r, err
	})
}

// change runs a mutation with its audit row and the generation's rise, in one transaction.
func (s *Store) change(ctx context.Context, by By, fn func(tx *statedb.Tx) (Entry, error)) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		e, err := fn(tx)
		if err != nil {
			return err
		}
		if err := Audit(ctx, tx, by, e); err != nil {
			return err
		}
		return Bump(ctx, tx)
	})
}

type jsonScanner struct{ to *json.RawMessage }

func jsonColumn(to *json.RawMessage) jsonScanner { return jsonScanner{to} }

// Scan implements sql.Scanner.
func (s jsonScanner) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*s.to = nil
	case string:
		*s.to = json.RawMessage(v)
	case []byte:
		*s.to = append(json.RawMessage(nil), v...)
	default:
		return fmt.Errorf("%T is not JSON", src)
	}
	return nil
}
