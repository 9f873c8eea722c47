#!/usr/bin/env bash
# Compares the API of the packages that others import with the recorded one, and the
# JSON tags of their fields. What a program or a file may no longer use must stand,
# as `package.Name`, in the first section of its CHANGELOG.md: of
# host/config/v1alpha1 as `config.Name`.
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
# The fields of a directory's structs, `Type.Field JSON-TAG`: apidiff leaves out tags.
json_tags() {
  find "$1" -maxdepth 1 -name '*.go' ! -name '*_test.go' -exec cat {} + | awk '
    /^}/ { type = "" }
    /^type [A-Z].* struct {$/ { type = $2 }
    type && /^\t[A-Za-z*]/ {
      tag = match($0, /json:"[^"]*/) ? substr($0, RSTART + 6, RLENGTH - 6) : ""
      print type "." $1, tag ? tag : $1
    }' | sort -k1,1
}
recorded=$(grep '^[^#]' .ci/recorded-api.txt) || { echo ".ci/recorded-api.txt: no package to compare; restore the list" >&2; exit 1; }
while read -r package changelog commit; do
  if ! has "$commit" && shallow && { ! git fetch --quiet --unshallow || ! has "$commit"; }; then
    echo "$package: NOT COMPARED: this clone is shallow and lacks $commit, whose API is kept; run git fetch --unshallow" >&2
    [ -z "${CI:-}" ] || exit 1 # whoever works without a network may go on; CI compares
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
  changes+=$(join <(json_tags "$old/$commit/$package") <(json_tags "$package") |
    awk '$2 != $3 { print "\n- " $1 ": is " $3 " in JSON, was " $2 }')
  short=${package%/v1*} short=${short##*/}
  while IFS= read -r change; do
    name=$short.${change#- } name=${name%%: *}
    every=${name/(\**)./*.} # (*Type).Method: a list may name the method of all types
    getters=${every/.Get*/.Get*} # or all getters
    [ -n "$change" ] && ! grep -qF -e "\`$name\`" -e "\`$every\`" -e "\`$getters\`" <<<"$(told "$changelog")" || continue
    echo "$package: $change; keep it, or say \`$name\` and what to write instead in $changelog" >&2
    untold=1
  done <<<"$changes"
done <<<"$recorded"
exit $untold
