#!/usr/bin/env bash
# Compiles every hand-written .wat of the repository to the .wasm beside it.
# usage: testdata/wat/generate.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
for wat in testdata/wat/*.wat host/internal/sandbox/meter/testdata/*.wat host/internal/sandbox/engine/enginetest/testdata/*.wat; do
  wat2wasm "$wat" -o "${wat%.wat}.wasm"
done
testdata/wat/hostile/generate.sh
