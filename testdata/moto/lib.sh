# shellcheck shell=bash disable=SC2034
# Sourced by the commands beside it: where things are.
# STATE_DIR  what is built and written; default build/moto
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
state=${STATE_DIR:-$here/../../build/moto}
mkdir -p "$state"
state=$(cd "$state" && pwd)
root=$state/root

say() { printf '==> moto: %s\n' "$*" >&2; }
fail() { printf 'moto: %s\n' "$*" >&2; exit 1; }
need_root() { [ "$(id -u)" = 0 ] || fail "run this as root: it needs a chroot and namespaces"; }

# A root that was made in another way is made anew.
root_stamp() { cat "$here/packages" "$here/install" | sha256sum | cut -c1-16; }

# The process whose end ends moto, or nothing. The number may belong to another
# process by now, so its command line is looked at too.
moto_pid() {
  local pid
  pid=$(cat "$state/pid" 2>/dev/null) && [ -r "/proc/$pid/cmdline" ] || return 0
  if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q 'moto\.server'; then echo "$pid"; fi
}
