package api_test

import (
	"embed"

	"sluice/internal/statedb"
)

//go:embed testdata/dump.sql
var dumpFiles embed.FS

var dumpQueries = statedb.MustLoad(dumpFiles, "testdata/*.sql")
