package queuetest

import (
	"embed"

	"sluice/internal/statedb"
)

//go:embed *.sql
var files embed.FS

var queries = statedb.MustLoad(files, "*.sql")

func sql(name string) *statedb.Query { return queries.Get(name) }
