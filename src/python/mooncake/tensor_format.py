"""How a tensor looks as an object of the pool: a header of 304 bytes and the elements.

header: magic, version, size, element type, dimensions, kind of layout, flags, where the elements
begin and how many bytes they are; then the shape of the whole and of this part, and up to four axes
along which the whole was cut. Neither torch nor numpy is imported before a tensor has to be made.
"""

import ctypes
import math
import struct
import sys

MAGIC = 0x4D4F4F4E
VERSION = 1
HEADER_BYTES = 304
DIMS_MAX = 8
AXES_MAX = 4
FULL, SHARD = 0, 1
AXIS_KINDS = {"dp": 0, "tp": 1, "ep": 2, "pp": 3}

_HEAD = struct.Struct("<IHHiiIIQQ")
_SHAPES = struct.Struct("<8q8qII")
_AXIS = struct.Struct("<6iq")

# Place in the list is the number in the header: name in torch, name in numpy, bytes an element.
DTYPES = (("float32", "float32", 4), ("float64", "float64", 8), ("int8", "int8", 1),
          ("uint8", "uint8", 1), ("int16", "int16", 2), ("uint16", "uint16", 2),
          ("int32", "int32", 4), ("uint32", "uint32", 4), ("int64", "int64", 8),
          ("uint64", "uint64", 8), ("bool", "bool", 1), ("float16", "float16", 2),
          ("bfloat16", None, 2), ("float8_e4m3fn", None, 1), ("float8_e5m2", None, 1))
_BY_TORCH = {"torch." + names[0]: i for i, names in enumerate(DTYPES)}
_BY_NUMPY = {names[1]: i for i, names in enumerate(DTYPES) if names[1]}


class Axis:
    """A cut: part @rank of @count along dimension @split_dim."""

    def __init__(self, kind, rank, count, split_dim):
        self.kind, self.rank, self.count, self.split_dim = kind, rank, count, split_dim


class Layout:
    """What a header says."""

    def __init__(self, dtype, shape, global_shape=None, axes=()):
        self.dtype = dtype
        self.shape = tuple(shape)
        self.global_shape = self.shape if global_shape is None else tuple(global_shape)
        self.axes = tuple(axes)
        self.data_offset = HEADER_BYTES

    @property
    def item_bytes(self):
        """Bytes of one element."""
        return DTYPES[self.dtype][2]

    @property
    def data_bytes(self):
        """Bytes of the elements."""
        return math.prod(self.shape) * self.item_bytes

    def axis(self, kind):
        """The axis of a kind ("tp"), or None."""
        return next((axis for axis in self.axes if axis.kind == AXIS_KINDS[kind]), None)

    def pack(self):
        """The 304 bytes."""
        pad = [-1] * (DIMS_MAX - len(self.shape))
        axes = b"".join(_AXIS.pack(axis.kind, i, axis.rank, axis.count, axis.split_dim, 0, 0)
                        for i, axis in enumerate(self.axes))
        return (_HEAD.pack(MAGIC, VERSION, HEADER_BYTES, self.dtype, len(self.shape),
                           SHARD if self.axes else FULL, 0, HEADER_BYTES, self.data_bytes) +
                _SHAPES.pack(*self.global_shape, *pad, *self.shape, *pad, len(self.axes), 0) +
                axes.ljust(AXES_MAX * _AXIS.size, b"\0"))


def parse(view):
    """The Layout of an object's bytes, or None: too short, no tensor, or not true in itself."""
    if len(view) < HEADER_BYTES:
        return None
    head = bytes(view[:HEADER_BYTES])
    magic, version, size, dtype, ndim, kind, _, data_offset, data_bytes = _HEAD.unpack_from(head)
    if (magic, version, size) != (MAGIC, VERSION, HEADER_BYTES) or not 0 <= ndim <= DIMS_MAX or \
            not 0 <= dtype < len(DTYPES) or kind not in (FULL, SHARD):
        return None
    numbers = _SHAPES.unpack_from(head, _HEAD.size)
    whole, part, axes_count = numbers[:ndim], numbers[DIMS_MAX:DIMS_MAX + ndim], numbers[16]
    if axes_count > AXES_MAX or min(whole + part, default=0) < 0:
        return None
    axes = []
    for i in range(axes_count):
        axis_kind, _, rank, count, split_dim, _, _ = _AXIS.unpack_from(
            head, _HEAD.size + _SHAPES.size + i * _AXIS.size)
        axes.append(Axis(axis_kind, rank, count, split_dim))
    layout = Layout(dtype, part, whole, axes)
    layout.data_offset = data_offset
    if data_bytes != layout.data_bytes or data_offset < HEADER_BYTES or \
            data_offset + data_bytes > len(view):
        return None
    return layout


# ---- tensors and arrays to memory --------------------------------------------------------------


class Source:
    """A tensor's elements in memory, and what a header says about them. Keeps both alive."""

    def __init__(self, owner, pointer, layout):
        self.owner, self.pointer, self.layout = owner, pointer, layout

    def cut(self, split_dim, start, extent):
        """The part [start, start + extent) along a dimension, as a Source of its own."""
        index = (slice(None),) * split_dim + (slice(start, start + extent),)
        return source_of(self.owner[index])

    def pieces(self, layout=None):
        """Addresses and sizes of header and elements, and what must live as long."""
        header = ctypes.create_string_buffer((layout or self.layout).pack(), HEADER_BYTES)
        pieces = [(ctypes.addressof(header), HEADER_BYTES)]
        if self.layout.data_bytes > 0:
            pieces.append((self.pointer, self.layout.data_bytes))
        return pieces, (header, self)


def source_of(tensor):
    """A Source of a torch tensor (of any device) or a numpy array; None if it is neither, or has
    elements or dimensions that no header can name."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(tensor, getattr(torch, "Tensor", ())):
        dtype = _BY_TORCH.get(str(tensor.dtype))
        if dtype is None or tensor.dim() > DIMS_MAX or tensor.is_sparse:
            return None
        tensor = tensor.detach().cpu().contiguous()
        return Source(tensor, tensor.data_ptr(), Layout(dtype, tensor.shape))
    if numpy is not None and isinstance(tensor, numpy.ndarray):
        dtype = _BY_NUMPY.get(tensor.dtype.name)
        if dtype is None or tensor.ndim > DIMS_MAX or not tensor.dtype.isnative:
            return None
        tensor = numpy.asarray(tensor, order="C")
        return Source(tensor, tensor.__array_interface__["data"][0], Layout(dtype, tensor.shape))
    return None


def source_of_memory(pointer, size):
    """A Source of a tensor object that lies in memory; None if there is none."""
    memory = memory_at(pointer, size)
    layout = None if memory is None else parse(memory)
    return None if layout is None else Source(memory, pointer + layout.data_offset, layout)


def memory_at(pointer, size):
    """Bytes at an address, as an object with the buffer protocol; None for no address."""
    if pointer <= 0 or size <= 0:
        return None
    return (ctypes.c_char * size).from_address(pointer)


# ---- memory to tensors -------------------------------------------------------------------------


def tensor_over(memory, layout):
    """A torch tensor that looks into @memory and keeps it alive. None if this torch has no such
    elements. ImportError without torch."""
    import torch  # pylint: disable=import-outside-toplevel
    dtype = getattr(torch, DTYPES[layout.dtype][0], None)
    if dtype is None:
        return None
    count = math.prod(layout.shape)
    if count == 0:
        return torch.empty(layout.shape, dtype=dtype)
    flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=layout.data_offset)
    return flat.reshape(layout.shape)


def tensor_of_object(memory):
    """The tensor of an object's bytes (None: a miss), or None."""
    if memory is None:
        return None
    layout = parse(memoryview(memory).cast("B"))
    return None if layout is None else tensor_over(memory, layout)
