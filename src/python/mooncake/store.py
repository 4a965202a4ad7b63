"""mooncake.store: a client of a Mooncake pool, as SGLang, vLLM and LMCache call it.

Trouble with the pool comes back as negative codes; wrong types raise TypeError.
"""

import atexit
import ctypes
import mmap
import os
import signal
import sys
import threading
import weakref

from mooncake import _store
from mooncake._store import BufferHandle
from mooncake.ranges import RangeReads
from mooncake.segments import Segments
from mooncake.sessions import Sessions
from mooncake.sizes import parse_size
from mooncake.tensor_format import HEADER_BYTES, source_of, tensor_of_object
from mooncake.tensor_shards import (ParallelAxis, ReadTarget, TensorParallelism, TensorShards,
                                    WriterPartition)
from mooncake.tensors import Tensors
from mooncake.values import (Descriptor, DiskDescriptor, MemoryDescriptor, ObjectDataType,
                             ReplicaDescriptor, ReplicaStatus, ReplicateConfig, SoftPinAction,
                             TaskStatus, TaskType)

__all__ = [
    "BufferHandle", "Descriptor", "DiskDescriptor", "MemoryDescriptor", "MooncakeDistributedStore",
    "MooncakeHostMemAllocator", "ObjectDataType", "ParallelAxis", "ReadTarget", "ReplicaDescriptor",
    "ReplicaStatus", "ReplicateConfig", "SoftPinAction", "TaskStatus", "TaskType",
    "TensorParallelism", "WriterPartition", "bind_to_numa_node",
]

INVALID_PARAMS = -600
DEFAULT_SEGMENT_SIZE = 16 << 20

_NEEDED = ("local_hostname", "metadata_server", "global_segment_size", "local_buffer_size",
           "protocol", "rdma_devices", "master_server_addr")


def _say(text):
    print("mooncake: " + text, file=sys.stderr)


# ---- leaving the pool when the process ends ---------------------------------------------------

_stores = weakref.WeakSet()
_stores_lock = threading.RLock()  # a signal handler may come while it is held
_sigterm_taken = False


def _close_all():
    with _stores_lock:
        stores = list(_stores)
    for store in stores:
        store.close()


def _on_sigterm(signum, _frame):
    """Nobody else handles it: leave the pool, then end as if there were no handler."""
    signal.signal(signum, signal.SIG_DFL)
    _close_all()
    os.kill(os.getpid(), signum)


def _watch(store):
    """Close @store at exit; at SIGTERM too, if the program has no handler of its own."""
    global _sigterm_taken
    with _stores_lock:
        _stores.add(store)
        if _sigterm_taken or threading.current_thread() is not threading.main_thread():
            return
        _sigterm_taken = True
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)
        _store._watch_term()


def _in_child():
    """The parent's stores are the parent's, and its lock may be held by a thread that is not here."""
    global _stores, _stores_lock
    _stores, _stores_lock = weakref.WeakSet(), threading.RLock()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_in_child)
os.register_at_fork(before=_store._fork_before, after_in_parent=_store._fork_in_parent,
                    after_in_child=_store._fork_in_child)  # values that are looked at in place


# ---- the store -------------------------------------------------------------------------------

class MooncakeDistributedStore(TensorShards, Tensors, Sessions, Segments, RangeReads,
                               _store.Store):
    """A client of a pool. Usable from many threads at once; not after a fork."""

    def __new__(cls, *_args, **_kwargs):
        self = super().__new__(cls)  # not in __init__, which a subclass may forget to call
        self._init_sessions()
        self._init_segments()
        self._forget_buffers()
        return self

    def setup(self, local_hostname=None, metadata_server=None, global_segment_size=None,
              local_buffer_size=None, protocol=None, rdma_devices=None, master_server_addr=None,
              engine=None, enable_ssd_offload=False, ssd_offload_path="", tenant_id="default",
              enable_client_http_server=False, client_http_port=9300, *, config=None):
        """Join a pool: 0 when a put would work, else a negative code. The first seven arguments are
        needed, or one dict that holds them; sizes in a dict may be texts such as "16MB"."""
        if isinstance(local_hostname, dict) and config is None:
            config, local_hostname = local_hostname, None
        given = (local_hostname, metadata_server, global_segment_size, local_buffer_size, protocol,
                 rdma_devices, master_server_addr)
        if config is not None:
            if any(value is not None for value in given):
                raise TypeError("setup() takes one dict or the single arguments, not both")
            return self._setup_from(config)
        for name, value in zip(_NEEDED, given):
            if value is None:
                raise TypeError(f"setup() missing required argument: '{name}'")
        return self._setup(*given, engine, enable_ssd_offload, ssd_offload_path, tenant_id,
                           enable_client_http_server, client_http_port)

    def _setup(self, *args):
        code = super().setup(*args)
        if code == 0:
            self._forget_buffers()
            self._forget_sessions(args[3])
            self._setup_args = args
            _watch(self)
        return code

    def _setup_from(self, config):
        """From a dict, where every value may be a text."""
        if not isinstance(config, dict):
            raise TypeError("setup(): config must be a dict")
        for name in ("local_hostname", "metadata_server"):
            if not config.get(name):
                _say(f"setup: {name} is missing in the dict")
                return INVALID_PARAMS
        try:
            sizes = [parse_size(config.get(name, DEFAULT_SEGMENT_SIZE))
                     for name in ("global_segment_size", "local_buffer_size")]
        except ValueError as error:
            _say(f"setup: {error}")
            return INVALID_PARAMS
        return self._setup(
            str(config["local_hostname"]), str(config["metadata_server"]), *sizes,
            str(config.get("protocol", "tcp")), str(config.get("rdma_devices", "")),
            str(config.get("master_server_addr", "127.0.0.1:50051")))

    def setup_dummy(self, mem_pool_size, local_buffer_size, server_address):
        """Join the pool of the mooncake_client (or mooncake_store --serve_clients) of this host that
        serves at host:port, and share @mem_pool_size bytes of memory with it. 0 or -1."""
        if super().setup_dummy(mem_pool_size, local_buffer_size, server_address) != 0:
            return -1
        self._forget_buffers()
        self._forget_sessions(local_buffer_size)
        self._setup_args = None  # it lends nothing
        _watch(self)
        return 0

    def alloc_from_mem_pool(self, size):
        """Address of @size bytes of that memory, registered, until close(); 0 when it is used up."""
        pointer = super().alloc_from_mem_pool(size)
        if pointer != 0:
            self._registered.setdefault(pointer, []).append(int(size))
        return pointer

    def init_all(self, protocol, device_name, mount_segment_size=DEFAULT_SEGMENT_SIZE):
        """setup() with the usual values of a single machine."""
        return self.setup("localhost:12345", "127.0.0.1:2379", mount_segment_size, 1 << 30,
                          protocol, device_name, "127.0.0.1:50051")

    def close(self):
        """Leave the pool; 0, also when there is nothing to leave."""
        self._forget_buffers()
        self._forget_sessions()
        self._drop_segments()
        return super().close()

    def put_from_with_metadata(self, key, buffer_ptr, metadata_buffer_ptr, size, metadata_size,
                               config=None):
        """Store metadata and data as one value, in this order. 0 or a negative code."""
        return self.batch_put_from_multi_buffers(
            [key], [[metadata_buffer_ptr, buffer_ptr]], [[metadata_size, size]], config)[0]

    # ---- copies of objects

    def get_replica_desc(self, key):
        """Descriptions of a key's copies; [] for a miss."""
        return [self._describe(*copy) for copy in super()._replicas(key)]

    def batch_get_replica_desc(self, keys):
        """As get_replica_desc, for the keys that exist: a dict."""
        found = {key: self.get_replica_desc(key) for key in keys}
        return {key: copies for key, copies in found.items() if copies}

    @staticmethod
    def _describe(readable, size, offset, segment):
        status = ReplicaStatus.COMPLETE if readable else ReplicaStatus.PROCESSING
        return ReplicaDescriptor(status, MemoryDescriptor(Descriptor(size, offset, segment)))

    def batch_replica_clear(self, keys, segment_name=""):
        """Remove keys nobody reads; those that are gone now. A single segment cannot be cleared."""
        keys = list(keys)
        if segment_name:
            _say("batch_replica_clear: clearing one segment's copies is not supported")
            return []
        return [key for key, code in zip(keys, self.batch_remove(keys)) if code == 0]


class MooncakeHostMemAllocator:
    """Host memory, page aligned and mapped as it is touched."""

    def __init__(self):
        self._maps = {}

    def alloc(self, size):
        """Address of fresh memory."""
        area = mmap.mmap(-1, size)
        pointer = ctypes.addressof(ctypes.c_char.from_buffer(area))
        self._maps[pointer] = area
        return pointer

    def free(self, ptr):
        """Give memory back; whoever still looks into it through this object keeps it mapped."""
        if self._maps.pop(ptr, None) is None:
            raise ValueError(f"free: {ptr:#x} was not allocated here")


def bind_to_numa_node(node):
    """Run the calling thread on the processors of one NUMA node, if there is such a node."""
    try:
        with open(f"/sys/devices/system/node/node{int(node)}/cpulist", encoding="ascii") as file:
            parts = file.read().strip().split(",")
    except OSError:
        return
    processors = set()
    for part in parts:
        if part:
            first, _, last = part.partition("-")
            processors.update(range(int(first), int(last or first) + 1))
    allowed = processors & os.sched_getaffinity(0)
    if allowed:
        os.sched_setaffinity(0, allowed)


def _tensor_metadata_size():
    """Bytes that stand before a tensor's elements."""
    return HEADER_BYTES


def _serialize_tensor(tensor):
    """The object that put_tensor() stores, as bytes."""
    source = source_of(tensor)
    if source is None:
        raise TypeError("a torch tensor or a numpy array of at most 8 dimensions is expected")
    pieces, alive = source.pieces()
    data = b"".join(ctypes.string_at(*piece) for piece in pieces)
    del alive
    return data


def _deserialize_tensor(data):
    """The tensor of such bytes, or None."""
    return tensor_of_object(bytearray(data))
