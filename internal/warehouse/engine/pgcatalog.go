package engine

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"sluice/internal/sluice"
)

// Advisory lock keys: "sluice" in the high bytes, then what it protects.
const (
	lockCatalogs = 0x736c7569_63650001 // ProvisionCatalog, on the admin database
	lockLake     = 0x736c7569_63650002 // provisioning of one lake, on its own database
)

// CatalogName is the name of the database and of the role of org's catalog: "sluice_" and the org with - as _, shortened
// with a hash where PostgreSQL's 63 bytes do not hold it.
func CatalogName(org sluice.Org) string {
	name := "sluice_" + strings.ReplaceAll(string(org), "-", "_")
	if len(name) <= 63 {
		return name
	}
	sum := sha256.Sum256([]byte(org))
	return name[:63-17] + "_" + hex.EncodeToString(sum[:8])
}

// ProvisionCatalog makes the database and the role of org's catalog on the server of adminDSN, whose role may create both,
// and returns the libpq keyword string for Lake.Catalog. The role gets the given password, also if it exists already. It
// may be repeated and run in several processes at once. No error holds either password.
func ProvisionCatalog(ctx context.Context, adminDSN string, org sluice.Org, password string) (string, error) {
	doing := fmt.Sprintf("provision catalog of org %s", org)
	if password == "" {
		return "", sluice.E("SLUICE-CONTROL-INVALID", doing, "the role's password is empty", "give one", nil)
	}
	admin, err := parseDSN(adminDSN)
	if err != nil {
		return "", sluice.E("SLUICE-CONFIG", doing, "the admin connection string is not a libpq connection string", "write it as postgres://… or as keywords", nil)
	}
	scrub := newScrubber(password, admin.get("password", ""))
	fail := func(step string, err error) error { return pgError(doing+": "+step, scrub.clean(err)) }

	conn, err := pgx.Connect(ctx, adminDSN)
	if err != nil {
		return "", fail("connect to the server", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	// Session-level, because CREATE DATABASE runs in no transaction; the end of the connection gives it back.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(lockCatalogs)); err != nil {
		return "", fail("wait for other processes", err)
	}
	name := CatalogName(org)
	verifier, err := scramVerifier(password)
	if err != nil {
		return "", fail("hash the password", err)
	}
	var roleExists, dbExists, super bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1), EXISTS (SELECT FROM pg_database WHERE datname = $1),
		(SELECT rolsuper FROM pg_roles WHERE rolname = current_user)`, name).Scan(&roleExists, &dbExists, &super)
	if err != nil {
		return "", fail("look for role and database", err)
	}
	id := quoteIdent(name)
	verb := "CREATE"
	if roleExists {
		verb = "ALTER"
	}
	// The verifier instead of the password: statements end up in server logs.
	statements := []string{fmt.Sprintf("%s ROLE %s LOGIN PASSWORD %s", verb, id, quoteLiteral(verifier))}
	if !super {
		statements = append(statements, "GRANT "+id+" TO CURRENT_USER") // who makes an owner must be its member
	}
	if !dbExists {
		statements = append(statements, "CREATE DATABASE "+id+" OWNER "+id)
	}
	statements = append(statements, "ALTER DATABASE "+id+" OWNER TO "+id, "REVOKE CONNECT, TEMPORARY ON DATABASE "+id+" FROM PUBLIC")
	if super {
		// The engine recognises a conflict by PostgreSQL's English text, and retries nothing without it.
		statements = append(statements, "ALTER DATABASE "+id+" SET lc_messages = 'C'")
	}
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return "", fail(strings.ToLower(strings.Join(strings.Fields(s)[:2], " ")), err)
		}
	}
	out := keywords{"host": admin.get("host", "localhost"), "port": admin.get("port", "5432"), "dbname": name, "user": name}
	for _, k := range []string{"hostaddr", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "channel_binding"} {
		if v := admin.get(k, ""); v != "" {
			out[k] = v
		}
	}
	return out.String(), nil
}

// pgError gives an error of the catalog server its code.
func pgError(doing string, err error) error {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return sluice.E("SLUICE-ENGINE-OPEN", doing, "", "check the rights of the role on the catalog server", err)
	}
	return sluice.E("SLUICE-LAKE-CATALOG-DOWN", doing, "", "check that the catalog's PostgreSQL runs and can be reached", err)
}

// scramVerifier is what PostgreSQL stores of a password (RFC 5803 with the server's own defaults).
func scramVerifier(password string) (string, error) {
	const iterations = 4096
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive key: %w", err)
	}
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(mac(salted, "Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, b64(salt), b64(stored[:]), b64(mac(salted, "Server Key"))), nil
}

// pgCatalog is a direct connection to a lake's PostgreSQL catalog that holds the provisioning lock; nil for other lakes.
type pgCatalog struct {
	conn  *pgx.Conn
	cfg   Config
	clean scrubber
}

// lockPGCatalog takes the provisioning lock of cfg's lake: two first attaches race to create the catalog's tables.
func lockPGCatalog(ctx context.Context, cfg Config) (*pgCatalog, error) {
	if cfg.Lake.Kind != LakePostgres {
		return nil, nil
	}
	kv, err := parseDSN(cfg.Lake.Catalog)
	if err != nil {
		return nil, sluice.E("SLUICE-CONFIG", fmt.Sprintf("provision lake of org %s", cfg.Org), "the catalog is not a libpq keyword string", "check the org's warehouse configuration", nil)
	}
	c := &pgCatalog{cfg: cfg, clean: newScrubber(cfg.Lake.Password)}
	if cfg.Lake.Password != "" {
		kv["password"] = cfg.Lake.Password
	}
	if c.conn, err = pgx.Connect(ctx, kv.String()); err != nil {
		return nil, c.fail("connect to the catalog", err)
	}
	if _, err := c.conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(lockLake)); err != nil {
		c.close()
		return nil, c.fail("wait for other processes", err)
	}
	return c, nil
}

// index makes the indexes that the extension does not (lake.md §2, warehouse.md §7).
func (c *pgCatalog) index(ctx context.Context) error {
	if c == nil {
		return nil
	}
	for _, q := range []string{
		"CREATE INDEX IF NOT EXISTS sluice_file_column_stats ON ducklake_file_column_stats (table_id, column_id)",
		"CREATE INDEX IF NOT EXISTS sluice_data_file ON ducklake_data_file (table_id)",
	} {
		if _, err := c.conn.Exec(ctx, q); err != nil {
			return c.fail("create indexes", err)
		}
	}
	return nil
}

func (c *pgCatalog) fail(step string, err error) error {
	return pgError(fmt.Sprintf("provision lake of org %s: %s", c.cfg.Org, step), c.clean.clean(err))
}

// close gives the lock back.
func (c *pgCatalog) close() {
	if c != nil && c.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = c.conn.Close(ctx)
	}
}
