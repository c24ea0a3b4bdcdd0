#!/usr/bin/env bash
# Runs a command with a PostgreSQL of its own, from Debian's packages:
#
#     scripts/with_postgres.sh cargo test -p server history
#
# The server lives in a temporary folder, answers at a socket there and nowhere else, and ends with the command, which
# finds its URL in FEDTSE_TEST_POSTGRES. Installs the package if there is none; the server never runs as root.
set -euo pipefail

find_bin() {
    local found
    found=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
    [ -n "$found" ] && [ -x "$found/initdb" ] && echo "$found"
}

bin=$(find_bin || true)
if [ -z "$bin" ]; then
    echo "with_postgres.sh: installing postgresql" >&2
    apt-get update -qq >&2
    # The package would make and start a server of its own; ours is another.
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >&2
    bin=$(find_bin)
fi

# A socket's path may not be longer than 107 bytes.
folder=$(mktemp -d /tmp/fedtse-postgres.XXXXXX)
as=()
if [ "$(id -u)" = 0 ]; then
    chown postgres "$folder"
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups env -C "$folder")
fi

finish() {
    "${as[@]}" "$bin/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap finish EXIT

"${as[@]}" "$bin/initdb" -D "$folder/data" -U fedtse --auth=trust --encoding=UTF8 --locale=C >/dev/null
"${as[@]}" "$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -w \
    -o "-k $folder -c listen_addresses='' -c shared_buffers=16MB -c max_connections=20" start >/dev/null ||
    { cat "$folder/log" >&2; exit 1; }

FEDTSE_TEST_POSTGRES="postgres://fedtse@${folder//\//%2F}/postgres" "$@"
