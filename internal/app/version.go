package app

import (
	"runtime"
	"runtime/debug"

	"sluice/internal/extension"
)

// version is set by release builds (-ldflags "-X sluice/internal/app.version=v1.2.3").
var version string

// Version says what a binary is made of.
type Version struct {
	Version    string            `json:"version"`
	Commit     string            `json:"commit,omitempty"`
	Modified   bool              `json:"modified"` // built from a tree with changes
	Go         string            `json:"go"`
	Platform   string            `json:"platform"`
	DuckDB     string            `json:"duckdb"`
	Extensions map[string]string `json:"extensions"`
}

// BuildVersion reads what the compiler wrote into this binary.
func BuildVersion() Version {
	v := Version{
		Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, DuckDB: extension.Engine,
		Extensions: map[string]string{},
	}
	for _, e := range extension.Pinned {
		v.Extensions[e.Name] = e.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
		if v.Version == "" {
			v.Version = info.Main.Version
		}
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "dev"
	}
	return v
}
