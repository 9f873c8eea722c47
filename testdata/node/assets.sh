#!/usr/bin/env bash
# Puts what a node runs into a directory, built from the Go module proxy:
#
#   assets.sh OUTDIR
#
# kubelet, from the control plane's module; containerd, its shim and ctr, from the
# module of the tools, whose dependencies do not agree with Kubernetes'.
# A program is built again only when its go.mod or go.sum has changed. The first
# time takes minutes.
set -euo pipefail

out=${1:?usage: assets.sh OUTDIR}
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
cd "$(dirname "$0")"

say() { printf 'node: %s\n' "$*" >&2; }

# build MODULE PACKAGE FLAGS: the program appears only when it is whole.
build() {
	local module=$1 name=${2##*/} key start=$SECONDS
	key=$(cat "$module/go.mod" "$module/go.sum" | sha256sum | cut -c1-16)
	if [[ -x $out/$name && $(cat "$out/.$name.key" 2>/dev/null) == "$key" ]]; then return; fi
	say "building $name, once; minutes where nothing is cached"
	(cd "$module" && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -ldflags "-s -w $3" -o "$out/.$name.new" "$2")
	mv -f "$out/.$name.new" "$out/$name"
	echo "$key" >"$out/.$name.key"
	say "built $name in $((SECONDS - start)) s"
}

# version MODULE PATH: what go.mod of the module requires.
version() { (cd "$1" && go list -m -f '{{.Version}}' "$2"); }

# The kubelet tells the API server its version, and kubectl looks at it.
kubernetes=$(version ../controlplane k8s.io/kubernetes)
build ../controlplane k8s.io/kubernetes/cmd/kubelet "-X k8s.io/component-base/version.gitVersion=$kubernetes -X k8s.io/client-go/pkg/version.gitVersion=$kubernetes"

containerd=$(version ../tools github.com/containerd/containerd/v2)
for name in containerd containerd-shim-runc-v2 ctr; do
	build ../tools "github.com/containerd/containerd/v2/cmd/$name" "-X github.com/containerd/containerd/v2/version.Version=${containerd#v}"
done
