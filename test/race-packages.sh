#!/usr/bin/env bash
# Prints the packages that have tests and do not link the engine, tests included: cheap to build with -race. The tests
# about the source itself have nothing to race.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
go list -test -f '{{if .ForTest}}{{.ForTest}} {{join .Deps " "}}{{end}}' ./internal/... |
	grep -v -e duckdb-go -e '^sluice/internal/archtest ' | cut -d' ' -f1 | sort -u | tr '\n' ' '
