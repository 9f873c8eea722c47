#!/usr/bin/env bash
# Compiles every hostile module to the .wasm beside it. Those in invalid/ use
# what WebAssembly 2.0 does not have, or do not validate.
# usage: testdata/wat/hostile/generate.sh
set -euo pipefail
cd "$(dirname "$0")"
for wat in *.wat; do
  wat2wasm "$wat" -o "${wat%.wat}.wasm"
done
for wat in invalid/*.wat; do
  wat2wasm --enable-all --no-check "$wat" -o "${wat%.wat}.wasm"
done
