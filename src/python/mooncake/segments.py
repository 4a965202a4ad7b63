"""Lending more memory to the pool than setup() did. Each segment is served by a client of its own."""

import sys
import threading

from mooncake import _store

INVALID_PARAMS = -600
NOT_SUPPORTED = -1012


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

    def unmount_and_free_segment(self, segment_ids, grace_period_seconds=0):
        """Take such memory back; what lay there is lost. 0, or -1 if one is not known."""
        del grace_period_seconds  # reads under way end first in any case
        with self._segments_lock:
            clients = [self._segments.pop(name, None) for name in segment_ids]
        for client in clients:
            if client is not None:
                client.close()
        return -1 if None in clients else 0

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
