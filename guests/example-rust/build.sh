#!/bin/sh
# Compiles guest.rs with the first rustc that has the target and a linker for it.
# usage: build.sh OUT.wasm; RUSTC=COMMAND is asked first
set -eu
target=wasm32-unknown-unknown
can() {
  libraries=$("$1" --print target-libdir --target $target 2>/dev/null) && [ -d "$libraries" ] || return 1
  root=$("$1" --print sysroot)
  for linker in "$root"/bin/rust-lld "$root"/lib/rustlib/*/bin/rust-lld; do [ ! -x "$linker" ] || return 0; done
  return 1
}
for rustc in "${RUSTC:-rustc}" /usr/bin/rustc; do
  can "$rustc" || continue
  exec "$rustc" --target $target --crate-type cdylib --crate-name guest --edition 2021 \
    -C opt-level=s -C lto -C panic=abort -C strip=symbols -o "$1" guest.rs
done
echo "no rustc has the target $target and rust-lld: install Debian's rustc and libstd-rust-dev-wasm32 with what it recommends, or run rustup target add $target" >&2
exit 1
