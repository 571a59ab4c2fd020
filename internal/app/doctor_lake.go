package app

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/sluice"
)

// lake checks an org's lake: through the server if one runs, else by its lock or its catalog.
func (d *doctor) lake(ctx context.Context, o control.Org) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	check := "lake " + string(o.Org)
	if o.State != sluice.OrgReady {
		d.add(check, Warn, "its state is "+string(o.State), "start sluice serve: it makes it ready, and its log says what is in the way")
		return
	}
	if d.running != nil && d.running.Warehouse != "" {
		if err := ask(ctx, d.running.Warehouse, o.DatabaseName); err != nil {
			d.fail(check, fmt.Errorf("open it through the server: %w", err), "see the server's log")
			return
		}
		d.add(check, OK, "it answers through the server", "")
		return
	}
	if o.Lake.Kind == config.CatalogPostgres {
		d.lakeCatalog(ctx, check, o)
		return
	}
	if _, err := os.Stat(o.Lake.Catalog); err != nil {
		d.fail(check, fmt.Errorf("look at its catalog: %w", err), "restore it from a backup, or check --data")
		return
	}
	switch pid, locked := holderOf(o.Lake.Catalog + ".lock"); {
	case locked:
		d.add(check, Warn, fmt.Sprintf("%s is in use by process %d", o.Lake.Catalog, pid), "use that process's warehouse, or stop it")
	default:
		d.add(check, OK, o.Lake.Catalog+" is there and free", "")
	}
}

func (d *doctor) lakeCatalog(ctx context.Context, check string, o control.Org) {
	password, err := (&source{cfg: d.cfg}).password(o.Org)
	if err != nil {
		d.fail(check, err, "set catalog.role_key")
		return
	}
	c, err := pgx.ParseConfig(o.Lake.Catalog)
	if err != nil {
		d.add(check, Fail, "the address of its catalog cannot be read", "see sluice org show "+string(o.Org))
		return
	}
	c.Password = password
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		d.add(check, Fail, "its catalog's database does not answer or refuses the role", "check that the server runs and that catalog.role_key is the key that the org was made with")
		return
	}
	_ = conn.Close(ctx)
	d.add(check, OK, "its catalog's database answers", "")
}

// ask runs a query through a warehouse.
func ask(ctx context.Context, addr, database string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("read its address: %w", err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("read its address: %w", err)
	}
	c, err := pgx.ParseConfig("sslmode=disable application_name=sluice-doctor user=doctor")
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c.Host, c.Port, c.Database, c.DefaultQueryExecMode = host, uint16(n), database, pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var one int
	if err := conn.QueryRow(ctx, "SELECT 1").Scan(&one); err != nil {
		return fmt.Errorf("run a query: %w", err)
	}
	return nil
}

// holderOf finds the process that has a file locked, without touching the lock: a server that starts at that moment must
// not find it taken.
func holderOf(path string) (pid int, locked bool) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return 0, false
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }()
	suffix := ":" + strconv.FormatUint(st.Ino, 10)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 4711 fe:00:123456 0 EOF
		w := strings.Fields(lines.Text())
		if len(w) >= 6 && w[1] == "FLOCK" && strings.HasSuffix(w[5], suffix) {
			pid, _ = strconv.Atoi(w[4]) // 0: of another container
			return pid, true
		}
	}
	return 0, false
}
