#!/usr/bin/env bash
# Prints the packages that have tests and do not link the engine, tests included: cheap to build with -race. The tests
# about the source itself have nothing to race.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
deps=$(go list -test -f '{{if .ForTest}}{{.ForTest}} {{join .Deps " "}}{{end}}' ./internal/... | grep -v '^sluice/internal/archtest ')
# A package has up to two test binaries' worth of files: one that links the engine is enough to leave it out.
comm -23 <(cut -d' ' -f1 <<<"$deps" | sort -u) <(grep -e duckdb-go <<<"$deps" | cut -d' ' -f1 | sort -u) | tr '\n' ' '
