#!/usr/bin/env bash
# Compares the API of the packages that others import with the recorded one. What a
# program may no longer compile with must stand, as `package.Name`, in the first
# section of its CHANGELOG.md: of host/config/v1alpha1 as `config.Name`.
# usage: .ci/check-api.sh APIDIFF, from the root of the repository
set -euo pipefail
apidiff=$(realpath "$1") module=github.com/wasm-ccm/wasm-ccm
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
untold=0
has() { git cat-file -e "$1^{commit}" 2>/dev/null; }
shallow() { [ "$(git rev-parse --is-shallow-repository)" = true ]; }
told() { awk '/^## / { sections++ } sections == 1' "$1"; }
# Go looks for the module of a package from the directory of the command.
module_of() { local dir=$1; until [ -e "$dir/go.mod" ]; do dir=$(dirname "$dir"); done; echo "$dir"; }
while read -r package changelog commit; do
  if ! has "$commit" && shallow && { ! git fetch --quiet --unshallow || ! has "$commit"; }; then
    echo "$package: NOT COMPARED: this clone is shallow and lacks $commit, whose API is kept; run git fetch --unshallow" >&2
    continue
  fi
  if ! has "$commit"; then
    echo "$package: there is no commit $commit, whose API is kept; mend .ci/recorded-api.txt" >&2
    exit 1
  fi
  if [ ! -e "$old/$commit" ]; then
    mkdir "$old/$commit"
    git archive "$commit" abi guests host go.mod go.sum | tar -x -C "$old/$commit"
  fi
  home=$(module_of "$package")
  (cd "$old/$commit/$home" && "$apidiff" -w "$old/export" "$module/$package")
  changes=$(cd "$home" && "$apidiff" -incompatible "$old/export" "$module/$package")
  short=${package%/v1*} short=${short##*/}
  while IFS= read -r change; do
    name=$short.${change#- } name=${name%%: *}
    every=${name/(\**)./*.} # (*Type).Method: a list may name the method of all types
    [ -n "$change" ] && ! grep -qF -e "\`$name\`" -e "\`$every\`" <<<"$(told "$changelog")" || continue
    echo "$package: $change; keep it, or say \`$name\` and what to write instead in $changelog" >&2
    untold=1
  done <<<"$changes"
done < <(grep -v '^#' .ci/recorded-api.txt)
exit $untold
