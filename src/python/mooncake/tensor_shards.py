"""Tensors in parts: one object a rank of tensor parallelism, or of any set of axes.

A dimension is cut into pieces of ceil(length / ranks); the last ones may be shorter or empty.
"""

import struct

from mooncake import tensor_format as fmt
from mooncake.tensors import INVALID_PARAMS, config_is_wrong

_MANIFEST = struct.Struct("<IHHiiii8q")  # magic, version, size, dtype, ndim, split_dim, parts, shape
_MANIFEST_MAGIC, _MANIFEST_VERSION = 0x574D414E, 1
PARTS_MAX = 65536


class ParallelAxis:
    """A part's place along one axis: @kind is "tp", "dp", "ep" or "pp"."""

    def __init__(self, kind="tp", rank=0, size=1, split_dim=None, expert_id=None, stage_id=None):
        self.kind, self.rank, self.size = kind, rank, size
        self.split_dim, self.expert_id, self.stage_id = split_dim, expert_id, stage_id


class TensorParallelism:
    """A part's place along all axes."""

    def __init__(self, axes=None):
        self.axes = list(axes or [])


class ReadTarget:
    """What to read: "as_stored", one "shard", or the "full" tensor."""

    def __init__(self, mode="as_stored", parallelism=None):
        self.mode, self.parallelism = mode, parallelism


class WriterPartition:
    """The part of a full tensor that one of @size writers stores."""

    def __init__(self, rank=0, size=1, split_dim=0):
        self.rank, self.size, self.split_dim = rank, size, split_dim


def part_of(length, rank, count):
    """(start, extent) of a rank's piece of a dimension."""
    piece = -(-length // count)
    start = min(rank * piece, length)
    return start, min(piece, length - start)


def _is_place(rank, count):
    return isinstance(rank, int) and isinstance(count, int) and 0 <= rank < count <= PARTS_MAX


def _axes_of(parallelism):
    """The axes in the order dp, tp, ep, pp, or None if they make no sense."""
    axes = list(getattr(parallelism, "axes", None) or [])
    kinds = [getattr(axis, "kind", None) for axis in axes]
    if not axes or len(set(kinds)) != len(kinds) or not set(kinds) <= set(fmt.AXIS_KINDS) or \
            not all(_is_place(axis.rank, axis.size) for axis in axes):
        return None
    return sorted(axes, key=lambda axis: fmt.AXIS_KINDS[axis.kind])


def _place_key(key, axes):
    """Name of a part's object."""
    if [axis.kind for axis in axes] == ["tp"]:
        return f"{key}_tp_{axes[0].rank}"
    for axis in axes:
        key += f"__{axis.kind}_{axis.rank}of{axis.size}"
        for mark, value in (("sd", axis.split_dim), ("eid", axis.expert_id),
                            ("sid", axis.stage_id)):
            key += "" if value is None else f"_{mark}{value}"
    return key


def _writer_key(key, rank, size, split_dim):
    return f"{key}__writer_{rank}of{size}_sd{split_dim}"


def _pack_manifest(dtype, shape, split_dim, parts):
    pad = [-1] * (fmt.DIMS_MAX - len(shape))
    return _MANIFEST.pack(_MANIFEST_MAGIC, _MANIFEST_VERSION, _MANIFEST.size, dtype, len(shape),
                          split_dim, parts, *shape, *pad)


def _parse_manifest(value):
    """(split_dim, parts), or None."""
    if len(value) != _MANIFEST.size:
        return None
    magic, version, _, _, ndim, split_dim, parts, *_ = _MANIFEST.unpack(value)
    if (magic, version) != (_MANIFEST_MAGIC, _MANIFEST_VERSION) or not 0 <= split_dim < ndim or \
            not 0 < parts <= PARTS_MAX:
        return None
    return split_dim, parts


class TensorShards:
    """For a class that has Tensors."""

    # ---- tensor parallelism: all parts of a full tensor at once

    def _put_parts_of(self, key, source, tp_size, split_dim, config=None, upsert=False):
        """Store each rank's part; 0 or the first code that is none."""
        if source is None or not _is_place(0, tp_size) or \
                not 0 <= split_dim < len(source.layout.shape):
            return INVALID_PARAMS
        whole, parts, layouts = source.layout.shape, [], []
        for rank in range(tp_size):
            start, extent = part_of(whole[split_dim], rank, tp_size)
            part = source.cut(split_dim, start, extent)
            parts.append(part)
            layouts.append(fmt.Layout(part.layout.dtype, part.layout.shape, whole, [
                fmt.Axis(fmt.AXIS_KINDS["tp"], rank, tp_size, split_dim)]))
        codes = self._put_sources([f"{key}_tp_{rank}" for rank in range(tp_size)], parts, config,
                                  upsert, layouts)
        return next((code for code in codes if code != 0), 0)

    def pub_tensor_with_tp(self, key, tensor, config=None, tp_rank=0, tp_size=1, split_dim=0):
        """As put_tensor_with_tp, placed as @config says."""
        if config_is_wrong(config) or not _is_place(tp_rank, tp_size):
            return INVALID_PARAMS
        if tp_size == 1:
            return self._put_tensors([key], [tensor], config)[0]
        return self._put_parts_of(key, fmt.source_of(tensor), tp_size, split_dim, config)

    def put_tensor_with_tp(self, key, tensor, tp_rank=0, tp_size=1, split_dim=0):
        """Cut a full tensor and store each rank's part as <key>_tp_<rank>. 0 or a code."""
        return self.pub_tensor_with_tp(key, tensor, None, tp_rank, tp_size, split_dim)

    def batch_pub_tensor_with_tp(self, base_keys, tensors_list, config=None, tp_rank=0, tp_size=1,
                                 split_dim=0):
        """A code for each key."""
        if len(base_keys) != len(tensors_list):
            return [INVALID_PARAMS] * len(base_keys)
        return [self.pub_tensor_with_tp(key, tensor, config, tp_rank, tp_size, split_dim)
                for key, tensor in zip(base_keys, tensors_list)]

    def batch_put_tensor_with_tp(self, base_keys, tensors_list, tp_rank=0, tp_size=1, split_dim=0):
        """A code for each key."""
        return self.batch_pub_tensor_with_tp(base_keys, tensors_list, None, tp_rank, tp_size,
                                             split_dim)

    def put_tensor_with_tp_from(self, key, buffer_ptr, size, tp_rank=0, tp_size=1, split_dim=0):
        """As put_tensor_with_tp, from a tensor object in memory."""
        if not _is_place(tp_rank, tp_size):
            return INVALID_PARAMS
        memory = fmt.memory_at(buffer_ptr, size)
        if tp_size == 1 or memory is None or fmt.parse(memory) is None:
            return self.put_tensor_from(key, buffer_ptr, size)
        return self._put_parts_of(key, fmt.source_of(fmt.tensor_of_object(memory)), tp_size,
                                  split_dim)

    def batch_put_tensor_with_tp_from(self, base_keys, buffer_ptrs, sizes, tp_rank=0, tp_size=1,
                                      split_dim=0):
        """A code for each key."""
        if not len(base_keys) == len(buffer_ptrs) == len(sizes):
            return [INVALID_PARAMS] * len(base_keys)
        return [self.put_tensor_with_tp_from(key, *range_, tp_rank, tp_size, split_dim)
                for key, *range_ in zip(base_keys, buffer_ptrs, sizes)]

    # ---- tensor parallelism: one rank's part

    @staticmethod
    def _rank_part(value, tp_rank, tp_size):
        """The tensor of an object's bytes, if it is that rank's part."""
        layout = None if value is None else fmt.parse(memoryview(value).cast("B"))
        axis = None if layout is None else layout.axis("tp")
        if layout is None or (tp_size > 1 and (axis is None or axis.rank != tp_rank)):
            return None
        return fmt.tensor_over(value, layout)

    @staticmethod
    def _rank_keys(base_keys, tp_rank, tp_size):
        return [f"{key}_tp_{tp_rank}" if tp_size > 1 else key for key in base_keys]

    def get_tensor_with_tp(self, key, tp_rank=0, tp_size=1, split_dim=0):
        """A rank's part, or None."""
        del split_dim  # the object knows
        return self.batch_get_tensor_with_tp([key], tp_rank, tp_size)[0]

    def batch_get_tensor_with_tp(self, base_keys, tp_rank=0, tp_size=1):
        """A rank's part of each key, or None."""
        values = self._batch_get_copy(self._rank_keys(base_keys, tp_rank, tp_size))
        return [self._rank_part(value, tp_rank, tp_size) for value in values]

    def get_tensor_with_tp_into(self, key, buffer_ptr, size, tp_rank=0, tp_size=1, split_dim=0):
        """As get_tensor_into, for a rank's part."""
        del split_dim
        return self.batch_get_tensor_with_tp_into([key], [buffer_ptr], [size], tp_rank, tp_size)[0]

    def batch_get_tensor_with_tp_into(self, base_keys, buffer_ptrs, sizes, tp_rank=0, tp_size=1):
        """As batch_get_tensor_into, for a rank's part of each key."""
        if not len(base_keys) == len(buffer_ptrs) == len(sizes):
            return [INVALID_PARAMS] * len(base_keys)
        lengths = self.batch_get_into(self._rank_keys(base_keys, tp_rank, tp_size), buffer_ptrs,
                                      sizes)
        return [self._rank_part(fmt.memory_at(*range_), tp_rank, tp_size)
                for range_ in zip(buffer_ptrs, lengths)]

    # ---- any axes: every rank stores its own part

    def _put_place(self, key, tensor, parallelism, config, upsert):
        """A rank's own part, and what tells readers how many there are."""
        axes, source = _axes_of(parallelism), fmt.source_of(tensor)
        if axes is None or source is None:
            return INVALID_PARAMS
        layout = source.layout
        whole = list(layout.shape)
        for axis in axes:
            if axis.split_dim is not None:
                if not 0 <= axis.split_dim < len(whole):
                    return INVALID_PARAMS
                whole[axis.split_dim] *= axis.size  # parts are alike
        marked = fmt.Layout(layout.dtype, layout.shape, whole, [
            fmt.Axis(fmt.AXIS_KINDS[axis.kind], axis.rank, axis.size,
                     -1 if axis.split_dim is None else axis.split_dim) for axis in axes])
        code = self._put_sources([_place_key(key, axes)], [source], config, upsert, [marked])[0]
        cut = next((axis for axis in axes if axis.kind == "tp" and axis.split_dim is not None), None)
        if code != 0 or cut is None:
            return code
        manifest = _pack_manifest(layout.dtype, whole, cut.split_dim, cut.size)
        put = self.upsert if upsert else self.put
        return put(f"{key}__parallelism_manifest", manifest)

    def _put_writer(self, key, tensor, writer, config, upsert):
        """One writer's part of a full tensor."""
        source = fmt.source_of(tensor)
        if source is None or not _is_place(writer.rank, writer.size) or \
                not 0 <= writer.split_dim < len(source.layout.shape):
            return INVALID_PARAMS
        whole = source.layout.shape
        part = source.cut(writer.split_dim,
                          *part_of(whole[writer.split_dim], writer.rank, writer.size))
        marked = fmt.Layout(part.layout.dtype, part.layout.shape, whole, [
            fmt.Axis(fmt.AXIS_KINDS["tp"], writer.rank, writer.size, writer.split_dim)])
        code = self._put_sources([_writer_key(key, writer.rank, writer.size, writer.split_dim)],
                                 [part], config, upsert, [marked])[0]
        manifest = _pack_manifest(source.layout.dtype, whole, writer.split_dim, writer.size)
        put = self.upsert if upsert else self.put
        return code if code != 0 else put(f"{key}__writer_manifest", manifest)

    def _put_anyhow(self, key, tensor, parallelism, config, writer_partition, upsert):
        if config_is_wrong(config) or (parallelism is not None and writer_partition is not None):
            return INVALID_PARAMS
        if writer_partition is not None:
            return self._put_writer(key, tensor, writer_partition, config, upsert)
        if parallelism is not None:
            return self._put_place(key, tensor, parallelism, config, upsert)
        return self._put_tensors([key], [tensor], config, upsert)[0]

    def _put_each(self, keys, tensors, parallelisms, config, writer_partitions, upsert):
        rows = [keys, tensors, [None] * len(keys) if parallelisms is None else parallelisms,
                [None] * len(keys) if writer_partitions is None else writer_partitions]
        if any(len(row) != len(keys) for row in rows):
            return [INVALID_PARAMS] * len(keys)
        return [self._put_anyhow(key, tensor, place, config, writer, upsert)
                for key, tensor, place, writer in zip(*rows)]

    def put_tensor_with_parallelism(self, key, tensor, parallelism=None, config=None,
                                    writer_partition=None):
        """Store the calling rank's part (with @parallelism), or its writer's part of a full tensor
        (with @writer_partition), or the whole. 0 or a code."""
        return self._put_anyhow(key, tensor, parallelism, config, writer_partition, False)

    def upsert_tensor_with_parallelism(self, key, tensor, parallelism=None, config=None,
                                       writer_partition=None):
        """As put_tensor_with_parallelism; replaces."""
        return self._put_anyhow(key, tensor, parallelism, config, writer_partition, True)

    def batch_put_tensor_with_parallelism(self, keys, tensors_list, parallelisms=None, config=None,
                                          writer_partitions=None):
        """A code for each key."""
        return self._put_each(keys, tensors_list, parallelisms, config, writer_partitions, False)

    def batch_upsert_tensor_with_parallelism(self, keys, tensors_list, parallelisms=None,
                                             config=None, writer_partitions=None):
        """A code for each key."""
        return self._put_each(keys, tensors_list, parallelisms, config, writer_partitions, True)

    def put_tensor_with_parallelism_from(self, key, buffer_ptr, size, parallelism=None, config=None,
                                         writer_partition=None):
        """As put_tensor_with_parallelism, from a tensor object in memory."""
        return self._put_anyhow(key, self._tensor_at(buffer_ptr, size), parallelism, config,
                                writer_partition, False)

    def batch_put_tensor_with_parallelism_from(self, keys, buffer_ptrs, sizes, parallelisms=None,
                                               config=None, writer_partitions=None):
        """A code for each key."""
        if not len(keys) == len(buffer_ptrs) == len(sizes):
            return [INVALID_PARAMS] * len(keys)
        tensors = [self._tensor_at(*range_) for range_ in zip(buffer_ptrs, sizes)]
        return self._put_each(keys, tensors, parallelisms, config, writer_partitions, False)

    def upsert_tensor_with_parallelism_from(self, key, buffer_ptr, size, parallelism=None,
                                            config=None, writer_partition=None):
        """As put_tensor_with_parallelism_from; replaces."""
        return self._put_anyhow(key, self._tensor_at(buffer_ptr, size), parallelism, config,
                                writer_partition, True)

    # ---- reading what was stored along axes

    def _join(self, keys, split_dim):
        """The parts of @keys as one tensor, or None if one is missing or does not fit."""
        import torch  # pylint: disable=import-outside-toplevel
        parts = self.batch_get_tensor(keys)
        if not parts or any(part is None for part in parts):
            return None
        try:
            return torch.cat(parts, dim=split_dim)
        except (RuntimeError, TypeError, IndexError):
            return None

    def _get_full(self, key, axes):
        """All parts along the tp axis of @axes, or all writers' parts (None)."""
        name = "writer" if axes is None else "parallelism"
        found = _parse_manifest(self.get(f"{key}__{name}_manifest"))
        if axes is None:
            if found is None:
                return self.get_tensor(key)
            split_dim, parts = found
            return self._join([_writer_key(key, rank, parts, split_dim) for rank in range(parts)],
                              split_dim)
        cut = next((axis for axis in axes if axis.kind == "tp"), None)
        if cut is None:
            return None
        split_dim, parts = found or (cut.split_dim or 0, cut.size)
        keys = []
        for rank in range(parts):
            place = ParallelAxis("tp", rank, parts, cut.split_dim, cut.expert_id, cut.stage_id)
            keys.append(_place_key(key, [place if axis is cut else axis for axis in axes]))
        return self._join(keys, split_dim)

    def get_tensor_with_parallelism(self, key, target=None):
        """The tensor as @target wants it, or None."""
        mode = "as_stored" if target is None else target.mode
        parallelism = None if target is None else target.parallelism
        if mode == "as_stored" and parallelism is None:
            return self.get_tensor(key)
        axes = None if parallelism is None else _axes_of(parallelism)
        if parallelism is not None and axes is None:
            return None
        if mode == "full":
            return self._get_full(key, axes)
        if mode not in ("as_stored", "shard") or axes is None:
            return None
        return self.get_tensor(_place_key(key, axes))

    def batch_get_tensor_with_parallelism(self, keys, targets=None):
        """A tensor or None for each key."""
        if targets is None:
            return self.batch_get_tensor(keys)
        if len(targets) != len(keys):
            return [None] * len(keys)
        return [self.get_tensor_with_parallelism(*pair) for pair in zip(keys, targets)]

    def get_tensor_with_parallelism_into(self, key, buffer_ptr, size, target=None):
        """As get_tensor_with_parallelism; header and elements are in memory afterwards."""
        tensor = self.get_tensor_with_parallelism(key, target)
        source = None if tensor is None else fmt.source_of(tensor)
        memory = fmt.memory_at(buffer_ptr, size)
        if source is None or memory is None or \
                fmt.HEADER_BYTES + source.layout.data_bytes > size:
            return None
        view = memoryview(memory).cast("B")
        view[:fmt.HEADER_BYTES] = source.layout.pack()
        into = self._tensor_at(buffer_ptr, size)
        into.copy_(tensor)
        return into

    def batch_get_tensor_with_parallelism_into(self, keys, buffer_ptrs, sizes, targets=None):
        """A tensor or None for each key."""
        targets = [None] * len(keys) if targets is None else targets
        if not len(keys) == len(buffer_ptrs) == len(sizes) == len(targets):
            return [None] * len(keys)
        return [self.get_tensor_with_parallelism_into(*row)
                for row in zip(keys, buffer_ptrs, sizes, targets)]
