package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // the driver that tells the engine's version
	"github.com/jackc/pgx/v5"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/extension"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Verdict of a check.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "OK"
	Warn Verdict = "WARN"
	Fail Verdict = "FAIL"
)

// Finding is the result of one check of `sluice doctor`.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
	Hint    string  `json:"hint,omitempty"`
}

// doctor goes through the checks of one configuration.
type doctor struct {
	cfg     *config.Config
	running *ServeFile // the server of the data directory, if one answers
	found   []Finding
}

// checkTimeout bounds each check that waits for somebody else.
const checkTimeout = 10 * time.Second

// Doctor checks everything that a server of this configuration needs. running is the server of the data directory, or nil.
// It changes nothing, apart from extensions that the binary carries and unpacks.
func Doctor(ctx context.Context, cfg *config.Config, running *ServeFile) []Finding {
	d := &doctor{cfg: cfg, running: running}
	d.engine(ctx)
	d.extensions()
	d.dataDirectory()
	d.disk()
	orgs := d.state(ctx)
	if cfg.Catalog.Kind == config.CatalogPostgres {
		d.catalog(ctx)
	}
	for _, o := range orgs {
		d.lake(ctx, o)
	}
	d.port(ctx, "http.listen", cfg.HTTP.Listen, func(f *ServeFile) string { return f.HTTP })
	d.port(ctx, "warehouse.listen", cfg.Warehouse.Listen, func(f *ServeFile) string { return f.Warehouse })
	return d.found
}

func (d *doctor) add(check string, v Verdict, text, hint string) {
	d.found = append(d.found, Finding{check, v, text, hint})
}

// fail adds an error with its own hint.
func (d *doctor) fail(check string, err error, hint string) {
	if h := sluice.HintOf(err); h != "" {
		hint = h
	}
	d.add(check, Fail, err.Error(), hint)
}

func (d *doctor) engine(ctx context.Context) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		d.fail("engine", err, "this binary is damaged: install it again")
		return
	}
	defer func() { _ = db.Close() }()
	var version string
	if err := db.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		d.fail("engine", err, "this binary is damaged: install it again")
		return
	}
	if strings.TrimPrefix(version, "v") != extension.Engine {
		d.add("engine", Fail, fmt.Sprintf("DuckDB %s, but the extensions are for %s", version, extension.Engine), "build with the pinned engine")
		return
	}
	d.add("engine", OK, "DuckDB "+version, "")
}

func (d *doctor) extensions() {
	dir, err := extension.Find(d.cfg.Warehouse.Extensions, d.cfg.Data)
	if err != nil {
		d.fail("extensions", err, "run make extensions, or give --warehouse.extensions")
		return
	}
	var names []string
	for _, e := range extension.Pinned {
		names = append(names, fmt.Sprintf("%s %s (sha256 %s…)", e.Name, e.Version, e.SHA256[:12]))
	}
	d.add("extensions", OK, dir+": "+strings.Join(names, ", "), "")
}

func (d *doctor) dataDirectory() {
	dir := d.cfg.Data
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		d.add("data", OK, dir+" is not there yet; sluice serve makes it", "")
		return
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		d.fail("data", err, "give the user that runs sluice the right to write there, or another directory with --data")
		return
	}
	_, werr := f.WriteString("doctor\n")
	err = errors.Join(werr, f.Sync(), f.Close(), os.Remove(f.Name()))
	if err != nil {
		d.fail("data", err, "check the disk of the data directory")
		return
	}
	d.add("data", OK, dir+" can be written", "")
}

// Free disk space that is too little, and that is little.
const (
	diskFail = 1 << 30
	diskWarn = 10 << 30
)

func (d *doctor) disk() {
	dir := d.cfg.Data
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		d.fail("disk", fmt.Errorf("look at the disk of %s: %w", dir, err), "check the data directory")
		return
	}
	free := int64(fs.Bavail) * fs.Bsize
	text := fmt.Sprintf("%.1f GiB are free for %s", float64(free)/(1<<30), d.cfg.Data)
	switch {
	case free < diskFail:
		d.add("disk", Fail, text, "make room: loads and spilling need it")
	case free < diskWarn:
		d.add("disk", Warn, text, "make room before large loads")
	default:
		d.add("disk", OK, text, "")
	}
}

// skewWarn is how far the state DB's clock may be from this machine's.
const skewWarn = 2 * time.Second

// state checks the state DB, and gives the orgs in it.
func (d *doctor) state(ctx context.Context) []control.Org {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	db, err := OpenState(ctx, d.cfg, false)
	if sluice.CodeOf(err) == "SLUICE-NOT-FOUND" {
		d.add("state_db", OK, "there is none yet; sluice serve makes it", "")
		return nil
	}
	if err != nil {
		d.fail("state_db", err, "check state.dsn")
		return nil
	}
	defer func() { _ = db.Close() }()
	have, want, err := db.Version(ctx)
	if err != nil {
		d.fail("state_db", err, "check state.dsn")
		return nil
	}
	if have != want {
		d.add("state_db", Fail, fmt.Sprintf("%s, schema version %d instead of %d", db.Dialect(), have, want), "run sluice migrate up")
		return nil
	}
	d.clock(ctx, db)
	orgs, err := control.New(db).Orgs(ctx)
	if err != nil {
		d.fail("state_db", err, "check the state DB")
	}
	return orgs
}

func (d *doctor) clock(ctx context.Context, db *statedb.DB) {
	before := time.Now()
	now, err := db.Now(ctx)
	if err != nil {
		d.fail("state_db", err, "check state.dsn")
		return
	}
	skew := now.Sub(before.Add(time.Since(before) / 2)).Round(time.Millisecond)
	have, _, _ := db.Version(ctx) // it answered just now
	text := fmt.Sprintf("%s, schema version %d, clock skew %s", db.Dialect(), have, skew)
	if skew.Abs() > skewWarn {
		d.add("state_db", Warn, text, "let both machines follow the same clock (NTP)")
		return
	}
	d.add("state_db", OK, text, "")
}

// catalog checks the PostgreSQL server of the catalogs.
func (d *doctor) catalog(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	dsn, err := d.cfg.Catalog.DSN.Read()
	if err != nil {
		d.fail("catalog", err, "set catalog.dsn")
		return
	}
	if _, err := d.cfg.Catalog.RoleKey.Read(); err != nil {
		d.fail("catalog", err, "set catalog.role_key")
		return
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		d.add("catalog", Fail, "the PostgreSQL server of catalog.dsn does not answer or refuses the role", "check that it runs and that catalog.dsn is right")
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var messages, version string
	var number int
	err = conn.QueryRow(ctx, "SELECT current_setting('lc_messages'), current_setting('server_version'), current_setting('server_version_num')::int").Scan(&messages, &version, &number)
	switch {
	case err != nil:
		d.fail("catalog", err, "check the rights of the role of catalog.dsn")
	case number < 150000:
		d.add("catalog", Fail, "PostgreSQL "+version, "use PostgreSQL 15 or newer")
	case !english(messages):
		// The engine recognises a conflict by PostgreSQL's English text, and retries nothing without it.
		d.add("catalog", Warn, fmt.Sprintf("PostgreSQL %s, lc_messages is %s", version, messages), "set lc_messages to C: conflicts are recognised by their English text")
	default:
		d.add("catalog", OK, fmt.Sprintf("PostgreSQL %s, lc_messages is %s", version, messages), "")
	}
}

func english(locale string) bool {
	return locale == "C" || locale == "POSIX" || strings.HasPrefix(locale, "C.") || strings.HasPrefix(locale, "en_")
}

// port checks that an address is free, or ours.
func (d *doctor) port(ctx context.Context, key, addr string, ours func(*ServeFile) string) {
	if d.running != nil && ours(d.running) != "" {
		d.add(key, OK, fmt.Sprintf("our server (pid %d) listens on %s", d.running.PID, ours(d.running)), "")
		return
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		d.fail(key, listenError(d.cfg, key, addr, err), "choose another address with --"+key)
		return
	}
	_ = l.Close()
	d.add(key, OK, addr+" is free", "")
}
