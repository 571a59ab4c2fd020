package app

import (
	"io"
	"log/slog"
	"os"

	"sluice/internal/config"
)

// NewLogger makes the logger of a process. Format auto is text on a terminal, else JSON.
func NewLogger(w io.Writer, cfg config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // the configuration is checked: this is for callers in tests
	}
	options := &slog.HandlerOptions{Level: level}
	text := cfg.Format == "text"
	if f, ok := w.(*os.File); ok && cfg.Format == "auto" {
		info, err := f.Stat()
		text = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if text {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
