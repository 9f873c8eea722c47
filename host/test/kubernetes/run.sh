#!/usr/bin/env bash
# Runs Kubernetes' own tests of the cloud-controller-manager, unmodified and from
# the module cache, with this project's provider in the place of upstream's fake:
# k8s.io/kubernetes/test/integration/cloudprovider, and of test/integration/service
# those of loadBalancerClass and of the service controller's first ensure.
#
#   run.sh [go test flags]
#
# Those tests construct a k8s.io/cloud-provider/fake.Cloud and register it. So
# a copy of the module k8s.io/cloud-provider is made in build/, its fake/fake.go
# is replaced by a name for ours (fake/fake.go here: the same fields, but the answers
# come from the adapter, the plugin host and the static guest), and a go.mod in
# build/ takes that copy. Go refuses -overlay for files in the module cache.
#
# Needs build/static.wasm and etcd: in $KUBEBUILDER_ASSETS or build/bin.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../../.." && pwd -P)
build=${CCM_BUILD:-$root/build}
assets=${KUBEBUILDER_ASSETS:-$build/bin}
work=$build/integration

fail() { printf 'integration: %s\n' "$*" >&2; exit 1; }

[[ -x $assets/etcd ]] || fail "no etcd in $assets: run make control-plane"
[[ -s $build/static.wasm ]] || fail "no $build/static.wasm: run make guests"

mkdir -p "$work"
rm -rf "$work/cloud-provider"
cd "$root/testdata/controlplane"
upstream=$(go mod download -json k8s.io/cloud-provider | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
cp -R "$upstream" "$work/cloud-provider"
chmod -R u+w "$work/cloud-provider"
rm "$work"/cloud-provider/fake/*
cat >"$work/cloud-provider/fake/fake.go" <<'FAKE'
// Package fake stands in for upstream's.
package fake

import "github.com/wasm-ccm/wasm-ccm/host/test/kubernetes/fake"

// Cloud is this project's.
type Cloud = fake.Cloud
FAKE

# This project's packages, under a go.mod of their own that requires only what
# the control plane does not have: so the control plane's versions hold, and the
# packages of Kubernetes that are compiled already are used.
rm -rf "$work/wasm-ccm"
mkdir -p "$work/wasm-ccm"
cp -R "$root/host" "$work/wasm-ccm/"
own=$(sed -n 's/^\t\(github.com\/tetratelabs\/wazero v[^ ]*\|github.com\/aperturerobotics\/protobuf-go-lite v[^ ]*\).*/\t\1/p' "$root/go.mod")
printf 'module github.com/wasm-ccm/wasm-ccm\n\ngo 1.26.0\n\nrequire (\n%s\n)\n' "$own" >"$work/wasm-ccm/go.mod"
cp go.mod "$work/go.mod"
cat >>"$work/go.mod" <<GOMOD

require (
	github.com/wasm-ccm/wasm-ccm v0.0.0
	github.com/wasm-ccm/wasm-ccm/abi v0.0.0
$own
)

replace (
	github.com/wasm-ccm/wasm-ccm => $work/wasm-ccm
	github.com/wasm-ccm/wasm-ccm/abi => $root/abi
	k8s.io/cloud-provider => $work/cloud-provider
)
GOMOD
cat "$root/go.sum" go.sum | sort -u >"$work/go.sum"

# The tests find their fixtures by the path of a source file. These variables
# tell them where that path starts when it was trimmed.
TEST_SRCDIR=$(go env GOMODCACHE)
export TEST_SRCDIR TEST_WORKSPACE=.
export CCM_STATIC_WASM=$build/static.wasm
cd "$work"

# run TESTS [go test flags]
run() {
	local tests=$1
	shift
	echo "integration: k8s.io/kubernetes $(go list -m -f '{{.Version}}' k8s.io/kubernetes), test/integration/$tests" >&2
	PATH=$assets:$PATH CGO_ENABLED=0 go test -mod=readonly -trimpath -vet=off -count=1 -timeout 10m -v "$@" \
		"k8s.io/kubernetes/test/integration/$tests" 2>&1 |
		tee "$work/${tests//\//-}.log" |
		grep -E '^ *(--- |=== RUN|PASS|FAIL|ok|panic|[a-z_]*_test.go:[0-9]+: )|integration:|build failed|cannot'
}

run cloudprovider "$@"
run service -run 'LoadBalancerClass|MixedProtocol' "$@"
