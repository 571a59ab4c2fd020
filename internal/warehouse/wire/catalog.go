package wire

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/warehouse/catalog"
	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/gate/token"
)

// overlay is what a session has of PostgreSQL's catalog: views and macros in its temporary schema.
type overlay struct {
	set     bool            // the views are there
	source  *catalog.Source // nil until it is known
	version string          // of the lake's schema that the base is of; "engine": of the engine's own functions
}

// ofEngine is the version of a base that needs no renewal.
const ofEngine = "engine"

// adapt rewrites a tenant's statement that speaks of PostgreSQL's catalog into what the engine has. Sluice's services speak
// the engine's dialect.
func (s *Session) adapt(ctx context.Context, p *prepared) error {
	if !s.who.Role.Tenant() {
		return nil
	}
	rewrite, reads := catalog.Needed(p.tokens)
	if reads {
		if err := s.layCatalog(ctx, p.tokens); err != nil {
			return err
		}
	}
	if !rewrite {
		return nil
	}
	text := catalog.Rewrite(catalog.Env{
		Database: string(s.who.Org), User: s.who.Name, PID: s.pid, Version: "PostgreSQL " + s.cfg.ServerVersion + ", DuckDB",
		Setting: func(name string) (string, bool) { v, ok := s.vars.values[name]; return v, ok },
	}, p.text, p.tokens)
	if text != p.text {
		p.text, p.tokens, p.rewritten = text, token.Scan(text), true
	}
	return nil
}

// layCatalog makes the views and macros of the catalog, and brings them up to date. Inside a transaction they end with it
// if it is rolled back.
func (s *Session) layCatalog(ctx context.Context, tokens []token.Token) error {
	if err := s.layBase(ctx); err != nil {
		return s.engineError(ctx, err)
	}
	if !s.overlay.set {
		if err := s.lay(ctx, catalog.Setup(string(s.who.Org), s.who.Name)); err != nil {
			return s.engineError(ctx, err)
		}
		s.overlay.set = true
	}
	for _, k := range tokens {
		var err error
		switch {
		case !k.Name():
		case strings.EqualFold(k.Text, "pg_settings"):
			err = s.lay(ctx, []string{s.settingsView()})
		case strings.EqualFold(k.Text, "pg_stat_activity"):
			err = s.lay(ctx, []string{s.activityView()})
		}
		if err != nil {
			return s.engineError(ctx, err)
		}
	}
	return nil
}

// layBase makes what the views stand on anew when the schema of the lake has changed.
func (s *Session) layBase(ctx context.Context) error {
	if s.overlay.source == nil {
		if err := s.findSource(ctx); err != nil {
			return err
		}
	}
	src, version := *s.overlay.source, ofEngine
	if s.tx.now == txOpen && s.tx.ddl {
		src.Metadata = "" // only the engine knows of changes that are not committed
	}
	if src.Metadata != "" {
		got, err := s.db.Text(ctx, src.Version())
		if err != nil || len(got) != 1 {
			return fmt.Errorf("read the version of the lake's schema: %w", orEmpty(err))
		}
		version = got[0]
		src.Views = !strings.HasSuffix(version, "/0")
		if !src.Views && !src.Store {
			version = "lake" // views over the lake's own tables need no renewal
		}
	}
	if version == s.overlay.version {
		return nil
	}
	if err := s.lay(ctx, catalog.Base(src)); err != nil {
		return err
	}
	s.overlay.version = version
	return nil
}

func orEmpty(err error) error {
	if err == nil {
		return fmt.Errorf("no row")
	}
	return err
}

// findSource looks where the lake's own tables are.
func (s *Session) findSource(ctx context.Context) error {
	rows, err := s.db.Text(ctx, "SELECT database_name || ' ' || type FROM duckdb_databases() WHERE database_name = current_database()")
	if err != nil || len(rows) != 1 {
		return fmt.Errorf("look for the lake: %w", orEmpty(err))
	}
	lake, kind, _ := strings.Cut(rows[0], " ")
	src := catalog.Source{Lake: lake}
	if kind == "ducklake" {
		settings, err := s.db.Text(ctx, "SELECT catalog_type FROM ducklake_settings("+literal(lake)+")")
		if err != nil || len(settings) != 1 {
			return fmt.Errorf("look for the lake's catalog: %w", orEmpty(err))
		}
		src.Metadata, src.Store = "__ducklake_metadata_"+lake, settings[0] != "duckdb"
	}
	s.overlay.source = &src
	return nil
}

// lay runs statements that make temporary objects.
func (s *Session) lay(ctx context.Context, statements []string) error {
	s.tx.overlay = s.tx.overlay || s.tx.now == txOpen
	for _, sql := range statements {
		if err := s.db.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// forgetOverlay is called when temporary objects of a transaction are gone.
func (s *Session) forgetOverlay() { s.overlay.set, s.overlay.version = false, "" }

// settingsView makes pg_settings of the session's settings as they are now.
func (s *Session) settingsView() string {
	var rows []string
	for name, v := range s.vars.values {
		rows = append(rows, fmt.Sprintf("(%s, %s, %s)", literal(show(name)), literal(v), literal(s.vars.initial[name])))
	}
	slices.Sort(rows)
	return `CREATE OR REPLACE TEMP VIEW pg_settings AS SELECT name, setting, NULL::VARCHAR AS unit, 'Sluice' AS category, '' AS short_desc, NULL::VARCHAR AS extra_desc,
		'user' AS context, 'string' AS vartype, 'session' AS source, NULL::VARCHAR AS min_val, NULL::VARCHAR AS max_val, NULL::VARCHAR[] AS enumvals,
		reset_val AS boot_val, reset_val, NULL::VARCHAR AS sourcefile, NULL::INTEGER AS sourceline, false AS pending_restart
		FROM (VALUES ` + strings.Join(rows, ", ") + `) v(name, setting, reset_val)`
}

// activityView makes pg_stat_activity of the org's sessions as they are now. Statements are shown without their literals.
func (s *Session) activityView() string {
	stamp := func(t time.Time) string {
		if t.IsZero() {
			return "NULL"
		}
		return literal(t.UTC().Format("2006-01-02 15:04:05.999999+00"))
	}
	rows := []string{}
	for _, i := range s.cfg.Sessions() {
		if i.Principal.Org != s.who.Org {
			continue
		}
		address, port, _ := cutPort(i.Remote)
		rows = append(rows, fmt.Sprintf("(%d, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", i.PID, literal(i.Principal.Name), literal(i.Application), literal(address), port,
			stamp(i.Began), stamp(i.Transaction), stamp(i.Statement), stamp(i.Since), literal(i.State), literal(i.Query)))
	}
	where := ""
	if len(rows) == 0 { // the session has just ended
		rows, where = []string{"(0, '', '', '', 0, NULL, NULL, NULL, NULL, '', '')"}, " WHERE false"
	}
	return `CREATE OR REPLACE TEMP VIEW pg_stat_activity AS SELECT 16384::BIGINT AS datid, ` + literal(string(s.who.Org)) + ` AS datname, pid::INTEGER AS pid, NULL::INTEGER AS leader_pid,
		10::BIGINT AS usesysid, usename, application_name, client_addr, NULL::VARCHAR AS client_hostname, client_port::INTEGER AS client_port,
		backend_start::TIMESTAMPTZ AS backend_start, xact_start::TIMESTAMPTZ AS xact_start, query_start::TIMESTAMPTZ AS query_start, state_change::TIMESTAMPTZ AS state_change,
		CASE WHEN state LIKE 'idle%' THEN 'Client' END AS wait_event_type, CASE WHEN state LIKE 'idle%' THEN 'ClientRead' END AS wait_event, state,
		NULL::BIGINT AS backend_xid, NULL::BIGINT AS backend_xmin, NULL::BIGINT AS query_id, query, 'client backend' AS backend_type
		FROM (VALUES ` + strings.Join(rows, ", ") + `) v(pid, usename, application_name, client_addr, client_port, backend_start, xact_start, query_start, state_change, state, query)` + where
}

func cutPort(remote string) (address, port string, ok bool) {
	i := strings.LastIndexByte(remote, ':')
	if i < 0 {
		return remote, "0", false
	}
	return strings.Trim(remote[:i], "[]"), remote[i+1:], true
}

// withoutLiterals is a statement as it may be shown to others: strings and numbers are question marks.
func withoutLiterals(text string, tokens []token.Token) string {
	var b strings.Builder
	last := 0
	for _, k := range tokens {
		if k.Kind != token.String && k.Kind != token.Number && k.Kind != token.Other || k.End > len(text) {
			continue
		}
		b.WriteString(text[last:k.Pos])
		b.WriteByte('?')
		last = k.End
	}
	b.WriteString(text[last:])
	return b.String()
}

// alters reports whether a statement of the kind changes the schema.
func alters(k duck.StatementType) bool {
	switch k {
	case duck.KindCreate, duck.KindCreateFunc, duck.KindAlter, duck.KindDrop:
		return true
	}
	return false
}
