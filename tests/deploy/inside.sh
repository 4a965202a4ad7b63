#!/bin/bash
# Runs as a service of the systemd that test_packages.py starts, in a root of its own, with the
# packages in /tmp/packages. Each step prints what it showed; the first that fails ends it.
set -euo pipefail

fail() {
    echo "failed: $*"
    systemctl status --no-pager -l 'mooncake-*' || true
    journalctl --no-pager -n 40 || true
    exit 1
}

# Asks until the rest of the line succeeds, for at most $1 seconds.
within() {
    local seconds=$1
    local end=$((SECONDS + seconds))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -le $end ] || fail "not within $seconds s: $*"
        read -rt 0.05 <> <(:) || true
    done
}

property() { systemctl show -P "$2" "mooncake-$1"; }
says() { property "$1" StatusText | grep -q "$2"; }
restarts_reach() { [ "$(property "$1" NRestarts)" -ge "$2" ]; }
works() { mooncakectl put --upsert "$1" /etc/os-release && mooncakectl get "$1" /tmp/back &&
    cmp /etc/os-release /tmp/back; }
named_mooncake() {
    find /etc /usr /var -xdev -name '*mooncake*' -not -path '/var/cache/*' | sort
}

named_mooncake >/tmp/before
dpkg -i /tmp/packages/*.deb >/tmp/dpkg.log 2>&1 || fail "dpkg -i: $(cat /tmp/dpkg.log)"
getent passwd mooncake | grep -q nologin || fail "no user mooncake that cannot log in"
[ "$(property master ActiveState)" = inactive ] || fail "the master started unasked"
systemd-analyze verify mooncake-master.service mooncake-store.service \
    mooncake-client.service >/tmp/verify 2>&1 ||
    fail "units: $(cat /tmp/verify)"
[ ! -s /tmp/verify ] || fail "units: $(cat /tmp/verify)"
echo "ok: installed; the units are right"

# A watchdog that bites within the time of a test.
for daemon in master store client; do
    mkdir -p "/run/systemd/system/mooncake-$daemon.service.d"
    printf '[Service]\nWatchdogSec=5\n' >"/run/systemd/system/mooncake-$daemon.service.d/test.conf"
done
systemctl daemon-reload
systemctl start mooncake-master mooncake-store mooncake-client || fail "start"
for daemon in master store client; do
    pid=$(property $daemon MainPID)
    [ "$(stat -c %U "/proc/$pid")" = mooncake ] || fail "$daemon runs as another user"
    grep -q '^CapEff:\s0*$' "/proc/$pid/status" || fail "$daemon has capabilities"
    grep -q '^Seccomp:\s2$' "/proc/$pid/status" || fail "$daemon has no filter of system calls"
done
within 60 says master 'rpc_port=50051'
within 60 works greeting
within 60 says store 'lends memory'
property client ActiveState | grep -q '^active$' || fail "the client is not active"
echo "ok: all serve as user mooncake; a value came back"

python3 - <<'P' || fail "python"
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("localhost", "P2PHANDSHAKE", 0, 1 << 20, "tcp", "", "127.0.0.1:50051") == 0
assert store.put("from-python", b"value") == 0 and store.get("from-python") == b"value"
store.close()
P
cat >/tmp/x.c <<'C'
#include <mooncake/client.h>
#include <stdbool.h>

int main(void)
{
    mooncake_client *client;
    bool exists = false;
    mooncake_err err = mooncake_client_open(0, &client);

    if (err == MOONCAKE_OK) {
        err = mooncake_exist(client, "from-python", 0, &exists);
        mooncake_client_close(client);
    }
    return err == MOONCAKE_OK && exists ? 0 : 1;
}
C
# shellcheck disable=SC2046
cc -Wall -Werror /tmp/x.c -o /tmp/x $(pkg-config --cflags --libs mooncake-client) && /tmp/x || fail "C"
echo "ok: Python and C reach the pool"

systemctl kill -s STOP mooncake-master
within 60 restarts_reach master 1
within 60 works after-the-master
systemctl kill -s KILL mooncake-store
within 60 restarts_reach store 1
within 60 works after-the-store
echo "ok: a stuck master and a killed store are back, and so is the pool"

systemctl stop mooncake-client mooncake-store mooncake-master
for daemon in master store client; do
    [ "$(property $daemon ExecMainStatus)/$(property $daemon Result)" = 0/success ] ||
        fail "$daemon ended with $(property $daemon ExecMainStatus)/$(property $daemon Result)"
done
echo "ok: all ended with status 0"

systemctl start mooncake-master
rm -rf /run/systemd/system/mooncake-*
names=$(for file in /tmp/packages/*.deb; do dpkg-deb -f "$file" Package; done)
# shellcheck disable=SC2086
dpkg -r $names >>/tmp/dpkg.log 2>&1 || fail "dpkg -r: $(cat /tmp/dpkg.log)"
[ "$(property master ActiveState)" = inactive ] || fail "the master outlived its package"
[ -f /etc/mooncake/master.json ] && [ -f /etc/mooncake/store.json ] ||
    fail "the configuration went with the packages"
# shellcheck disable=SC2086
dpkg -P $names >>/tmp/dpkg.log 2>&1 || fail "dpkg -P: $(cat /tmp/dpkg.log)"
named_mooncake >/tmp/after
diff /tmp/before /tmp/after || fail "files stayed behind"
echo "ok: removed, and nothing stayed behind"
