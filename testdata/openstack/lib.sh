# shellcheck shell=bash disable=SC2034
# Sourced by the commands beside it: where things are, and how to get inside.
# STATE_DIR  what is built and written; default build/openstack
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
state=${STATE_DIR:-$here/../../build/openstack}
mkdir -p "$state"
state=$(cd "$state" && pwd)
root=$state/root

started=$SECONDS
say() { printf '==> %4ds  %s\n' "$((SECONDS - started))" "$*" >&2; }
fail() { printf 'openstack: %s\n' "$*" >&2; exit 1; }

need_root() { [ "$(id -u)" = 0 ] || fail "run this as root: it needs mounts, a chroot and namespaces"; }

# The hash of the package list: a root that was made from another one is made anew.
root_stamp() { { cat "$here/packages"; sed -n '/^build_root()/,/^}/p' "$here/install"; } | sha256sum | cut -c1-16; }

# The hash of all that decides what a new cloud looks like.
cloud_stamp() { { root_stamp; find "$here/inside" -type f -not -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum | cut -c1-64; } | sha256sum | cut -c1-16; }

# The process whose end ends the cloud, or nothing. The number may belong to
# another process by now, so its command line is looked at too.
cloud_pid() {
  local pid
  pid=$(cat "$state/pid" 2>/dev/null) && [ -r "/proc/$pid/cmdline" ] || return 0
  if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q 'openstack-inside'; then echo "$pid"; fi
}

# Runs a command inside the running cloud, with a small environment of its own.
inside() {
  local pid
  pid=$(cloud_pid)
  [ -n "$pid" ] || fail "no cloud is running; start it with $here/up"
  nsenter --target "$pid" --mount --pid --root --wd -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"
}
