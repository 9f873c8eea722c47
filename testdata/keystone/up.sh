#!/usr/bin/env bash
# Starts a real Keystone on loopback, for the test of guests/signer-keystone:
#
#   testdata/keystone/up.sh
#   KEYSTONE_URL=http://127.0.0.1:35357 go test -run Keystone ./signer-keystone   # in guests/
#   testdata/keystone/down.sh
#
# PORT       default 35357
# STATE_DIR  default build/keystone; its database is made anew
#
# It needs Debian's packages keystone, uwsgi-core and uwsgi-plugin-python3, and
# installs them where it may. The administrator's password is "admin": nothing
# but this machine reaches it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
port=${PORT:-35357}
state=${STATE_DIR:-$here/../../build/keystone}
packages=(keystone uwsgi-core uwsgi-plugin-python3 curl)
url=http://127.0.0.1:$port

"$here/down.sh"
if ! dpkg-query -W -f='${db:Status-Status}\n' "${packages[@]}" 2>/dev/null | grep -c '^installed$' | grep -qx ${#packages[@]}; then
  sudo=(); [ "$(id -u)" = 0 ] || sudo=(sudo -n)
  echo "==> installing ${packages[*]}" >&2
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}" >/dev/null
fi

rm -rf "$state"
mkdir -p "$state"/{etc,fernet,credential}
chmod 700 "$state"
state=$(cd "$state" && pwd)
cat >"$state/etc/keystone.conf" <<C
[DEFAULT]
log_file = $state/keystone.log
[database]
connection = sqlite:///$state/keystone.db
sqlite_synchronous = false
[fernet_tokens]
key_repository = $state/fernet
[credential]
key_repository = $state/credential
C

export LC_ALL=C.UTF-8 OS_KEYSTONE_CONFIG_DIR=$state/etc
manage=(keystone-manage --config-file "$state/etc/keystone.conf")
owner=(--keystone-user "$(id -un)" --keystone-group "$(id -gn)")
if ! { "${manage[@]}" db_sync && "${manage[@]}" fernet_setup "${owner[@]}" && "${manage[@]}" credential_setup "${owner[@]}" &&
  "${manage[@]}" bootstrap --bootstrap-password admin --bootstrap-public-url "$url/v3" --bootstrap-region-id RegionOne; } >"$state/setup.log" 2>&1; then
  tail -n 20 "$state/setup.log" >&2
  exit 1
fi

# Keystone reads and writes in one request on two connections: with SQLite's
# usual journal they lock each other out. One thread, as they stay where they
# were made.
/usr/bin/python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("PRAGMA journal_mode=WAL")' "$state/keystone.db"

# Without "Connection: close" clients that keep connections get resets.
setsid nohup uwsgi --plugins python3 --http-socket "127.0.0.1:$port" --wsgi-file "$(command -v keystone-wsgi-public)" \
  --processes 1 --enable-threads --lazy-apps --die-on-term --need-app --buffer-size 65535 \
  --add-header 'Connection: close' </dev/null >"$state/uwsgi.log" 2>&1 &
echo $! >"$state/pid"

for _ in $(seq 100); do
  if curl -sf -o /dev/null "$url/v3"; then
    echo "==> Keystone is at $url" >&2
    exit 0
  fi
  kill -0 "$(cat "$state/pid")" 2>/dev/null || break
  sleep 0.2
done
tail -n 20 "$state/uwsgi.log" >&2
"$here/down.sh"
exit 1
