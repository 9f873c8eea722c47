#!/usr/bin/env bash
# Compares the API of the SDK with the recorded one. What a provider may no longer
# compile with must stand, as `package.Name`, in the first section of CHANGELOG.md.
# usage: guests/sdk/check-api.sh APIDIFF, from the root of the repository
set -euo pipefail
apidiff=$(realpath "$1") module=github.com/wasm-ccm/wasm-ccm
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
told=$(awk '/^## / { sections++ } sections == 1' guests/sdk/CHANGELOG.md)
untold=0
has() { git cat-file -e "$1^{commit}" 2>/dev/null; }
shallow() { [ "$(git rev-parse --is-shallow-repository)" = true ]; }
while read -r package commit; do
  if ! has "$commit" && shallow && { ! git fetch --quiet --unshallow || ! has "$commit"; }; then
    echo "$package: NOT COMPARED: this clone is shallow and lacks $commit, whose API is kept; run git fetch --unshallow" >&2
    continue
  fi
  if ! has "$commit"; then
    echo "$package: there is no commit $commit, whose API is kept; mend guests/sdk/recorded-api.txt" >&2
    exit 1
  fi
  mkdir -p "$old/$commit"
  git archive "$commit" abi guests | tar -x -C "$old/$commit"
  (cd "$old/$commit/guests" && "$apidiff" -w "$old/export" "$module/$package")
  changes=$(cd guests && "$apidiff" -incompatible "$old/export" "$module/$package")
  while IFS= read -r change; do
    name=${change#- }
    [ -n "$change" ] && ! grep -qF "\`${package##*/}.${name%%: *}\`" <<<"$told" || continue
    echo "$package: $change; keep it, or say \`${package##*/}.${name%%: *}\` and what to write instead in guests/sdk/CHANGELOG.md" >&2
    untold=1
  done <<<"$changes"
done < <(grep -v '^#' guests/sdk/recorded-api.txt)
exit $untold
