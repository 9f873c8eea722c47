#!/usr/bin/env bash
# Builds one guest of a checkout: ccm-build, with settings from the environment.
#
#   guests/build.sh GUESTDIR OUT.wasm
#
# GUEST_COMPILER  tinygo        a release of TinyGo on PATH
#                 tinygo-build  TinyGo as a library, with Debian's LLVM 19, which
#                               is installed if possible
#                 go            stock Go: works everywhere, ten times as large
#                 unset         the first that is available
# VERSION         replaces the manifest's version
# GUEST_OPT       TinyGo's -opt, default z
# GUEST_GC        TinyGo's -gc, default precise
# GUEST_TAGS      Go build tags; slow makes each op take three seconds
# GUEST_DEBUG=1   a build whose crashes show the line: by stock Go, unless
#                 GUEST_COMPILER says otherwise; with TinyGo -opt is 1, so that
#                 fewer functions are missing in the stack
# GUEST_TOOLS     the directory that keeps tinygo-build, default build/bin
set -euo pipefail
[ $# = 2 ] || { sed -n '2,18s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export GOFLAGS=-trimpath
exec go run -C "$here" ./cmd/ccm-build -install -toolchain "$here/toolchain" -tools "${GUEST_TOOLS:-$here/../build/bin}" \
  -compiler "${GUEST_COMPILER:-}" -version "${VERSION:-}" -opt "${GUEST_OPT:-}" -gc "${GUEST_GC:-}" -tags "${GUEST_TAGS:-}" \
  ${GUEST_DEBUG:+-debug} -o "$(realpath -m "$2")" "$(realpath "$1")"
