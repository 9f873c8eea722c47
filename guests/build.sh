#!/usr/bin/env bash
# Builds one guest: compiles it and appends its manifest.
#
#   guests/build.sh GUESTDIR OUT.wasm
#
# GUEST_COMPILER  tinygo        a release of TinyGo on PATH
#                 tinygo-build  TinyGo as a library, with Debian's LLVM 19
#                 go            stock Go: works everywhere, ten times as large
#                 unset         the first of these that can be had
# VERSION         takes the place of the manifest's version
# GUEST_OPT       TinyGo's -opt, default z
# GUEST_GC        TinyGo's -gc, default precise
# GUEST_TAGS      Go build tags; slow makes each op take three seconds
# GUEST_DEBUG=1   a build whose crashes tell the line: by stock Go, unless
#                 GUEST_COMPILER says otherwise; with TinyGo -opt is 1, so that
#                 fewer functions are missing in the stack
set -euo pipefail

usage() { sed -n '2,16s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# = 2 ] || usage
[ -f "$1/manifest.json" ] || { echo "build.sh: $1/manifest.json is not there; every guest needs a manifest" >&2; exit 1; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
guest=$(cd "$1" && pwd)
mkdir -p "$(dirname "$2")"
out=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
tools=${GUEST_TOOLS:-$here/../build/bin}
debug=${GUEST_DEBUG:-}
opt=${GUEST_OPT:-${debug:+1}}
opt=${opt:-z}
gc=${GUEST_GC:-precise}
tags=${GUEST_TAGS:-}
# What the guests are built with is decided here, not by the caller's flags.
export GOFLAGS=-trimpath
packages=(llvm-19-dev libclang-19-dev clang-19 lld-19 binaryen wasi-libc libclang-rt-19-dev-wasm32)

installed() { dpkg-query -W -f='${db:Status-Status}\n' "${packages[@]}" 2>/dev/null | grep -c '^installed$' | grep -qx ${#packages[@]}; }

# The packages of LLVM, and whether the tool can be built with them.
install_llvm() {
  installed && return
  command -v apt-get >/dev/null || return 1
  local sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo -n)
  echo "==> installing ${packages[*]}" >&2
  { "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${packages[@]}" gcc g++ libc6-dev; } >/dev/null 2>&1 && installed
}

build_tool() {
  mkdir -p "$tools"
  [ -x "$tools/tinygo-build" ] || echo "==> building the TinyGo compiler (about a minute, once)" >&2
  (cd "$here/toolchain" && go build -tags llvm19 -o "$tools/tinygo-build" ./tinygo-build)
}

case ${GUEST_COMPILER:-} in
tinygo | go) compiler=$GUEST_COMPILER why="GUEST_COMPILER says so" ;;
tinygo-build)
  compiler=tinygo-build why="GUEST_COMPILER says so"
  install_llvm || { echo "build.sh: these Debian packages are needed: ${packages[*]}" >&2; exit 1; }
  ;;
"")
  if [ -n "$debug" ]; then
    compiler=go why="its panics tell the line; GUEST_DEBUG is set"
  elif command -v tinygo >/dev/null; then
    compiler=tinygo why="it is on PATH"
  elif install_llvm; then
    compiler=tinygo-build why="no tinygo on PATH, Debian's LLVM 19 is there"
  else
    compiler=go why="no tinygo on PATH, and Debian's LLVM 19 cannot be installed; the guest will be ten times as large"
  fi
  ;;
*) echo "build.sh: GUEST_COMPILER=$GUEST_COMPILER is none of tinygo, tinygo-build, go" >&2; exit 1 ;;
esac
[ $compiler != tinygo-build ] || build_tool

version=${VERSION:-$(sed -n 's/.*"version": *"\([^"]*\)".*/\1/p' "$guest/manifest.json" | head -n1)}

# Compiling takes up to half a minute, so it is left out when nothing that it
# depends on has changed.
stamp=$({
  echo "$compiler $version $opt $gc $debug${tags:+ $tags}"; go version
  [ $compiler != tinygo ] || tinygo version
  find "$here" "$here/../abi" "$guest" -type f \( -name '*.go' -o -name 'go.*' -o -name '*.json' -o -name build.sh \) \
    ! -name '*_test.go' -exec sha256sum {} + | sort -u
} | sha256sum)
if [ -f "$out" ] && [ "$stamp" = "$(cat "$out.stamp" 2>/dev/null)" ]; then
  echo "==> $(basename "$out") is up to date" >&2
  exit 0
fi

SECONDS=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -f "$out.stamp"
(cd "$here" && go build -o "$work/ccm-manifest" ./cmd/ccm-manifest)
"$work/ccm-manifest" check -manifest "$guest/manifest.json" -version "$version" # before what takes half a minute
cd "$guest"
case $compiler in
tinygo)
  tinygo build -target=wasip1 -buildmode=c-shared -scheduler=none -opt="$opt" -gc="$gc" -tags "$tags" -no-debug \
    -ldflags="-X main.version=$version" -o "$work/guest.wasm" .
  ;;
tinygo-build) "$tools/tinygo-build" -opt "$opt" -gc "$gc" -tags "$tags" -X "main.version=$version" -o "$work/guest.wasm" . ;;
go)
  # The names of functions are in no section with -s; their lines are in any case.
  strip=-s
  [ -z "$debug" ] || strip=
  GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -tags "$tags" -ldflags="$strip -w -X main.version=$version" -o "$work/guest.wasm" .
  ;;
esac
"$work/ccm-manifest" append -manifest "$guest/manifest.json" -version "$version" -o "$work/out.wasm" "$work/guest.wasm"
mv "$work/out.wasm" "$out"
echo "$stamp" >"$out.stamp"
echo "==> $(basename "$out") $version: $(($(wc -c <"$out") / 1024)) KiB by $compiler ($why), ${SECONDS}s" >&2
