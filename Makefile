# make run   build the broker, start it, and show what to try
# make test  run the tests
# The rest is for those who change Skep; docs/development.md says more.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
LDFLAGS  = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.2
NFPM          = github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
BENCHSTAT     = golang.org/x/perf/cmd/benchstat@latest

.PHONY: run build test race lint fuzz model histories simulate crash torture demo bench bench-quick bench-compare cover tidy-check package package-check clean

run: build
	@./bin/skep serve & pid=$$!; \
	trap 'kill $$pid 2>/dev/null; wait $$pid; exit 0' INT TERM; \
	sh docs/first-steps.sh; \
	wait $$pid

build:
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/skep ./cmd/skep

test:
	$(GO) test -shuffle=on ./...

race:
	GOMAXPROCS=4 $(GO) test -race -shuffle=on ./...

# The linter keeps its findings by what a file says, and where it found them: with a cache of all
# checkouts, one that has gone lends another findings whose nolint comments cannot be read.
lint:
	GOLANGCI_LINT_CACHE=$(CURDIR)/bin/lint-cache $(GO) run $(GOLANGCI_LINT) run ./...

FUZZTIME ?= 10s
fuzz:
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

# make model HISTORIES=20000 compares the broker with its model for longer, and make model
# DURATION=1h for as long. A failure is told by its seed: make model SEED=42 HISTORIES=1.
HISTORIES ?= 5000
SEED      ?= 0
DURATION  ?= 0s
model:
	@seed=$(SEED); [ $$seed -ne 0 ] || seed=$$(date +%s); \
	echo "histories from seed $$seed"; \
	$(GO) test -count=1 -timeout 0 ./server/model -run '^TestModel' -v -model.duration=$(DURATION) \
	  -rapid.checks=$(HISTORIES) -rapid.steps=200 -rapid.seed=$$seed

# make histories DURATION=1h lets clients contend, and checks that what they saw is
# linearizable.
histories: DURATION := $(if $(filter 0s,$(DURATION)),5m,$(DURATION))
histories:
	$(GO) test -count=1 -timeout 0 ./server/model -run '^TestConcurrentHistories' -v -contest.duration=$(DURATION) -contest.seed=$(SEED)

# make simulate DURATION=10m runs the broker on a disk in memory that fails, for longer. A
# failure is told by its seed: make simulate RUNS=1 SEED=42.
RUNS ?= 100
simulate:
	@seed=$(SEED); [ $$seed -ne 0 ] || seed=$$(date +%s); \
	echo "simulations from seed $$seed"; \
	$(GO) test -count=1 -timeout 0 ./broker -run '^TestSimulation$$' -v \
	  -simulate.runs=$(RUNS) -simulate.seed=$$seed -simulate.duration=$(DURATION)

ROUNDS ?= 40
crash: build
	$(GO) run ./bench/crash --skep bin/skep --mode all --rounds $(ROUNDS)

# make torture DURATION=1h ONLY=rot,full SEED=42 is about disks and machines that fail; as
# root it does more.
ONLY ?=
torture: build
	$(GO) run ./bench/torture --skep bin/skep --duration $(if $(filter-out 0s,$(DURATION)),$(DURATION),5m) --seed $(SEED) --only '$(ONLY)'

demo: build
	$(GO) run ./bench/demo --skep bin/skep

bench: build
	$(GO) run ./bench --skep bin/skep

bench-quick: build
	$(GO) run ./bench --skep bin/skep --quick

# make bench-compare REF=main compares the Go benchmarks of the work tree with REF.
REF ?= HEAD
bench-compare:
	@dir=$$(mktemp -d) && git worktree add -q $$dir $(REF) && \
	(cd $$dir && $(GO) test -run '^$$' -bench . -count 10 ./... > $$dir.old); \
	$(GO) test -run '^$$' -bench . -count 10 ./... > $$dir.new; \
	git worktree remove --force $$dir; \
	$(GO) run $(BENCHSTAT) $$dir.old $$dir.new

cover:
	$(GO) test -coverpkg=./... -coverprofile=cover.out ./... && $(GO) tool cover -func=cover.out | tail -1

tidy-check:
	$(GO) mod tidy -diff

# make package makes a deb and an rpm in dist. Versions of packages are semantic ones: a build
# without a tag counts as older than all releases.
PACKAGE_VERSION = $(if $(filter v%,$(VERSION)),$(VERSION),v0.0.0-$(VERSION))
package: build
	@rm -rf dist && mkdir dist
	@for format in deb rpm; do \
	  ARCH=$$($(GO) env GOARCH) PACKAGE_VERSION=$(PACKAGE_VERSION) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || date +%s) \
	  GOOS= GOARCH= $(GO) run $(NFPM) package --config packaging/nfpm.yaml --packager $$format --target dist || exit 1; \
	done

# make package-check runs what is in the package, and what the Dockerfile makes; see the script.
package-check: package
	sh packaging/check.sh dist/*.deb

clean:
	rm -rf bin dist cover.out
