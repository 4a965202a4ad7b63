"""Plain values that calls of mooncake.store take and return. Nothing here talks to the pool."""

import copy
import enum

U64_MAX = (1 << 64) - 1


class SoftPinAction(enum.IntEnum):
    """What a put does with the soft pin of its object."""

    PRESERVE = 0
    ENABLE = 1
    DISABLE = 2


class ObjectDataType(enum.IntEnum):
    """What an object holds; the pool treats all alike."""

    UNKNOWN = 0
    KVCACHE = 1
    TENSOR = 2
    WEIGHT = 3
    SAMPLE = 4
    ACTIVATION = 5
    GRADIENT = 6
    OPTIMIZER_STATE = 7
    METADATA = 8
    GENERAL = 9


class ReplicaStatus(enum.IntEnum):
    """State of one copy of an object."""

    UNDEFINED = 0
    INITIALIZED = 1
    PROCESSING = 2
    COMPLETE = 3
    REMOVED = 4
    FAILED = 5


class TaskType(enum.IntEnum):
    """What a background task does."""

    REPLICA_COPY = 0
    REPLICA_MOVE = 1


class TaskStatus(enum.IntEnum):
    """How far a background task has come."""

    PENDING = 0
    PROCESSING = 1
    SUCCESS = 2
    FAILED = 3


class ReplicateConfig:
    """How an object is stored. Every call reads it afresh, so one object may be changed and used
    again."""

    def __init__(self):
        self.replica_num = 1
        self.nof_replica_num = 0
        self.dfs_replica_num = 0
        self.soft_pin_action = SoftPinAction.PRESERVE
        self.soft_pin_ttl_ms = None
        self.with_hard_pin = False
        self.preferred_segments = []
        self.preferred_nof_segments = []
        self.preferred_segment = ""
        self.prefer_alloc_in_same_node = False
        self.data_type = ObjectDataType.UNKNOWN
        self.group_ids = None

    @property
    def soft_pin_ttl_ms(self):
        """Milliseconds, or None for the master's default."""
        return self._soft_pin_ttl_ms

    @soft_pin_ttl_ms.setter
    def soft_pin_ttl_ms(self, value):
        if value is not None:
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError("soft_pin_ttl_ms must be an int or None")
            if not 0 <= value <= U64_MAX:
                raise TypeError(f"soft_pin_ttl_ms: {value}; allowed are 0 to 2^64-1")
        self._soft_pin_ttl_ms = value

    @property
    def group_ids(self):
        """Names of groups, one a key, or None."""
        return self._group_ids

    @group_ids.setter
    def group_ids(self, value):
        if value is not None:
            if isinstance(value, (str, bytes)):
                raise TypeError("group_ids must be a list of str or None")
            value = list(value)
            if not all(isinstance(name, str) for name in value):
                raise TypeError("group_ids must be a list of str or None")
        self._group_ids = value

    def copy(self):
        """The same values, in a config that later changes of this one do not touch."""
        other = copy.copy(self)
        other.preferred_segments = list(self.preferred_segments or [])
        other.preferred_nof_segments = list(self.preferred_nof_segments or [])
        return other

    def __str__(self):
        fields = ("replica_num", "nof_replica_num", "dfs_replica_num", "soft_pin_action",
                  "soft_pin_ttl_ms", "with_hard_pin", "preferred_segments",
                  "preferred_nof_segments", "preferred_segment", "prefer_alloc_in_same_node",
                  "data_type", "group_ids")
        return "ReplicateConfig(" + ", ".join(
            f"{name}={getattr(self, name)!s}" for name in fields) + ")"

    __repr__ = __str__


class Descriptor:
    """Where bytes lie: a range of a segment, and who serves it."""

    def __init__(self, size=0, buffer_address=0, transport_endpoint=""):
        self.size = size
        self.buffer_address = buffer_address
        self.transport_endpoint = transport_endpoint

    def __repr__(self):
        return (f"Descriptor(size={self.size}, buffer_address={self.buffer_address:#x}, "
                f"transport_endpoint={self.transport_endpoint!r})")


class MemoryDescriptor:
    """A copy in memory."""

    def __init__(self, buffer_descriptor):
        self.buffer_descriptor = buffer_descriptor


class DiskDescriptor:
    """A copy in a file."""

    def __init__(self, file_path="", object_size=0):
        self.file_path = file_path
        self.object_size = object_size


class ReplicaDescriptor:
    """One copy of an object. This pool keeps all copies in memory."""

    def __init__(self, status, memory):
        self.status = status
        self._memory = memory

    def is_memory_replica(self):
        """Does it lie in memory?"""
        return True

    def is_disk_replica(self):
        """Does it lie in a shared file?"""
        return False

    def is_local_disk_replica(self):
        """Does it lie in a file of one host?"""
        return False

    def get_memory_descriptor(self):
        """Where it lies."""
        return self._memory

    def get_disk_descriptor(self):
        """No copy of this pool has one."""
        raise RuntimeError("not a disk replica")
