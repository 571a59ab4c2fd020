#!/usr/bin/env bash
# Prints the packages that have tests and do not link the engine, tests included: cheap to build with -race.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
go list -test -f '{{if .ForTest}}{{.ForTest}} {{join .Deps " "}}{{end}}' ./internal/... |
	grep -v duckdb-go | cut -d' ' -f1 | sort -u | tr '\n' ' '
