# `make` alone lists what can be made. What a fresh machine needs: Go 1.26, a C compiler, Python 3 with pip.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
# Go records the commit in the binary, and gives up where git does not answer (no git, somebody else's checkout).
export GOFLAGS := $(strip -buildvcs=$(shell git rev-parse HEAD > /dev/null 2>&1 && echo auto || echo false) $(GOFLAGS))

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X sluice/internal/app.version=$(VERSION)
PLATFORM := $(shell go env GOOS)-$(shell go env GOARCH)

# Each test binary holds an engine: two at a time keep a small machine usable.
TEST_PARALLEL ?= 2
TEST_FLAGS ?= -timeout 20m
# Packages whose rules or concurrency the race detector can watch at a bearable price; all have it in `make test-race`.
RACE ?= ./...
FUZZ_TIME ?= 20s
BENCH ?= .

EXTENSION_DIR := build/extensions
EXTENSIONS := $(foreach e,ducklake postgres_scanner httpfs,$(EXTENSION_DIR)/v1.5.5/linux_amd64/$(e).duckdb_extension)
LINT := build/bin/golangci-lint
KAFKA := build/kafka/libs/kafka_2.13-4.1.0.jar
S3 := build/bin/versitygw

.PHONY: help
help: ## List the targets
	@sed -nE 's/^([a-z][a-z0-9-]*):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r t d; do printf '  make %-12s %s\n' "$$t" "$$d"; done

# A stranger's machine lacks a compiler more often than not.
.PHONY: toolchain
toolchain:
	@test/services.sh build

.PHONY: build
build: toolchain ## Build bin/sluice
	go build -ldflags '$(LDFLAGS)' -o bin/sluice ./cmd/sluice

.PHONY: extensions
extensions: $(EXTENSIONS) ## Fetch the pinned engine extensions into build/extensions
$(EXTENSIONS) &: | toolchain
	go run ./internal/extension/fetch -dir $(EXTENSION_DIR)

.PHONY: demo
demo: build extensions ## Load the flights sample end to end and show the result
	bin/sluice demo

.PHONY: services
services: ## Install what the tests run beside them (Debian, as root), or say what is missing
	@test/services.sh test

.PHONY: kafka
kafka: $(KAFKA) ## Fetch the Kafka broker that the tests start into build/kafka
$(KAFKA): internal/testkit/kafka/pom.xml | services
	mvn -q -B -f $< org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

.PHONY: s3
s3: $(S3) ## Build the S3 server that the tests start into build/bin
# The module file names its version: a new one is built anew.
$(S3): tools/s3/go.mod tools/s3/go.sum | toolchain
	cd tools/s3 && go build -p $(TEST_PARALLEL) -trimpath -o ../../$@ github.com/versity/versitygw/cmd/versitygw
	@touch $@

.PHONY: test
test: services extensions kafka s3 build ## Run every test
	SLUICE_REQUIRE_SERVICES=1 go test -p $(TEST_PARALLEL) $(TEST_FLAGS) ./...

.PHONY: clients
clients: services extensions build ## Run real clients against the server, and write docs/clients.md
	test/clients/install.sh build/clients
	go run ./test/clients

.PHONY: test-race
test-race: services extensions kafka s3 ## Run the tests under the race detector (RACE=packages)
	SLUICE_REQUIRE_SERVICES=1 go test -race -p $(TEST_PARALLEL) $(TEST_FLAGS) $(RACE)

.PHONY: lint
lint: $(LINT) ## Run the linters, and check the layout of the code
	$(LINT) run ./...

.PHONY: format
format: $(LINT) ## Lay out the code
	$(LINT) fmt ./...

# The linter's module file names its version: a new one is built anew.
$(LINT): tools/go.mod tools/go.sum
	cd tools && go build -p $(TEST_PARALLEL) -trimpath -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

.PHONY: bench
bench: extensions ## Run the benchmarks (BENCH=pattern)
	go test -p 1 -run '^$$' -bench '$(BENCH)' -benchmem ./...

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZ_TIME
	@grep -rlE --include='*_test.go' '^func Fuzz' cmd internal | sort | while read -r file; do \
		sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$file" | while read -r target; do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_TIME) "./$$(dirname "$$file")" < /dev/null; \
		done; \
	done

.PHONY: delta-conformance
delta-conformance: s3 extensions ## Read the Delta tables of other writers; write docs/delta-conformance.md and the goldens
	go test ./internal/delta -count=1 -run '^TestConformance(Goldens)?$$' -update

.PHONY: licences
licences: ## Write docs/licences.md, the licences of what the binary is made of
	go test ./internal/archtest -run '^TestLicences$$' -update

.PHONY: release
release: extensions ## Build the one-file binary, extensions inside, with checksum and licences, in build/release
	mkdir -p build/release
	go run ./internal/extension/fetch -dir $(EXTENSION_DIR) -pack internal/extension/embedded
	go build -trimpath -tags embed_extensions -ldflags '-s -w $(LDFLAGS)' -o build/release/sluice-$(VERSION)-$(PLATFORM) ./cmd/sluice
	@go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}' ./cmd/sluice | sort -u | while read -r module dir; do \
		printf '== %s\n\n' "$$module"; \
		find "$$dir" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' \) -exec cat {} +; \
	done > build/release/THIRD_PARTY_LICENCES.txt
	cd build/release && sha256sum sluice-$(VERSION)-$(PLATFORM) > sluice-$(VERSION)-$(PLATFORM).sha256

.PHONY: clean
clean: ## Remove what was built; fetched extensions, the broker and the linter stay
	rm -rf bin build/release internal/extension/embedded/*.gz
