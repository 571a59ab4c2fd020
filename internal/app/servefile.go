package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"sluice/internal/config"
	"sluice/internal/sluice"
)

// ServeFile tells commands where the server of a data directory is.
type ServeFile struct {
	PID       int       `json:"pid"`
	Instance  string    `json:"instance"`
	HTTP      string    `json:"http"`
	Warehouse string    `json:"warehouse,omitempty"`
	TLS       bool      `json:"tls,omitempty"` // of HTTP
	StartedAt time.Time `json:"started_at"`
}

func servePath(cfg *config.Config) string { return cfg.Path("serve.json") }

// Running finds the server of the data directory. A file left behind by one that is gone is found out by its process and by
// the instance that answers at its address. A server that is there but does not answer is SLUICE-SERVER-AWAY.
func Running(ctx context.Context, cfg *config.Config) (f ServeFile, found bool, err error) {
	f, found = readServeFile(cfg)
	if !found {
		return ServeFile{}, false, nil
	}
	c, err := NewClient(cfg, f.URL())
	if err != nil {
		return ServeFile{}, false, err
	}
	h, err := c.Healthz(ctx)
	switch {
	case err == nil && h.Instance == f.Instance:
		return f, true, nil
	case err == nil || errors.Is(err, syscall.ECONNREFUSED):
		return ServeFile{}, false, nil // it is gone, and its number or its port belongs to another process
	}
	return ServeFile{}, false, err
}

// URL is the address of the API.
func (f ServeFile) URL() string {
	if f.TLS {
		return "https://" + f.HTTP
	}
	return "http://" + f.HTTP
}

// readServeFile reads <data>/serve.json; found is false if there is none, or if its process is gone.
func readServeFile(cfg *config.Config) (f ServeFile, found bool) {
	b, err := os.ReadFile(servePath(cfg))
	if err != nil || json.Unmarshal(b, &f) != nil || f.PID <= 0 || f.HTTP == "" {
		return ServeFile{}, false
	}
	return f, alive(f.PID)
}

// alive reports whether a process exists. It may be another one with the same number by now.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// writeServeFile replaces serve.json.
func writeServeFile(cfg *config.Config, f ServeFile) error {
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("write serve.json: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(servePath(cfg)), "serve-*.json")
	if err != nil {
		return fmt.Errorf("write serve.json: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone after the rename
	_, err = tmp.Write(append(b, '\n'))
	if err = errors.Join(err, tmp.Close()); err != nil {
		return fmt.Errorf("write serve.json: %w", err)
	}
	if err := os.Rename(tmp.Name(), servePath(cfg)); err != nil {
		return fmt.Errorf("write serve.json: %w", err)
	}
	return nil
}

// removeServeFile removes serve.json unless another server has replaced it.
func removeServeFile(cfg *config.Config, instance string) {
	b, err := os.ReadFile(servePath(cfg))
	if err != nil {
		return
	}
	var f ServeFile
	if json.Unmarshal(b, &f) == nil && f.Instance == instance {
		_ = os.Remove(servePath(cfg)) // a stale file is found out by its pid
	}
}

// lockLakes makes sure that one process at a time serves the lakes of a data directory whose catalogs are DuckDB files. The
// engine refuses each single lake too; saying it at the start keeps a second server from claiming streams that it cannot
// load.
func lockLakes(cfg *config.Config) (release func(), err error) {
	if cfg.Catalog.Kind != config.CatalogDuckDB {
		return func() {}, nil
	}
	doing := "serve the lakes of " + cfg.Data
	path := cfg.Path("warehouse.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, sluice.E("SLUICE-ENGINE-OPEN", doing, "", "check that the data directory can be written", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		by := "another process"
		if pid, locked := holderOf(path); locked && pid > 0 {
			by = fmt.Sprintf("process %d", pid)
		}
		return nil, sluice.E("SLUICE-LAKE-IN-USE", doing, "they are in use by "+by+": catalogs in files have one server",
			"use that server or stop it; run further processes with --roles api or loader, or use catalog.kind = postgres", err)
	}
	return func() { _ = f.Close() }, nil
}

// announce tells commands where this server is, unless another one of the data directory has done so.
func (a *App) announce(ctx context.Context) (forget func(), err error) {
	if f, found, err := Running(ctx, a.cfg); err == nil && found {
		a.log.InfoContext(ctx, "commands go on using another server", "pid", f.PID, "http", f.HTTP)
		return func() {}, nil
	}
	f := ServeFile{os.Getpid(), a.cfg.Instance, a.HTTPAddr(), a.WarehouseAddr(), a.cfg.HTTP.TLS.On(), a.started.UTC()}
	return func() { removeServeFile(a.cfg, a.cfg.Instance) }, writeServeFile(a.cfg, f)
}
