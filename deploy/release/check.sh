#!/usr/bin/env bash
# Checks a release by programs of others: sha256sum, openssl, skopeo.
#
#   deploy/release/check.sh DIRECTORY [PUBLIC-KEY]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
most=$((40 * 1000 * 1000)) # bytes of an image, compressed
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -z "${2:-}" ] || cat "$2" >"$work/public"
cd "$1"

sha256sum --strict --quiet -c SHA256SUMS
[ ! -f "$work/public" ] || {
  base64 -d SHA256SUMS.sig >"$work/raw"
  openssl dgst -sha256 -verify "$work/public" -signature "$work/raw" SHA256SUMS
}

archive=$(ls cloud-controller-manager-v*.oci.tar | grep -v '\.sig\.')
index=$(skopeo inspect --raw "oci-archive:$archive" | sha256sum | cut -d' ' -f1)
echo "index  sha256:$index"
for arch in amd64 arm64; do
  skopeo --override-os linux --override-arch "$arch" copy -q "oci-archive:$archive" "dir:$work/$arch"
  size=0
  for file in "$work/$arch"/*; do size=$((size + $(wc -c <"$file"))); done
  mkdir "$work/$arch.root"
  skopeo --override-os linux --override-arch "$arch" inspect "oci-archive:$archive" | sed -n 's/.*"\(sha256:[0-9a-f]*\)",\{0,1\}$/\1/p' | sort -u | while read -r layer; do
    [ ! -f "$work/$arch/${layer#sha256:}" ] || tar -xzf "$work/$arch/${layer#sha256:}" -C "$work/$arch.root"
  done
  unpacked=$(du -sb --apparent-size "$work/$arch.root" | cut -f1)
  echo "image  linux/$arch: $size bytes compressed, $unpacked unpacked"
  [ "$size" -lt "$most" ] || { echo "check.sh: the image for $arch has more than $most bytes" >&2; exit 1; }
  if [ "$arch" = "$(dpkg --print-architecture)" ]; then "$work/$arch.root/cloud-controller-manager" --version; fi
done
"./ccmctl-linux-$(dpkg --print-architecture)" version
skopeo copy -q --all "oci-archive:$archive" "oci:$work/all:all"
[ "$index" = "$(skopeo inspect --raw "oci:$work/all:all" | sha256sum | cut -d' ' -f1)" ] || { echo "check.sh: a copy of the index has another digest" >&2; exit 1; }
echo "the release is as it should be"
