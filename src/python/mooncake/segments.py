"""Lending more memory to the pool than setup() did. Each segment is served by a client of its own."""

import sys
import threading

from mooncake import _store

INVALID_PARAMS = -600
NOT_SUPPORTED = -1012
GRACE_MS_MAX = 7 * 24 * 3600 * 1000


class Segments:
    """For a class that remembers how it was set up in _setup_args."""

    def _init_segments(self):
        self._segments_lock = threading.Lock()
        self._segments = {}  # id: the client that serves it
        self._setup_args = None

    def _drop_segments(self):
        with self._segments_lock:
            segments, self._segments = list(self._segments.values()), {}
        for client in segments:
            client.close()

    def allocate_and_mount_segment(self, size, protocol="tcp", location=""):
        """Lend @size bytes: {"ret": code, "segment_ids": [...], "allocated_size": bytes}."""
        del location
        args = self._setup_args
        failed = {"ret": INVALID_PARAMS, "segment_ids": [], "allocated_size": 0}
        if not self.get_hostname() or args is None or size <= 0:
            return failed
        client = _store.Store()
        host = args[0].rpartition(":")[0] if args[0].rpartition(":")[2].isdigit() else args[0]
        code = client.setup(host, args[1], size, 0, protocol, args[5], args[6])
        if code != 0:
            return dict(failed, ret=code)
        name = client.get_hostname()
        with self._segments_lock:
            self._segments[name] = client
        return {"ret": 0, "segment_ids": [name], "allocated_size": size}

    def _take_back(self, name, client, grace_ms):
        """0, or -1 if somebody else is at it."""
        if grace_ms > 0 and client._leave(grace_ms) == INVALID_PARAMS:
            return -1
        client.close()
        with self._segments_lock:
            known = self._segments.pop(name, None) is not None
        return 0 if known else -1

    def unmount_and_free_segment(self, segment_ids, grace_period_seconds=0):
        """Take such memory back: nothing new is placed there from now on, reads are served for the
        grace period, then what lies there is lost, and this returns 0; -1 if a segment is not known.
        Ctrl-C ends the waiting, and close() the grace."""
        grace_ms = int(grace_period_seconds * 1000)
        if not 0 <= grace_ms <= GRACE_MS_MAX:
            return -1
        segment_ids = list(dict.fromkeys(segment_ids))
        with self._segments_lock:
            found = {name: self._segments[name] for name in segment_ids if name in self._segments}
        codes = []
        threads = [threading.Thread(target=lambda *args: codes.append(self._take_back(*args)),
                                    args=(name, client, grace_ms), daemon=True)
                   for name, client in found.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return 0 if codes == [0] * len(segment_ids) else -1

    def unmount_segment(self, segment_ids, grace_period_seconds=0):
        """As unmount_and_free_segment()."""
        return self.unmount_and_free_segment(segment_ids, grace_period_seconds)

    def mount_segment(self, path, size, offset=0, protocol="tcp", location=""):
        """Memory of a file cannot be lent: {"ret": -1012, "segment_ids": []}."""
        del size, offset, protocol, location
        print(f"mooncake: mount_segment: {path}: only fresh memory can be lent; use "
              "allocate_and_mount_segment()", file=sys.stderr)
        return {"ret": NOT_SUPPORTED, "segment_ids": []}

    def unmount_local_disk_segment(self, grace_period_seconds=0):
        """There is none: 0."""
        del grace_period_seconds
        return 0

    def get_offload_rpc_read_count(self):
        """Reads from disks: none."""
        return 0
