#!/usr/bin/env bash
# Puts the binaries of the development control plane into a directory:
#
#   assets.sh OUTDIR [kube-controller-manager] [kube-scheduler]
#
# etcd, kube-apiserver and kubectl always, the others when they are
# asked for. Each is taken from the first of these that has it:
#
#   1. $KUBEBUILDER_ASSETS, when it holds all that is asked for;
#   2. setup-envtest, when its site answers (seconds);
#   3. a build of the versions in go.mod from the Go module proxy (minutes).
#
# What is there already and belongs to the same go.mod and go.sum is kept, so
# that a second run takes no time. ENVTEST=off leaves out the second way.
set -euo pipefail

readonly setup_envtest=sigs.k8s.io/controller-runtime/tools/setup-envtest@v0.25.1

out=${1:?usage: assets.sh OUTDIR [kube-controller-manager] [kube-scheduler]}
names=(etcd kube-apiserver kubectl "${@:2}")
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
cd "$(dirname "$0")"

say() { printf 'control plane: %s\n' "$*" >&2; }

# package NAME: the main package of a binary.
package() {
	case $1 in
	etcd) echo go.etcd.io/etcd/server/v3 ;;
	kube-apiserver | kubectl | kube-controller-manager | kube-scheduler) echo "k8s.io/kubernetes/cmd/$1" ;;
	*) say "unknown binary $1, known are etcd kube-apiserver kubectl kube-controller-manager kube-scheduler"; exit 2 ;;
	esac
}

# complete DIR NAME...: whether the directory holds all of the names.
complete() {
	local dir=$1 name
	for name in "${@:2}"; do [[ -x $dir/$name ]] || return 1; done
}

# missing: those of $names that $out lacks or has from another key.
missing() {
	local name
	for name in "${names[@]}"; do
		[[ -x $out/$name && $(cat "$out/.$name.key" 2>/dev/null) == "$key" ]] || echo "$name"
	done
}

# take DIR NAME...: links the binaries of a directory into $out.
take() {
	local dir=$1 name
	for name in "${@:2}"; do
		ln -sfn "$dir/$name" "$out/$name"
		echo "$key" >"$out/.$name.key"
	done
}

# with_progress WHAT COMMAND...: says every 15 s that the command still runs.
with_progress() {
	local what=$1 start=$SECONDS pid status=0
	shift
	"$@" &
	pid=$!
	(
		tick=0
		while sleep 1 && kill -0 "$pid" 2>/dev/null; do
			tick=$((tick + 1))
			((tick % 15)) || say "$what, $((SECONDS - start)) s"
		done
	) &
	wait "$pid" || status=$?
	((status)) && say "$what failed after $((SECONDS - start)) s"
	return "$status"
}

# download: by setup-envtest; prints the directory. Fails within seconds when the
# site does not answer. 1.37.x takes the newest release of the minor version.
download() {
	[[ ${ENVTEST:-} != off ]] || return 1
	local tool=$out/.setup-envtest
	mkdir -p "$tool"
	{
		GOBIN=$tool timeout 120 go install "$setup_envtest" &&
			timeout 10 "$tool/setup-envtest" list --bin-dir "$tool" >&2
	} 2>"$tool/log" || { say "setup-envtest's site does not answer"; return 1; }
	say "downloading Kubernetes ${kubernetes%.*} by setup-envtest"
	timeout 300 "$tool/setup-envtest" use "$(sed 's/^v//; s/[0-9]*$/x/' <<<"$kubernetes")" \
		--bin-dir "$tool" -p path 2>"$tool/log" || { say "setup-envtest failed: $(tail -n1 "$tool/log")"; return 1; }
}

# stamps: linker flags with which the binaries report their version, as the
# release builds do. A client decides by it what a server can do.
stamps() {
	local major minor p
	IFS=. read -r major minor _ <<<"${kubernetes#v}"
	for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		printf -- '-X %s.gitVersion=%s ' "$p" "$kubernetes"
		printf -- '-X %s.gitMajor=%s -X %s.gitMinor=%s ' "$p" "$major" "$p" "$minor"
		printf -- '-X %s.gitCommit=unknown -X %s.gitTreeState=archive ' "$p" "$p"
		printf -- '-X %s.buildDate=1970-01-01T00:00:00Z ' "$p"
	done
}

# build NAME: from the module proxy. The file appears only when it is whole.
build() {
	local name=$1 start=$SECONDS
	with_progress "building $name" env CGO_ENABLED=0 GOFLAGS=-mod=readonly \
		go build -trimpath -ldflags "-s -w $(stamps)" -o "$out/.$name.new" "$(package "$name")"
	mv -f "$out/.$name.new" "$out/$name"
	echo "$key" >"$out/.$name.key"
	say "built $name in $((SECONDS - start)) s"
}

for name in "${names[@]}"; do package "$name" >/dev/null; done

if [[ -n ${KUBEBUILDER_ASSETS:-} && $(readlink -f "$KUBEBUILDER_ASSETS") != "$out" ]]; then
	if complete "$KUBEBUILDER_ASSETS" "${names[@]}"; then
		key="from $KUBEBUILDER_ASSETS"
		take "$(cd "$KUBEBUILDER_ASSETS" && pwd -P)" "${names[@]}"
		say "using ${names[*]} of KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS"
		exit
	fi
	say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS lacks one of ${names[*]}: not used"
fi

key=$(cat go.mod go.sum | sha256sum | cut -c1-16)
mapfile -t wanted < <(missing)
((${#wanted[@]})) || exit 0

kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
if dir=$(download) && complete "$dir" etcd kube-apiserver kubectl; then
	take "$dir" etcd kube-apiserver kubectl
	mapfile -t wanted < <(missing)
fi
if ((${#wanted[@]})); then
	say "building ${wanted[*]} (Kubernetes $kubernetes) from the module proxy, once; minutes where nothing is cached"
fi
for name in "${wanted[@]}"; do build "$name"; done
