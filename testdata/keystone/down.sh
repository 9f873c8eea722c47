#!/usr/bin/env bash
# Stops the Keystone of up.sh, by its process ID. Its files stay in STATE_DIR.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
state=${STATE_DIR:-$here/../../build/keystone}
[ -f "$state/pid" ] || exit 0
pid=$(cat "$state/pid")
# The number may belong to another process by now.
if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q keystone-wsgi-public; then
  kill "$pid"
  for _ in $(seq 50); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
fi
rm -f "$state/pid"
