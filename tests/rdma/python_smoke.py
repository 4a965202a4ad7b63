"""protocol="rdma" in Python moves values by RDMA, where there are devices. Runs in the guest."""

import os
import sys
import time

from pool import Pool

from mooncake.store import MooncakeDistributedStore

LEN = 4 << 20
PACKETS = LEN // 4096  # at the largest MTU
CLIENT, STORE = "rxea0", "rxeb0"


def packets():
    """What the client's device has sent and received. The kernel shows its counters of up to 10 ms
    ago to whoever asks again so soon; nothing tells when they are fresh."""
    total = 0
    time.sleep(0.03)
    for name in ("sent_pkts", "rcvd_pkts"):
        path = f"/sys/class/infiniband/{CLIENT}/ports/1/hw_counters/{name}"
        with open(path, encoding="ascii") as file:
            total += int(file.read())
    return total


def moved(work, expected):
    """Packets that @work takes; it must return what is expected."""
    begin = packets()
    result = work()
    assert result == expected, result if isinstance(result, int) else "wrong bytes"
    return packets() - begin


def main():
    value = os.urandom(LEN)
    with Pool(os.environ["MOONCAKE_PROGRAMS"]) as pool:
        pool.add_store("64MiB", "--shm=off", "--rdma=on", "--rdma_devices=" + STORE).ports()
        for protocol, devices, forbid in (("rdma", CLIENT, "1"), ("rdma", CLIENT, ""),
                                          ("tcp", CLIENT, ""), ("rdma", "mlx5_9", "")):
            os.environ["MOONCAKE_FORBID_FALLBACK"] = forbid
            store = MooncakeDistributedStore()
            assert store.setup("localhost", "", 0, 0, protocol, devices, pool.address) == 0
            put = moved(lambda: store.upsert("k", value), 0)
            get = moved(lambda: store.get("k"), value)
            view = moved(lambda: bytes(store.get_buffer("k")), value)
            print(f"{protocol} {devices}: packets of put {put}, get {get}, get_buffer {view}")
            if (protocol, devices) == ("rdma", CLIENT):
                assert min(put, get, view) >= PACKETS
            else:
                assert max(put, get, view) == 0
            store.close()
        os.environ["MOONCAKE_FORBID_FALLBACK"] = "1"
        store = MooncakeDistributedStore()
        assert store.setup("localhost", "", 0, 0, "rdma", "mlx5_9", pool.address) == -1012


if __name__ == "__main__":
    sys.exit(main())
