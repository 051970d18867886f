# Needs Go and make; the race detector also needs a C compiler. Everything else is fetched by Go in pinned versions.

GO          ?= go
PKGS        ?= ./...
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Per package. Tests that need longer belong behind NAGI_SOAK.
TEST_TIMEOUT  ?= 9m
BENCH_TIMEOUT ?= 60m
BENCH         ?= .

.PHONY: help
help: ## show this
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST)

.PHONY: ci
ci: lint test ## what has to pass before a change goes in

.PHONY: test
test: ## all tests, with the race detector; PKGS=./entity/... for some, TESTFLAGS for more flags
	@test "$$($(GO) env CGO_ENABLED)" = 1 || \
		{ echo 'make test: the race detector needs cgo and a C compiler' >&2; exit 1; }
	$(GO) test -race -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $(PKGS)

.PHONY: bench
bench: ## all benchmarks; PKGS and BENCH=regexp for some
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout $(BENCH_TIMEOUT) $(TESTFLAGS) $(PKGS)

.PHONY: lint
lint: vet staticcheck fmt tidy ## everything that reads the code without running it

.PHONY: vet
vet:
	$(GO) vet ./...

.PHONY: staticcheck
staticcheck:
	$(STATICCHECK) ./...

.PHONY: fmt
fmt:
	@unformatted=$$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +) || exit 1; \
	test -z "$$unformatted" || { echo "not formatted, run gofmt -w on:" >&2; echo "$$unformatted" >&2; exit 1; }

.PHONY: tidy
tidy:
	$(GO) mod tidy -diff
