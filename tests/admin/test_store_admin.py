#!/usr/bin/env python3
"""The admin pages of a store: off unless asked for, red without a master, figures that follow.

usage: test_store_admin.py SOURCE_ROOT BIN"""

import json
import os
import re
import subprocess
import sys

from web import BIN, fetch, metrics
from pool import Pool
from wait import wait_for



def test_off_unless_asked(pool):
    store = pool.add_store("64MiB")
    assert set(store.ports()) == {"data_port"}, store.ports()
    assert "store.admin" not in store.log_text()
    store.stop()


def test_bad_ports_are_refused(pool):
    for port in ("x", "65536", "-1", "1.5"):
        done = subprocess.run(
            [os.path.join(BIN, "mooncake_store"), "--segment=1MiB", "--master=" + pool.address,
             "--admin_port=" + port], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and "admin_port" in done.stderr, (port, done)
    taken = pool.metrics_address.split(":")[1]
    done = subprocess.run(
        [os.path.join(BIN, "mooncake_store"), "--segment=1MiB", "--master=" + pool.address,
         "--admin_port=" + taken], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and taken in done.stderr, done


def test_without_a_master_it_lives_and_is_not_ready(pool):
    store = pool._start("alone", [os.path.join(BIN, "mooncake_store"), "--master=127.0.0.1:1",
                                  "--segment=64MiB", "--grace=0", "--admin_port=0"])
    wait_for("it says its port", lambda: "store.admin" in store.log_text())
    address = "127.0.0.1:" + re.search(r"store\.admin port=(\d+)", store.log_text())[1]
    assert fetch(address, "/live") == (200, '{"live":true}\n')
    assert fetch(address, "/ready") == (503, '{"ready":false}\n')
    status, text = fetch(address, "/health")
    health = json.loads(text)
    assert status == 503 and health["status"] == "joining" and health["code"] < 0, text
    assert metrics(address)["mooncake_store_joined"] == 0
    wait_for("it counts", lambda: metrics(address)["mooncake_store_ping_failures_total"] > 0)
    store.stop()


def put(pool, key, path):
    subprocess.run([os.path.join(BIN, "mooncakectl"), "--master=" + pool.address, "put", key, path],
                   check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_figures_follow(pool):
    store = pool.add_store("64MiB", "--segment=32MiB", "--admin_port=0", "--shm=off",
                           "--name=here:1")
    address = f"127.0.0.1:{store.ports()['admin_port']}"
    assert fetch(address, "/ready") == (200, '{"ready":true}\n')
    assert json.loads(fetch(address, "/health")[1]) == {"status": "ok", "code": 0}
    with open(os.path.join(pool.scratch.name, "value"), "wb") as file:
        file.write(b"v" * 1000000)
    put(pool, "k", file.name)
    now = metrics(address)
    assert now["mooncake_store_joined"] == 1
    assert now["mooncake_store_lent_bytes"] == 96 << 20
    assert now['mooncake_store_segment_bytes{segment="here:1"}'] == 64 << 20
    assert now['mooncake_store_segment_mounted{segment="here:1/1"}'] == 1
    assert now["mooncake_store_writes_total"] >= 1
    written = now["mooncake_store_written_bytes_total"]
    assert 1000000 < written < 1001000, written
    assert now["mooncake_store_process_resident_bytes"] > 1 << 20
    assert 'mooncake_store_transport_connections{kind="tcp"}' in now
    for kind in ("shm", "rdma"):  # nobody can have come by these
        assert now[f'mooncake_store_transport_connections{{kind="{kind}"}}'] == 0, kind
    assert now["mooncake_store_reattach_duration_seconds_count"] == 0
    summary = fetch(address, "/metrics/summary")[1]
    assert summary.startswith("Store here:1: ok | Lent: 96.0MiB in 2 segments"), summary
    listed = fetch(address, "/")[1]
    for path in ("/live", "/ready", "/health", "/metrics", "/metrics/summary"):
        assert f"GET    {path} " in listed, listed
    assert fetch(address, "/query_key?key=k")[0] == 404
    assert fetch(address, "/health", "POST")[0] == 405
    return store, address


def test_a_new_master_is_joined_and_timed(pool, address):
    """The master dies and another one takes its port: away, then back, with the time measured."""
    pool.master.stop()
    wait_for("the store is not ready", lambda: fetch(address, "/ready")[0] == 503)
    pool.start_master()
    pool.master.ports()
    wait_for("the store is ready again", lambda: fetch(address, "/ready")[0] == 200)
    now = metrics(address)
    assert now["mooncake_store_reattach_duration_seconds_count"] == 1, now
    assert now["mooncake_store_forgotten_segments_total"] == 2, now


def main():
    with Pool(BIN, lasting=True) as pool:
        test_off_unless_asked(pool)
        test_bad_ports_are_refused(pool)
        test_without_a_master_it_lives_and_is_not_ready(pool)
        store, address = test_figures_follow(pool)
        test_a_new_master_is_joined_and_timed(pool, address)
        assert store.stop() == 0, store.log_text()
    print("store_admin: all well")


if __name__ == "__main__":
    sys.exit(main())
