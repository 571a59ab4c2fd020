package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"sluice/internal/config"
)

// ServeFile tells commands where the server of a data directory is.
type ServeFile struct {
	PID       int       `json:"pid"`
	Instance  string    `json:"instance"`
	HTTP      string    `json:"http"`
	Warehouse string    `json:"warehouse,omitempty"`
	StartedAt time.Time `json:"started_at"`
}

func servePath(cfg *config.Config) string { return cfg.Path("serve.json") }

// ReadServeFile reads <data>/serve.json; found is false if there is none, or if its process is gone.
func ReadServeFile(cfg *config.Config) (f ServeFile, found bool) {
	b, err := os.ReadFile(servePath(cfg))
	if err != nil || json.Unmarshal(b, &f) != nil || f.PID <= 0 || f.HTTP == "" {
		return ServeFile{}, false
	}
	return f, alive(f.PID)
}

// alive reports whether a process exists. It may be another one with the same number by now: who asks must also ask the
// server's /healthz for its instance.
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
