# make run       the main job, shown on a control plane of its own
# make test      the tests that find most, in five minutes
# make test-all  every test that needs no cloud
# make check     format, vet, lint, import rules, generated code, API, tidy
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
MODULES := . abi guests guests/upstream guests/upstream/aws guests/upstream/vsphere guests/toolchain testdata/controlplane testdata/tools testdata/cpo testdata/prometheus testdata/vcsim
# Those whose cgo needs LLVM are vetted with the tag that finds Debian's.
export GOFLAGS ?= -trimpath

GOLANGCI_LINT_VERSION   := v2.15.0
PROTOC_GEN_LITE_VERSION := v0.14.0
CONTROLLER_GEN_VERSION  := v0.23.0
APIDIFF_VERSION         := v0.0.0-20261113113407-e3970619a1a4

export KUBEBUILDER_ASSETS ?=
CONTROL_PLANE := $(BIN)/.control-plane
REGISTRY      := $(BIN)/registry

say = @printf '\033[1m==> %s\033[0m\n' "$(1)"

## ---- the two commands of the README --------------------------------------

.PHONY: run
run: build ccmctl guests $(CONTROL_PLANE) ## Show the main job; ONCE=1 exits after it; KUBECONFIG=... uses that cluster.
	$(call say,the show)
	$(GO) test -c -o $(BUILD)/show ./host/test/e2e
	cd host/test/e2e && SHOW=1 ONCE=$(ONCE) $(TEST_ENV) $(BUILD)/show -test.run '^TestShow$$'

# With -short, tests that take long say so and end; each of them is in test-all.
.PHONY: test
test: deps build ccmctl guests guests-test helm $(CONTROL_PLANE) $(REGISTRY) ## All packages and the main job on a real control plane, with one engine; five minutes.
	$(call say,tests of the ABI and the guests)
	for module in abi guests guests/upstream testdata/cpo; do (cd $$module && $(GO) test -short ./...); done
	$(call say,tests of the host and the main job end to end)
	$(TEST_ENV) $(GO) test -short -timeout 15m ./... ./testdata/objects
	$(call say,the tests passed; make test-all runs the long ones too)

.PHONY: test-all
test-all: deps build guests $(CONTROL_PLANE) test-abi test-guests test-host test-wasmtime test-kubernetes test-browser ## Every test that needs no cloud, with the race detector and both engines; 40 minutes.
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
# gates, log formats and protections depend on it. So theirs comes first. What
# client-go knows is only what it says of itself to the API server.
LIBRARIES = $(shell $(GO) list -m -f '{{.Version}}' k8s.io/component-base | sed 's/^v0/v1/')
STAMP = -X k8s.io/component-base/version.gitVersion=$(LIBRARIES)+wasm-ccm.$(subst +,.,$(VERSION:v%=%)) -X k8s.io/component-base/version.gitCommit=$(COMMIT) \
	-X k8s.io/client-go/pkg/version.gitVersion=$(VERSION) -X k8s.io/client-go/pkg/version.gitCommit=$(COMMIT) \
	-X $(VERSIONS).release=$(VERSION) -X $(VERSIONS).commit=$(COMMIT)
VERSIONS = github.com/wasm-ccm/wasm-ccm/host/internal/version

# wasmtime is C and Rust, so this one needs cgo and glibc's static library. Names
# are resolved by Go, as in the other one: the linker's warnings are of functions
# that nothing calls.
.PHONY: build-both
build-both: deps ## The manager with both engines, a static binary; needs cgo.
	$(call say,building the manager with both engines)
	CGO_ENABLED=1 $(GO) build -tags 'wasmtime netgo osusergo' -ldflags '-s -w $(STAMP) -linkmode external -extldflags -static' -o $(BUILD)/cloud-controller-manager-both ./host/cmd/cloud-controller-manager

.PHONY: native
native: ## Upstream's manager with a provider that is compiled in, for the tests that compare this one with it.
	$(call say,building a native manager)
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(LIBRARIES)' -o $(BUILD)/native-cloud-controller-manager ./host/test/native

.PHONY: guests
guests: ## The guests as WebAssembly modules, by TinyGo where it can be had.
	$(call say,building the guests)
	guests/build.sh guests/static $(BUILD)/static.wasm
	VERSION=$$(sed -n 's/.*"version": *"\([^"]*\)".*/\1/p' guests/static/manifest.json)-next guests/build.sh guests/static $(BUILD)/static-next.wasm

.PHONY: guests-test
guests-test: guests ## The guests that only tests need, and the signers.
	$(call say,building OpenStack, signers and the guest that misbehaves)
	for guest in openstack faulty onlooker signer-keystone signer-cloudstack; do guests/build.sh guests/$$guest $(BUILD)/$$guest.wasm; done
	GUEST_DEBUG=1 guests/build.sh guests/faulty $(BUILD)/faulty-debug.wasm

.PHONY: guests-slow
guests-slow: build build-both guests guests-test ## The guests of the end-to-end tests, each op of which takes three seconds.
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

.PHONY: guests-upstream
guests-upstream: ## Providers of upstream's interface as guests, by stock Go; five minutes at first.
	$(call say,building an unmodified provider)
	for guest in aws vsphere crash; do GUEST_COMPILER=go guests/build.sh guests/upstream/$$guest $(BUILD)/$$guest.wasm; done

.PHONY: control-plane
control-plane: $(CONTROL_PLANE) ## etcd, kube-apiserver and kubectl in build/bin.
$(CONTROL_PLANE): testdata/controlplane/go.sum testdata/controlplane/assets.sh
	$(call say,etcd and kube-apiserver and kubectl)
	mkdir -p $(BIN)
	testdata/controlplane/assets.sh $(BIN)
	touch $@

.PHONY: helm
helm: $(BIN)/helm ## Helm in build/bin, for the chart's tests.
$(BIN)/helm: testdata/tools/go.mod testdata/tools/go.sum
	$(call say,building Helm)
	mkdir -p $(BIN)
	cd testdata/tools && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $@ helm.sh/helm/v4/cmd/helm
	touch $@

# The definition of CloudProviders is made of the Go types of the HostConfiguration.
CONTROLLER_GEN := $(BIN)/controller-gen-$(CONTROLLER_GEN_VERSION)
CRD            := deploy/chart/files/cloudproviders.yaml
.PHONY: crd
crd: $(CONTROLLER_GEN) ## The CustomResourceDefinition of CloudProviders.
	$(call say,the definition of CloudProviders)
	$(CONTROLLER_GEN) crd:allowDangerousTypes=true paths=./host/config/v1alpha1 output:crd:stdout | $(GO) run ./deploy/internal/crd >$(BUILD)/cloudproviders.yaml
	cp $(BUILD)/cloudproviders.yaml $(CRD)

$(CONTROLLER_GEN):
	GOBIN=$(BIN) $(GO) install sigs.k8s.io/controller-tools/cmd/controller-gen@$(CONTROLLER_GEN_VERSION)
	mv $(BIN)/controller-gen $@

# One owner for each: Go types for the schema and the reference, the chart for the manifests.
.PHONY: chart
chart: $(BIN)/helm ## The schema and the reference of the chart, and the manifests of kubectl apply -k deploy/.
	$(call say,what is made of the chart)
	$(GO) run ./deploy/values deploy/chart
	$(BIN)/helm lint --strict deploy/chart
	{ echo '# Made of deploy/chart by "make chart": the chart with its default values.'; $(BIN)/helm template ccm deploy/chart --namespace kube-system; } >deploy/manifests.yaml

.PHONY: registry
registry: $(REGISTRY) ## distribution's registry in build/bin, for tests.
$(REGISTRY): testdata/tools/go.mod testdata/tools/go.sum testdata/tools/registry/main.go
	$(call say,a registry)
	cd testdata/tools && CGO_ENABLED=0 $(GO) build -o $@ ./registry

# Its own command, without the clouds that it discovers targets in. The module is
# not tidied: that takes the sources of all these clouds.
PROMETHEUS := $(BIN)/prometheus
.PHONY: prometheus
prometheus: $(PROMETHEUS) ## Prometheus in build/bin, for tests.
$(PROMETHEUS): testdata/prometheus/server/go.mod testdata/prometheus/server/go.sum
	$(call say,building Prometheus)
	cd testdata/prometheus/server && CGO_ENABLED=0 $(GO) build -trimpath -tags remove_all_sd -ldflags '-s -w' -o $@ github.com/prometheus/prometheus/cmd/prometheus
	touch $@

.PHONY: vcsim
vcsim: $(BIN)/vcsim ## A simulated vCenter in build/bin, for tests.
$(BIN)/vcsim: testdata/vcsim/go.sum testdata/vcsim/main.go testdata/vcsim/vcenter.go
	$(call say,a simulated vCenter)
	cd testdata/vcsim && CGO_ENABLED=0 $(GO) build -o $@ .

.PHONY: image
image: build ## One static image as an OCI archive, without a Docker daemon.
	$(call say,packing the image)
	$(GO) run ./deploy/image -binary $(BUILD)/cloud-controller-manager -version $(VERSION) -o $(BUILD)/cloud-controller-manager.oci.tar

.PHONY: image-both
image-both: build-both ## The image with both engines.
	$(call say,packing the image with both engines)
	$(GO) run ./deploy/image -binary $(BUILD)/cloud-controller-manager-both -version $(VERSION) -o $(BUILD)/cloud-controller-manager-both.oci.tar

# One Go for everybody, since each makes other bytes.
RELEASE_GO    := go1.26.8
RELEASE_KEY   ?=
RELEASE_IMAGE ?= localhost/wasm-ccm/cloud-controller-manager

.PHONY: release
release: deps ## A release of the commit that is checked out, in build/release: VERSION=v0.2.0, RELEASE_KEY=FILE signs; half an hour at first.
	$(call say,release $(VERSION))
	GOTOOLCHAIN=$(RELEASE_GO) $(GO) run ./deploy/release -version '$(VERSION)' -ldflags '$(STAMP)' -image '$(RELEASE_IMAGE)' -key '$(RELEASE_KEY)' -tools $(BIN) -o $(BUILD)/release

.PHONY: release-twice
release-twice: release ## The release again, from a clone in another place and with an empty build cache, has the same digests: VERSION=v0.2.0; an hour.
	$(call say,the release again)
	work=$$(mktemp -d); trap 'rm -rf $$work' EXIT; git clone -q . $$work/another/place; \
	(cd $$work/another/place && umask 027 && TZ=Asia/Tokyo GOCACHE=$$work/cache $(MAKE) --no-print-directory release RELEASE_KEY='$(abspath $(RELEASE_KEY))'); \
	diff $(BUILD)/release/SHA256SUMS $$work/another/place/build/release/SHA256SUMS; \
	diff -r $(BUILD)/release $$work/another/place/build/release
	$(call say,both have the same bytes; now by the programs of others)
	deploy/release/check.sh $(BUILD)/release $(if $(RELEASE_KEY),<(openssl pkey -in '$(RELEASE_KEY)' -pubout))

.PHONY: deps
deps: ## What the tests need of Debian.
	@.ci/debian-packages gcc libc6-dev protobuf-compiler wabt clang-19 lld-19 rustc libstd-rust-dev-wasm32 lld-14 ca-certificates openssl skopeo

## ---- tests -----------------------------------------------------------------

# Without it a program with the race detector sleeps for a second when it ends.
TEST_ENV = GORACE=atexit_sleep_ms=0 KUBEBUILDER_ASSETS=$(BIN) CCM_BUILD=$(BUILD)

.PHONY: test-abi
test-abi:
	$(call say,tests of the ABI)
	cd abi && $(GO) test -race ./...
	$(GO) test -race ./testdata/objects

.PHONY: test-guests
test-guests:
	$(call say,tests of the SDK and the guests)
	cd guests && $(GO) test -race ./...
	cd guests/upstream && $(GO) test -race ./...
	$(call say,the test tables of cloud-provider-openstack, as data)
	cd guests && $(GO) test -tags cpo -run CPO ./openstack
	cd testdata/cpo && $(GO) test ./...

.PHONY: test-host
test-host: build ccmctl native build-both guests guests-test guests-go image helm $(CONTROL_PLANE) $(REGISTRY)
	$(call say,tests of the host and end to end)
	$(TEST_ENV) $(GO) test -race -timeout 45m ./...
	$(call say,a random walk of Services while Nodes come, which the race detector cannot watch)
	$(GO) test -run '^TestAWalk$$' ./host/internal/cloud/controllers
	$(call say,20000 random lives of a module)
	LIVES=20000 $(GO) test -timeout 20m -run '^TestRandomLives$$' ./host/internal/lifecycle/rollout
	$(call say,the chart's alerts and dashboard as Prometheus reads them)
	cd testdata/prometheus && $(TEST_ENV) $(GO) test ./...
	$(call say,a login at a simulated vCenter)
	cd testdata/vcsim && $(GO) test -race ./...

# The packages that differ with the second engine.
WASMTIME_PACKAGES := ./host/internal/sandbox/engine/wasmtime ./host/internal/sandbox/engine/enginetest ./host/test/differential ./host/test/hostile ./host/cmd/cloud-controller-manager ./host/test/snapshot

.PHONY: test-wasmtime
test-wasmtime: guests guests-test guests-go deps
	$(call say,the second engine: its contract and the hostile modules)
	CGO_ENABLED=1 $(TEST_ENV) $(GO) test -race -timeout 30m -tags wasmtime $(WASMTIME_PACKAGES)

.PHONY: test-kubernetes
test-kubernetes: guests $(CONTROL_PLANE)
	$(call say,the cloud provider tests of Kubernetes itself)
	$(TEST_ENV) host/test/kubernetes/run.sh

.PHONY: test-browser
test-browser: build ccmctl guests $(CONTROL_PLANE) ## The status page in Chromium from Debian's packages; pictures are in build/screenshots.
	@.ci/debian-packages chromium fonts-dejavu-core
	$(call say,the status page in a browser)
	cd testdata/tools && CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/browser ./browser
	$(TEST_ENV) $(GO) test -tags browser -count=1 -run '^TestStatusPageInABrowser$$' ./host/test/e2e

.PHONY: test-alerts
test-alerts: build ccmctl guests guests-test build-both helm $(CONTROL_PLANE) $(REGISTRY) $(PROMETHEUS) ## Each of the chart's alerts, fired by a Prometheus that scrapes a real manager; two minutes, not part of test-all.
	$(call say,the chart's alerts in a Prometheus)
	$(TEST_ENV) CCM_ALERTS=1 $(GO) test -count=1 -v -run '^TestScripts$$/^alerts$$' ./host/test/e2e

.PHONY: test-dashboard
test-dashboard: build ccmctl guests guests-test build-both helm $(CONTROL_PLANE) $(REGISTRY) $(PROMETHEUS) ## The chart's dashboard with Grafana's components in Chromium, and what a Prometheus has of a real manager; needs node and npm; pictures are in build/screenshots.
	@.ci/debian-packages chromium fonts-dejavu-core nodejs npm
	$(call say,the dashboard with Grafana's components)
	mkdir -p $(BUILD)/dashboard $(BUILD)/dashboard-sources
	cp -r testdata/dashboard/. $(BUILD)/dashboard-sources
	cd $(BUILD)/dashboard-sources && npm ci --ignore-scripts --no-audit --no-fund && OUT=$(BUILD)/dashboard npm run build
	cp deploy/chart/files/dashboard.json $(BUILD)/dashboard/
	cd testdata/tools && CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/panels ./browser/panels
	$(TEST_ENV) CCM_ALERTS=1 CCM_PANELS=1 $(GO) test -count=1 -v -run '^TestScripts$$/^alerts$$' ./host/test/e2e

.PHONY: test-slow
test-slow: guests-slow ccmctl $(CONTROL_PLANE) $(REGISTRY) ## The end-to-end tests with three seconds for each op of a provider; ten minutes, not part of test.
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

# AWS' own manager, with which the guest is compared.
NATIVE_AWS := $(BIN)/aws-cloud-controller-manager
$(NATIVE_AWS): testdata/tools/go.mod testdata/tools/go.sum
	$(call say,building AWS' own manager)
	mkdir -p $(BIN)
	cd testdata/tools && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $@ k8s.io/cloud-provider-aws/cmd/aws-cloud-controller-manager
	touch $@

.PHONY: test-upstream
test-upstream: build ccmctl guests-upstream $(NATIVE_AWS) $(BIN)/vcsim $(CONTROL_PLANE) ## AWS' own provider as a guest against moto from Debian's packages, and vSphere's against a simulated vCenter, half an hour; needs root.
	$(call say,AWS in memory)
	url=$$(testdata/moto/up); status=0; \
	MOTO_URL=$$url $(TEST_ENV) $(GO) test -tags upstream -count=1 -v -timeout 100m -run '$(UPSTREAM_TESTS)' ./host/test/e2e || status=$$?; \
	testdata/moto/down; exit $$status

# TestUpstreamConforms runs the conformance kit, an hour.
UPSTREAM_TESTS ?= ^(TestUpstreamAWS|TestUpstreamVSphere|TestUpstreamCrashes|TestUpstreamBesideNative)$$

# The controllers, the scheduler, the kubelet and containerd take some minutes to
# build, once.
CONTROLLERS := $(BIN)/.controllers
$(CONTROLLERS): testdata/controlplane/go.sum testdata/controlplane/assets.sh | $(CONTROL_PLANE)
	$(call say,kube-controller-manager and kube-scheduler)
	testdata/controlplane/assets.sh $(BIN) kube-controller-manager kube-scheduler
	touch $@

KUBELET := $(BIN)/.node
$(KUBELET): testdata/controlplane/go.sum testdata/tools/go.mod testdata/tools/go.sum testdata/node/assets.sh
	$(call say,kubelet and containerd)
	testdata/node/assets.sh $(BIN)
	touch $@

.PHONY: test-node
test-node: build image ccmctl guests guests-test helm $(REGISTRY) $(CONTROL_PLANE) $(CONTROLLERS) $(KUBELET) ## The manager as a pod on real kubelets and containerd, on one and two nodes; needs root; not part of test.
	@.ci/debian-packages runc containernetworking-plugins iptables iproute2 util-linux
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o $(BUILD)/pause ./host/test/node/pause
	$(call say,the manager on real nodes)
	$(TEST_ENV) $(GO) test -tags node -count=1 -v -timeout 20m -run '^TestNode$$' ./host/test/node
	$(call say,seventy mistakes of a new operator)
	$(TEST_ENV) $(GO) test -tags node -count=1 -v -timeout 30m -run '^TestMistakes$$' ./host/test/node
	$(call say,what an image costs in a cgroup of the shipped limit)
	$(TEST_ENV) CCM_CGROUPS=1 $(GO) test -count=1 -v -timeout 20m -run '^TestALayerThatExpands$$' ./host/test/e2e

.PHONY: test-rollouts
test-rollouts: helm $(CONTROL_PLANE) $(CONTROLLERS) ## Rollouts of the manifests on one, two and three nodes by the real controllers and scheduler, without kubelets; not part of test.
	$(call say,rollouts of the manager on one and two and three nodes)
	$(TEST_ENV) $(GO) test -tags node -count=1 -v -timeout 20m -run '^TestRollouts$$' ./deploy

BENCHES := bench-op bench-instances bench-meter bench-scrubber bench-engines bench-hostile bench-hostile-wasmtime bench-brake bench-hung bench-rollout bench-native
.PHONY: bench $(BENCHES)
bench: build build-both native guests guests-test $(BUILD)/json.wasm $(CONTROL_PLANE) ## Benchmarks with ratios against baselines of the same run; each is also a target: bench-op and so on.
	$(MAKE) -j1 --keep-going --no-print-directory $(BENCHES) # one at a time: each measures the machine

bench-op:
	$(call say,one call through everything)
	$(TEST_ENV) $(GO) test -run '^$$' -bench . -benchmem ./host/test/bench
	$(TEST_ENV) BENCH_REPORT=1 $(GO) test -v -count=1 -run '^TestReport$$' ./host/test/bench

bench-instances:
	$(call say,instances from nothing and as snapshots)
	CGO_ENABLED=1 $(TEST_ENV) BENCH_REPORT=1 $(GO) test -v -count=1 -timeout 60m -tags wasmtime -run '^TestInstanceReport$$' ./host/test/bench

bench-meter:
	$(call say,the meter)
	$(TEST_ENV) BENCH_REPORT=1 $(GO) test -v -count=1 -run '^TestReport$$' ./host/internal/sandbox/meter
	$(TEST_ENV) $(GO) test -run '^$$' -bench 'Meter|LongestHold' ./host/internal/sandbox/meter

bench-scrubber:
	$(call say,secrets taken out of what a cloud answers)
	BENCH_REPORT=1 $(GO) test -v -count=1 -run '^TestScrubbingTakesLittleMoreThanReading$$' ./host/internal/hostcall/credential

bench-engines:
	$(call say,the engines)
	CGO_ENABLED=1 $(TEST_ENV) $(GO) test -run '^$$' -bench . -tags wasmtime ./host/internal/sandbox/engine/enginetest

bench-hostile:
	$(call say,every hostile module beside a provider that is called every 10 ms)
	$(TEST_ENV) HOSTILE_STRICT=1 $(GO) test -v -count=1 -timeout 30m -run '^TestHostileModules$$' ./host/test/hostile

bench-hostile-wasmtime:
	$(call say,the same on wasmtime)
	CGO_ENABLED=1 $(TEST_ENV) HOSTILE_STRICT=1 $(GO) test -v -count=1 -timeout 30m -tags wasmtime -run '^TestHostileModules$$' ./host/test/hostile

bench-brake:
	$(call say,people and liars who delete machines: the deletion brake)
	BRAKE_REPORT=1 $(GO) test -v -count=1 -timeout 90m -run '^(TestScenarios|TestHistories)$$' ./host/internal/cloud/brake

bench-hung:
	$(call say,one Service that hangs beside a hundred)
	$(TEST_ENV) BENCH_REPORT=1 $(GO) test -v -count=1 -timeout 30m -run '^TestHungServiceReport$$' ./host/test/e2e

bench-rollout:
	$(call say,replacements under load; how long one takes; one provider that hangs beside another; failover; a tag that is moved)
	$(TEST_ENV) BENCH_REPORT=1 $(GO) test -v -count=1 -timeout 30m -run '^(TestReplacementsUnderLoad|TestSwapLatencyReport|TestTwoProvidersOneHangs|TestFailover|TestMovedTagReport)$$' ./host/test/e2e

bench-native: build native guests guests-test $(CONTROL_PLANE) ## This manager beside a native one on the same cloud at four speeds, while Nodes come and go; seven minutes, of which test-all has a part.
	$(call say,beside a native manager)
	$(TEST_ENV) BENCH_REPORT=1 $(GO) test -v -count=1 -timeout 30m -run '^(TestBesideNative|TestAnOrdinaryWeek)$$' ./host/test/e2e

# A guest that decodes JSON, which only the benchmark of the meter runs.
$(BUILD)/json.wasm: host/internal/sandbox/meter/testdata/json/main.go | guests
	GUEST_COMPILER=tinygo-build guests/build.sh guests/static $(BUILD)/static.wasm
	host/internal/sandbox/meter/testdata/json/build.sh $(BIN)/tinygo-build $@

.PHONY: fuzz
FUZZTIME   ?= 1m
FUZZ       ?= .
# What a process may write to, in bytes: that of the manager in the manifests.
FUZZMEMORY ?= 1073741824
fuzz: ## Every fuzz target for FUZZTIME, each with the memory of a manager: FUZZ=REGEXP chooses by "Name in DIRECTORY".
	@chosen='$(FUZZ)'; for module in abi . guests guests/upstream testdata/cpo; do (cd $$module && grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
	  sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file | while read -r f; do \
	    if [ $$module = . ] && [[ $$file == ./abi/* || $$file == ./guests/* || $$file == ./testdata/cpo/* ]]; then continue; fi; \
	    if [ $$module = guests ] && [[ $$file == ./upstream/* ]]; then continue; fi; \
	    tags=$$(sed -n 's,^//go:build \([a-z]*\)$$,\1,p' $$file); \
	    [[ "$$f in $$module/$$(dirname $$file)" =~ $$chosen ]] || continue; \
	    echo "==> $$f in $$module/$$(dirname $$file)"; $(GO) test -exec 'prlimit --data=$(FUZZMEMORY)' -tags "$$tags" -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file); done; done); done

## ---- checks ----------------------------------------------------------------

.PHONY: check
check: deps fmt vet lint generated api tidy no-binaries clean-tree ## Everything but the tests; fails on a dirty tree.
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
	cd guests && GOOS=wasip1 GOARCH=wasm $(GO) vet ./sdk ./static ./openstack/... ./example ./faulty ./onlooker ./signer-keystone ./signer-cloudstack
	$(GO) vet -tags openstack ./host/test/e2e
	$(GO) vet -tags node ./deploy ./host/test/node/...
	cd guests && $(GO) vet -tags openstack,cpo ./openstack/...
	for module in guests/upstream testdata/cpo testdata/prometheus testdata/vcsim testdata/tools; do (cd $$module && $(GO) vet ./...); done
	$(GO) vet -tags upstream ./host/test/e2e

.PHONY: lint
lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION)
	$(call say,lint and import rules)
	for module in . abi guests guests/upstream testdata/cpo testdata/prometheus testdata/vcsim testdata/tools; do (cd $$module && $< run --config $(CURDIR)/.golangci.yml --build-tags openstack,cpo,node,upstream ./...); done
	CGO_ENABLED=1 $< run --config $(CURDIR)/.golangci.yml --build-tags wasmtime $(WASMTIME_PACKAGES)

$(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION):
	$(call say,building golangci-lint (a few minutes))
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv $(BIN)/golangci-lint $@

$(BIN)/protoc-gen-go-lite:
	GOBIN=$(BIN) $(GO) install github.com/aperturerobotics/protobuf-go-lite/cmd/protoc-gen-go-lite@$(PROTOC_GEN_LITE_VERSION)

.PHONY: generate
generate: deps $(BIN)/protoc-gen-go-lite crd chart ## Generated code, vectors, modules and manifests.
	cd abi && PATH=$(BIN):$$PATH $(GO) generate ./...
	$(GO) generate ./host/internal/report
	cd abi && $(GO) test -count=1 -run '^TestVectorsAreCurrent$$' . -update
	cd guests && $(GO) test -count=1 -run '^TestConversations$$' ./sdk -update
	testdata/wat/generate.sh

.PHONY: generated
generated: deps $(BIN)/protoc-gen-go-lite $(BIN)/helm
	$(call say,generated code)
	@before=$$(git status --porcelain; git diff); $(MAKE) --no-print-directory generate; \
	after=$$(git status --porcelain; git diff); \
	if [ "$$before" != "$$after" ]; then git status --porcelain; git diff --stat; echo "generated code is stale: run make generate and commit"; exit 1; fi

.PHONY: api
api: $(BIN)/apidiff-$(APIDIFF_VERSION) ## The APIs that others import against the recorded ones.
	$(call say,the APIs that others import)
	.ci/check-api.sh $<

$(BIN)/apidiff-$(APIDIFF_VERSION):
	GOBIN=$(BIN) $(GO) install golang.org/x/exp/cmd/apidiff@$(APIDIFF_VERSION)
	mv $(BIN)/apidiff $@

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
