#!/usr/bin/env bash
# Builds the guest of the JSON benchmark: build.sh TINYGO-BUILD OUT.wasm
# Without it, go test -bench Meter says that it is not there.
set -euo pipefail
cd "$(dirname "$0")"
exec "$1" -opt 2 -gc precise -o "$2" .
