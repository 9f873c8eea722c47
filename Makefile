# make run       the main job, shown on a control plane of its own
# make test      the tests that find most, in five minutes
# make test-all  every test that needs no cloud
# make check     format, vet, lint, import rules, generated code, tidy
# make bench     benchmarks, each beside its baseline
# make help      the rest

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO      ?= go
BUILD   := $(CURDIR)/build
BIN     := $(BUILD)/bin
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
VERSION ?= v0.1.0-dev+$(COMMIT)
# The modules of this repository. Each is checked and tested.
MODULES := . abi guests guests/toolchain testdata/controlplane testdata/cpo
# Those whose cgo needs LLVM are vetted with the tag that finds Debian's.
export GOFLAGS ?= -trimpath

GOLANGCI_LINT_VERSION   := v2.15.0
PROTOC_GEN_LITE_VERSION := v0.14.0

export KUBEBUILDER_ASSETS ?=
CONTROL_PLANE := $(BIN)/.control-plane

say = @printf '\033[1m==> %s\033[0m\n' "$(1)"

## ---- the two commands of the README --------------------------------------

.PHONY: run
run: build guests $(CONTROL_PLANE) ## Show the main job; ONCE=1 exits after it; KUBECONFIG=... uses that cluster.
	$(call say,the show)
	$(GO) build -o $(BUILD)/demo-run ./host/test/demo
	ONCE=$(ONCE) KUBEBUILDER_ASSETS=$(BIN) $(BUILD)/demo-run

# With -short, tests that take long say so and end; each of them is in test-all.
.PHONY: test
test: deps build ccmctl guests guests-test $(CONTROL_PLANE) ## All packages and the main job on a real control plane, with one engine; five minutes.
	$(call say,tests of the ABI and the guests)
	for module in abi guests testdata/cpo; do (cd $$module && $(GO) test -short ./...); done
	$(call say,tests of the host and the main job end to end)
	$(TEST_ENV) $(GO) test -short -timeout 15m ./... ./testdata/objects
	$(call say,the tests passed; make test-all runs the long ones too)

.PHONY: test-all
test-all: deps build guests $(CONTROL_PLANE) test-abi test-guests test-host test-wasmtime test-kubernetes ## Every test that needs no cloud, with the race detector and both engines; 40 minutes.
	$(call say,all tests passed)

## ---- simple things ---------------------------------------------------------

.PHONY: build
build: ## The manager, a static binary.
	$(call say,building the manager)
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w $(STAMP)' -o $(BUILD)/cloud-controller-manager ./host/cmd/cloud-controller-manager

.PHONY: ccmctl
ccmctl: ## The command that signs, checks and splits modules, a static binary.
	$(call say,building ccmctl)
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w $(STAMP)' -o $(BUILD)/ccmctl ./host/cmd/ccmctl

# Kubernetes' libraries take the version of the binary for their own: feature
# gates, log formats and protections depend on it. So theirs comes first.
LIBRARIES = $(shell $(GO) list -m -f '{{.Version}}' k8s.io/component-base | sed 's/^v0/v1/')
STAMP = -X k8s.io/component-base/version.gitVersion=$(LIBRARIES)+wasm-ccm.$(subst +,.,$(VERSION:v%=%)) -X k8s.io/component-base/version.gitCommit=$(COMMIT)

# wasmtime is C: this build is not static. It is for who wants another engine.
.PHONY: build-wasmtime
build-wasmtime: deps ## The manager with wasmtime as a second engine; needs cgo.
	$(call say,building the manager with wasmtime)
	CGO_ENABLED=1 $(GO) build -tags wasmtime -ldflags '-s -w $(STAMP)' -o $(BUILD)/cloud-controller-manager-wasmtime ./host/cmd/cloud-controller-manager

.PHONY: guests
guests: ## The guests as WebAssembly modules, by TinyGo where it can be had.
	$(call say,building the guests)
	guests/build.sh guests/static $(BUILD)/static.wasm
	VERSION=$$(sed -n 's/.*"version": *"\([^"]*\)".*/\1/p' guests/static/manifest.json)-next guests/build.sh guests/static $(BUILD)/static-next.wasm

.PHONY: guests-test
guests-test: guests ## The guests that only tests need, and the signers.
	$(call say,building OpenStack, signers and the guest that misbehaves)
	for guest in openstack faulty signer-keystone signer-cloudstack; do guests/build.sh guests/$$guest $(BUILD)/$$guest.wasm; done
	GUEST_DEBUG=1 guests/build.sh guests/faulty $(BUILD)/faulty-debug.wasm

.PHONY: guests-slow
guests-slow: build build-wasmtime guests guests-test ## The guests of the end-to-end tests, each op of which takes three seconds.
	$(call say,building slow guests)
	mkdir -p $(BUILD)/slow
	for file in $(BUILD)/*; do case $$(basename $$file .stamp) in static.wasm | static-next.wasm | faulty.wasm) ;; *) [ -d $$file ] || ln -sf $$file $(BUILD)/slow/ ;; esac; done
	GUEST_TAGS=slow guests/build.sh guests/static $(BUILD)/slow/static.wasm
	GUEST_TAGS=slow VERSION=$$(sed -n 's/.*"version": *"\([^"]*\)".*/\1/p' guests/static/manifest.json)-next guests/build.sh guests/static $(BUILD)/slow/static-next.wasm
	GUEST_TAGS=slow guests/build.sh guests/faulty $(BUILD)/slow/faulty.wasm

.PHONY: guests-go
guests-go: ## One guest by stock Go, which must stay possible.
	$(call say,building a guest with stock Go)
	GUEST_COMPILER=go guests/build.sh guests/static $(BUILD)/static-go.wasm

.PHONY: control-plane
control-plane: $(CONTROL_PLANE) ## etcd, kube-apiserver and kubectl in build/bin.
$(CONTROL_PLANE): testdata/controlplane/go.sum testdata/controlplane/assets.sh
	$(call say,etcd and kube-apiserver and kubectl)
	mkdir -p $(BIN)
	testdata/controlplane/assets.sh $(BIN)
	touch $@

.PHONY: image
image: build ## One static image as an OCI archive, without a Docker daemon.
	$(call say,packing the image)
	$(GO) run ./deploy/image -binary $(BUILD)/cloud-controller-manager -version $(VERSION) -o $(BUILD)/cloud-controller-manager.oci.tar

.PHONY: deps
deps: ## What the tests need of Debian.
	@.ci/debian-packages gcc libc6-dev protobuf-compiler wabt clang-19 lld-19 ca-certificates openssl

## ---- tests -----------------------------------------------------------------

TEST_ENV = KUBEBUILDER_ASSETS=$(BIN) CCM_BUILD=$(BUILD)

.PHONY: test-abi
test-abi:
	$(call say,tests of the ABI)
	cd abi && $(GO) test -race ./...
	$(GO) test -race ./testdata/objects

.PHONY: test-guests
test-guests:
	$(call say,tests of the SDK and the guests)
	cd guests && $(GO) test -race ./...
	$(call say,the test tables of cloud-provider-openstack, as data)
	cd guests && $(GO) test -tags cpo -run CPO ./openstack
	cd testdata/cpo && $(GO) test ./...

.PHONY: test-host
test-host: build ccmctl build-wasmtime guests guests-test guests-go image $(CONTROL_PLANE)
	$(call say,tests of the host and end to end)
	$(TEST_ENV) $(GO) test -race -timeout 45m ./...

# The packages that differ with the second engine.
WASMTIME_PACKAGES := ./host/internal/sandbox/engine/wasmtime ./host/test/differential ./host/test/hostile ./host/cmd/cloud-controller-manager

.PHONY: test-wasmtime
test-wasmtime: guests guests-test guests-go deps
	$(call say,the second engine: its contract and the hostile modules)
	CGO_ENABLED=1 $(TEST_ENV) $(GO) test -race -timeout 30m -tags wasmtime $(WASMTIME_PACKAGES)

.PHONY: test-kubernetes
test-kubernetes: guests $(CONTROL_PLANE)
	$(call say,the cloud provider tests of Kubernetes itself)
	$(TEST_ENV) host/test/kubernetes/run.sh

.PHONY: test-slow
test-slow: guests-slow $(CONTROL_PLANE) ## The end-to-end tests with three seconds for each op of a provider; ten minutes, not part of test.
	$(call say,end to end with a cloud that takes three seconds)
	$(TEST_ENV) CCM_SLOW=1 $(GO) test -count=1 -v -timeout 30m -run '$(SLOW_TESTS)' ./host/test/e2e

SLOW_TESTS ?= ^TestScripts$$

.PHONY: test-keystone
test-keystone: deps ## The signer for Keystone against a real Keystone from Debian's packages; not part of test.
	$(call say,a real Keystone)
	testdata/keystone/up.sh
	cd guests && KEYSTONE_URL=http://127.0.0.1:35357 $(GO) test -count=1 -v -run TestKeystone ./signer-keystone; status=$$?; cd .. && testdata/keystone/down.sh; exit $$status

# Its own machine, so to speak: everything runs in a chroot on loopback.
.PHONY: test-openstack
test-openstack: build ccmctl guests guests-test $(CONTROL_PLANE) ## OpenStack's provider against a real OpenStack from Debian's packages, an hour; needs root.
	$(call say,a real OpenStack)
	testdata/openstack/up
	$(call say,the guest against it and the conformance kit and end to end)
	status=0; export OPENSTACK_RC=$(BUILD)/openstack/openrc.json; \
	(cd guests && $(GO) test -tags openstack -count=1 -p 1 -timeout 20m ./openstack/...) || status=$$?; \
	$(TEST_ENV) $(GO) test -tags openstack -count=1 -v -timeout 100m -run OpenStack ./host/test/e2e || status=$$?; \
	testdata/openstack/down; exit $$status

# The controllers and the scheduler take some minutes to build, once.
.PHONY: test-node
test-node: $(CONTROL_PLANE) ## Rollouts of the manifests on one, two and three nodes by the real controllers and scheduler; not part of test.
	$(call say,kube-controller-manager and kube-scheduler)
	testdata/controlplane/assets.sh $(BIN) kube-controller-manager kube-scheduler
	$(call say,rollouts of the manager on one and two and three nodes)
	$(TEST_ENV) $(GO) test -tags node -count=1 -v -timeout 20m -run '^TestRollouts$$' ./deploy

.PHONY: bench
bench: build build-wasmtime guests guests-test $(BUILD)/json.wasm $(CONTROL_PLANE) ## Benchmarks with ratios against baselines of the same run.
	$(call say,one call through everything)
	$(TEST_ENV) $(GO) test -run '^$$' -bench . -benchmem ./host/test/bench
	$(TEST_ENV) BENCH_REPORT=1 $(GO) test -v -count=1 -run '^TestReport$$' ./host/test/bench
	$(call say,the meter)
	$(TEST_ENV) BENCH_REPORT=1 $(GO) test -v -count=1 -run '^TestReport$$' ./host/internal/sandbox/meter
	$(TEST_ENV) $(GO) test -run '^$$' -bench 'Meter|LongestHold' ./host/internal/sandbox/meter
	$(call say,secrets taken out of what a cloud answers)
	BENCH_REPORT=1 $(GO) test -v -count=1 -run '^TestScrubbingTakesLittleMoreThanReading$$' ./host/internal/hostcall/credential
	$(call say,the engines)
	$(TEST_ENV) $(GO) test -run '^$$' -bench . ./host/internal/sandbox/engine/wazero
	CGO_ENABLED=1 $(TEST_ENV) $(GO) test -run '^$$' -bench . -tags wasmtime ./host/internal/sandbox/engine/wasmtime
	$(call say,every hostile module beside a provider that is called every 10 ms)
	$(TEST_ENV) HOSTILE_STRICT=1 $(GO) test -v -count=1 -timeout 30m -run '^TestHostileModules$$' ./host/test/hostile
	CGO_ENABLED=1 $(TEST_ENV) HOSTILE_STRICT=1 $(GO) test -v -count=1 -timeout 30m -tags wasmtime -run '^TestHostileModules$$' ./host/test/hostile
	$(call say,people and liars who delete machines: the deletion brake)
	BRAKE_REPORT=1 $(GO) test -v -count=1 -timeout 90m -run '^(TestScenarios|TestHistories)$$' ./host/internal/cloud/brake
	$(call say,one Service that hangs beside a hundred)
	$(TEST_ENV) BENCH_REPORT=1 $(GO) test -v -count=1 -timeout 30m -run '^TestHungServiceReport$$' ./host/test/e2e
	$(call say,replacements under load; how long one takes; one provider that hangs beside another; failover)
	$(TEST_ENV) BENCH_REPORT=1 $(GO) test -v -count=1 -timeout 30m -run '^(TestReplacementsUnderLoad|TestSwapLatencyReport|TestTwoProvidersOneHangs|TestFailover)$$' ./host/test/e2e

# A guest that decodes JSON, which only the benchmark of the meter runs.
$(BUILD)/json.wasm: host/internal/sandbox/meter/testdata/json/main.go | guests
	GUEST_COMPILER=tinygo-build guests/build.sh guests/static $(BUILD)/static.wasm
	host/internal/sandbox/meter/testdata/json/build.sh $(BIN)/tinygo-build $@

.PHONY: fuzz
FUZZTIME ?= 1m
fuzz: ## Every fuzz target for FUZZTIME.
	@for module in abi . guests testdata/cpo; do (cd $$module && grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
	  sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file | while read -r f; do \
	    if [ $$module = . ] && [[ $$file == ./abi/* || $$file == ./guests/* || $$file == ./testdata/cpo/* ]]; then continue; fi; \
	    tags=$$(sed -n 's,^//go:build \([a-z]*\)$$,\1,p' $$file); \
	    echo "==> $$f in $$module/$$(dirname $$file)"; $(GO) test -tags "$$tags" -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file); done; done); done

## ---- checks ----------------------------------------------------------------

.PHONY: check
check: deps fmt vet lint generated tidy no-binaries clean-tree ## Everything but the tests; fails on a dirty tree.
	$(call say,all checks passed)

.PHONY: fmt
fmt:
	$(call say,format)
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt these files:"; echo "$$out"; exit 1; fi

.PHONY: vet
vet:
	$(call say,vet)
	for module in . abi guests; do (cd $$module && $(GO) vet ./...); done
	CGO_ENABLED=1 $(GO) vet -tags wasmtime $(WASMTIME_PACKAGES)
	cd guests && GOOS=wasip1 GOARCH=wasm $(GO) vet ./sdk ./static ./openstack/... ./example ./faulty ./signer-keystone ./signer-cloudstack
	$(GO) vet -tags openstack ./host/test/e2e
	$(GO) vet -tags node ./deploy
	cd guests && $(GO) vet -tags openstack,cpo ./openstack/...
	cd testdata/cpo && $(GO) vet ./...

.PHONY: lint
lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION)
	$(call say,lint and import rules)
	for module in . abi guests testdata/cpo; do (cd $$module && $< run --config $(CURDIR)/.golangci.yml --build-tags openstack,cpo,node ./...); done
	CGO_ENABLED=1 $< run --config $(CURDIR)/.golangci.yml --build-tags wasmtime $(WASMTIME_PACKAGES)

$(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION):
	$(call say,building golangci-lint (a few minutes))
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv $(BIN)/golangci-lint $@

$(BIN)/protoc-gen-go-lite:
	GOBIN=$(BIN) $(GO) install github.com/aperturerobotics/protobuf-go-lite/cmd/protoc-gen-go-lite@$(PROTOC_GEN_LITE_VERSION)

.PHONY: generate
generate: deps $(BIN)/protoc-gen-go-lite ## Generated code, vectors and modules.
	cd abi && PATH=$(BIN):$$PATH $(GO) generate ./...
	testdata/wat/generate.sh

.PHONY: generated
generated: deps $(BIN)/protoc-gen-go-lite
	$(call say,generated code)
	@before=$$(git status --porcelain; git diff); $(MAKE) --no-print-directory generate; \
	after=$$(git status --porcelain; git diff); \
	if [ "$$before" != "$$after" ]; then git status --porcelain; git diff --stat; echo "generated code is stale: run make generate and commit"; exit 1; fi

.PHONY: tidy
tidy:
	$(call say,tidy)
	for module in $(MODULES); do (cd $$module && $(GO) mod tidy -diff); done

.PHONY: no-binaries
no-binaries:
	$(call say,nothing built is in git)
	@large=$$(git ls-files -z | xargs -0 du -b | awk '$$1 > 1048576'); if [ -n "$$large" ]; then echo "$$large"; echo "these are too large for sources: were they built?"; exit 1; fi

.PHONY: clean-tree
clean-tree:
	@if [ -n "$$(git status --porcelain)" ]; then git status --short; echo "the tree is dirty: commit or remove these"; exit 1; fi

.PHONY: clean
clean: ## Remove what was built.
	rm -rf $(BUILD)

.PHONY: help
help: ## This text.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16
