# Needs Go and make; the race detector also needs a C compiler, make nodejs Node.js with npm, and make browser Chromium.
# Everything else is fetched by Go and npm in pinned versions.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
GO          ?= go
# Those whose tests take longest come first: they run beside all others.
PKGS        ?= ./controller ./test/natstest ./natsinformer ./entity ./...

# The tools that test/tools/go.mod names, with the sums of all that they are built from. They run where they are called.
TOOLS := test/tools
tool   = $(GO) tool -modfile=$(CURDIR)/$(TOOLS)/go.mod

# Tests named TestSoak… are much work: make test leaves them out, make soak runs them and no others. NAGI_SOAK=n makes the
# tests that look for races go n times as many rounds.
SOAK := ^TestSoak

# Most tests run in virtual time and keep a processor busy; those that meet real sockets, clusters and processes wait.
# GOGC=300 gives memory for time. make lint vets, so make test does not.
PACKAGES ?= 4
PARALLEL ?= 4

# The tests on a real API server wait for most of their time.
E2E_PARALLEL ?= 6

# Linking is a sixth of the work of make test, and takes a quarter less without what only a debugger reads. LINK= keeps it.
LINK ?= -ldflags=-w

# By default the race detector lets each test program sleep for a second when it ends.
export GORACE ?= atexit_sleep_ms=50

# Per package.
TEST_TIMEOUT  ?= 50m
E2E_TIMEOUT   ?= 25m
BENCH_TIMEOUT ?= 60m
BENCH         ?= .

# The packages of PKGS whose tests need a Kubernetes API server: those that use kubetest.
KUBETEST  := github.com/nagi-runtime/nagi/test/kubetest
# kubetest itself is among them, whose tests depend on a variant of it.
kube_tests = $(GO) list -test -f '{{range .Deps}}{{if or (eq . "$(KUBETEST)") (eq . "$(KUBETEST) [$(KUBETEST).test]")}}{{$$.ImportPath}}{{end}}{{end}}' $(PKGS) | sed -n 's/\.test$$//p'

# Tests in files that the race detector leaves out: how often something allocates, for it allocates too.
raceless_tests = $(GO) list -f '{{range .TestGoFiles}}{{if eq . "allocs_test.go"}}{{$$.ImportPath}}{{end}}{{end}}' $(PKGS)
test_raceless = packages=$$($(raceless_tests) | $(1)); test -z "$$packages" || \
	(set -x; $(GO) test $(LINK) -run '^TestAllocations' -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $$packages)

# Modules of their own below test/: what they depend on is not to become what Nagi depends on.
NESTED := $(patsubst %/go.mod,%,$(wildcard test/*/go.mod test/*/*/go.mod))
# Those with packages in them.
CODE   := $(filter-out $(TOOLS),$(NESTED))
# Needs a browser: make browser runs it.
BROWSER := test/browser

.PHONY: help
help: ## show this
	@sed -n 's/^\([a-z0-9]*\):.*## /\1	/p' $(MAKEFILE_LIST)

.PHONY: ci
ci: lint test e2e servers nodejs browser ## what has to pass before a change goes in

.PHONY: test
test: ## all tests that need no Kubernetes, with the race detector; PKGS=./entity/... for some, TESTFLAGS for more flags
	$(race)
	@kube=$$($(kube_tests)); packages=$$($(GO) list $(PKGS) | grep -vxF "$$kube" | grep -vE '/test/(nodejs|rolling|servers)$$'); \
	set -x; GOGC=300 $(GO) test -race $(LINK) -vet=off -skip '$(SOAK)' -p $(PACKAGES) -parallel $(PARALLEL) -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $$packages
	@kube=$$($(kube_tests)); $(call test_raceless,{ grep -vxF "$$kube" || true; })

.PHONY: naps
naps: ## make test with each test program stopped for 13 ms at a time, as a quota of processor time does
	@naps=$$(mktemp -d); trap 'rm -rf "$$naps"' EXIT; set -x; $(GO) build -o "$$naps/naps" ./test/internal/naps; \
	$(MAKE) test TESTFLAGS="-exec $$naps/naps $(TESTFLAGS)"

.PHONY: soak
soak: ## the tests that are much work and need no Kubernetes
	$(race)
	@kube=$$($(kube_tests)); packages=$$($(GO) list $(PKGS) | grep -vxF "$$kube" | grep -vE '/test/(nodejs|rolling|servers)$$'); \
	set -x; $(GO) test -race $(LINK) -run '$(SOAK)' -timeout $(E2E_TIMEOUT) $(TESTFLAGS) $$packages

.PHONY: worlds
worlds: ## nights with faults that seeds make; SEEDS=n FROM=s for others, SHARDS=n to share the keys in all, docs/worlds.md says more
	GOGC=400 $(GO) test $(LINK) -run '^TestSoakWorlds$$' -count=1 -timeout $(BENCH_TIMEOUT) $(TESTFLAGS) ./test/worlds \
		-seeds $(or $(SEEDS),20) -from $(or $(FROM),1) -shards $(or $(SHARDS),-1)

# The seeds of a change are new ones, and the same wherever and whenever the same files are tried again.
FRESH  = $$({ git rev-parse 'HEAD^{tree}' 2>/dev/null || date -u +%F; } | cksum | cut -d' ' -f1)
# Some two minutes on two processors.
NIGHTS ?= 25

.PHONY: nights
nights: ## some worlds whose seeds are new for each change of the files; NIGHTS=n for more. make worlds FROM=s repeats one
	@from=$(FRESH); echo "== make worlds SEEDS=$(NIGHTS) FROM=$$from"; $(MAKE) --no-print-directory worlds SEEDS=$(NIGHTS) FROM=$$from

.PHONY: rolling
rolling: ## replicas of this code and of an earlier one take turns over one status bucket; needs git's history
	$(race)
	$(GO) test -race $(LINK) -timeout $(E2E_TIMEOUT) $(TESTFLAGS) ./test/rolling

.PHONY: e2e
# The modules below test/ read files outside of themselves, of which the cache of go test knows nothing.
e2e: kubetest ## all tests on a real Kubernetes API server, then those of the modules below test/, test/browser apart; PKGS, TESTFLAGS as above
	$(race)
	@packages=$$($(kube_tests)); set -x; \
	test -z "$$packages" || $(GO) test -race -parallel $(E2E_PARALLEL) -timeout $(E2E_TIMEOUT) $(TESTFLAGS) $$packages
	@kube=$$($(kube_tests)); $(call test_raceless,{ grep -xF "$$kube" || true; })
	@for module in $(filter-out $(BROWSER),$(CODE)); do cd $(CURDIR)/$$module; \
		packages=$$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); \
		test -z "$$packages" || (set -x; $(GO) test -race -count=1 -parallel $(E2E_PARALLEL) -timeout $(E2E_TIMEOUT) $(TESTFLAGS) $$packages); \
	done

.PHONY: servers
servers: ## the life cycle on nats-servers of several versions; they are built from Go modules, the first time for a minute or two
	$(race)
	$(GO) test -race -count=1 -timeout $(E2E_TIMEOUT) $(TESTFLAGS) ./test/servers

.PHONY: nodejs
nodejs: ## a controller as programs in Node.js see it; needs node and npm, which fetches the NATS client
	$(race)
	$(GO) test -race -count=1 -timeout $(E2E_TIMEOUT) $(TESTFLAGS) ./test/nodejs

# CHROMIUM=/path names another one.
chromium = @test -n "$${CHROMIUM:-}" || command -v chromium chromium-browser google-chrome chrome >/dev/null || { \
	test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { \
		echo 'no browser: as root run apt-get install chromium, or name one with CHROMIUM=/path' >&2; exit 1; }; \
	set -x; apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends chromium fonts-dejavu-core; }

.PHONY: browser
browser: ## the live page of nagi ui in Chromium; root on Debian gets its package, others install it first
	$(chromium)
	cd $(BROWSER) && $(GO) test -count=1 -timeout $(E2E_TIMEOUT) $(TESTFLAGS) ./...

.PHONY: pictures
pictures: ## makes the pictures of the live page in docs/pictures anew
	$(chromium)
	cd $(BROWSER) && $(GO) test -count=1 -run '^TestPictures$$' -timeout $(E2E_TIMEOUT) $(TESTFLAGS) . -pictures $(CURDIR)/docs/pictures

.PHONY: kubetest
kubetest: ## builds the Kubernetes API server for tests; minutes, the first time
	$(GO) run ./test/kubetest/build

race = @test "$$($(GO) env CGO_ENABLED)" = 1 || \
	{ echo 'the race detector needs cgo and a C compiler' >&2; exit 1; }

.PHONY: bench
bench: kubetest ## measures against the peers, into docs/benchmarks.md; BENCHFLAGS='-scale 0.01 -only job' for less, to the terminal
	@mkdir -p docs
	cd test/bench && $(GO) run . $(or $(BENCHFLAGS),-out $(CURDIR)/docs/benchmarks.md)

.PHONY: microbench
microbench: ## the packages' own benchmarks; PKGS and BENCH=regexp for some
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout $(BENCH_TIMEOUT) $(TESTFLAGS) $(PKGS)

# For each target. All of them together take an hour.
FUZZTIME ?= 12m
FUZZ     := ./entity

.PHONY: fuzz
fuzz: ## looks for documents, records and keys that are read in another way than promised; FUZZTIME=10s for each target
	@for target in $$($(GO) test -list '^Fuzz' $(FUZZ) | grep '^Fuzz'); do (set -x; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 200x $(TESTFLAGS) $(FUZZ)); done

# Where govulncheck finds what is known: a mirror, or a copy as in file:///vulndb, for machines without the internet.
VULNDB ?= https://vuln.go.dev
# VULN=optional: where the database cannot be reached, make vuln says so and does not fail.
VULN   ?= required
# Not test/servers: they are old on purpose. Of test/kubetest/apiserver, which is all of Kubernetes, what is imported.
VULN_MODULES := . $(filter-out test/servers/%,$(CODE))

.PHONY: vuln
vuln: ## looks for known vulnerabilities in what is called; VULN=optional does not fail where the database is out of reach
	@failed=; for module in $(VULN_MODULES); do \
		scan=symbol; case $$module in */apiserver) scan=package;; esac; \
		echo "== govulncheck of $$module ($$scan)"; \
		output=$$(cd $$module; $(tool) govulncheck -db $(VULNDB) -scan $$scan ./... 2>&1) && status=0 || status=$$?; \
		case $$output in *'fetching vulnerabilities'*) \
			echo "$$output" >&2; \
			echo 'NOT CHECKED: the database $(VULNDB) cannot be reached; name a mirror or a copy with VULNDB' >&2; \
			test '$(VULN)' = optional && exit 0; exit 4;; \
		esac; \
		echo "$$output"; test $$status = 0 || failed="$$failed $$module"; \
	done; test -z "$$failed" || { echo "vulnerable, or not checked:$$failed" >&2; exit 1; }

.PHONY: lint
lint: vet staticcheck fmt tidy ## everything that reads the code without running it

.PHONY: vet
vet:
	@for module in . $(CODE); do (set -x; cd $$module; $(GO) vet ./...); done

.PHONY: staticcheck
staticcheck: # not of test/kubetest/apiserver, for it would read all of Kubernetes
	@for module in . $(filter-out %/apiserver,$(CODE)); do (set -x; cd $$module; $(tool) staticcheck ./...); done

.PHONY: fmt
fmt:
	@unformatted=$$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +) || exit 1; \
	test -z "$$unformatted" || { echo "not formatted, run gofmt -w on:" >&2; echo "$$unformatted" >&2; exit 1; }

.PHONY: tidy
tidy:
	@for module in . $(NESTED); do (set -x; cd $$module; $(GO) mod tidy -diff); done
