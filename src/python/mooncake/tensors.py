"""Tensors as values: the calls of mooncake.store that take or give them.

A put takes torch tensors and numpy arrays. What cannot be stored gives -600, what is not there None.
"""

from mooncake import tensor_format as fmt
from mooncake.safetensor import load_tensor, save_tensor

INVALID_PARAMS = -600
FILE_ERROR = -1100


def config_is_wrong(config):
    """Published tensors name one segment for each copy, or none."""
    wanted = list(getattr(config, "preferred_segments", None) or [])
    return bool(wanted) and len(wanted) != config.replica_num


class Tensors:
    """For a class with the calls on memory: batch_put_from_multi_buffers() and its likes."""

    # ---- what the puts share

    def _put_sources(self, keys, sources, config=None, upsert=False, layouts=None):
        """A code for each key. A source of None is a tensor that cannot be stored."""
        codes = [INVALID_PARAMS] * len(keys)
        known = [i for i, source in enumerate(sources) if source is not None]
        pieces, alive = [], []
        for i in known:
            parts, keep = sources[i].pieces(layouts[i] if layouts else None)
            pieces.append(parts)
            alive.append(keep)
        put = self._batch_upsert_from_multi_buffers if upsert else \
            self.batch_put_from_multi_buffers
        stored = put([keys[i] for i in known], [[part[0] for part in parts] for parts in pieces],
                     [[part[1] for part in parts] for parts in pieces], config)
        for i, code in zip(known, stored):
            codes[i] = code
        del alive
        return codes

    def _put_tensors(self, keys, tensors, config=None, upsert=False):
        keys, tensors = list(keys), list(tensors)
        if len(keys) != len(tensors):
            return [INVALID_PARAMS] * len(keys)
        return self._put_sources(keys, [fmt.source_of(tensor) for tensor in tensors], config, upsert)

    # ---- put

    def put_tensor(self, key, tensor):
        """Store one tensor. 0 or a negative code."""
        return self._put_tensors([key], [tensor])[0]

    def batch_put_tensor(self, keys, tensors_list):
        """A code for each key."""
        return self._put_tensors(keys, tensors_list)

    def upsert_tensor(self, key, tensor):
        """Store or replace one tensor."""
        return self._put_tensors([key], [tensor], None, True)[0]

    def batch_upsert_tensor(self, keys, tensors_list):
        """A code for each key."""
        return self._put_tensors(keys, tensors_list, None, True)

    def pub_tensor(self, key, tensor, config=None):
        """As put_tensor, placed as @config says."""
        return self.batch_pub_tensor([key], [tensor], config)[0]

    def batch_pub_tensor(self, keys, tensors_list, config=None):
        """A code for each key."""
        if config_is_wrong(config):
            return [INVALID_PARAMS] * len(keys)
        return self._put_tensors(keys, tensors_list, config)

    def upsert_pub_tensor(self, key, tensor, config=None):
        """As upsert_tensor, placed as @config says."""
        return self.batch_upsert_pub_tensor([key], [tensor], config)[0]

    def batch_upsert_pub_tensor(self, keys, tensors_list, config=None):
        """A code for each key."""
        if config_is_wrong(config):
            return [INVALID_PARAMS] * len(keys)
        return self._put_tensors(keys, tensors_list, config, True)

    # ---- put from memory that holds header and elements

    def _put_objects(self, keys, buffer_ptrs, sizes, upsert=False):
        keys, buffer_ptrs, sizes = list(keys), list(buffer_ptrs), list(sizes)
        if not len(keys) == len(buffer_ptrs) == len(sizes):
            return [INVALID_PARAMS] * len(keys)
        sources = [fmt.source_of_memory(*range_) for range_ in zip(buffer_ptrs, sizes)]
        return self._put_sources(keys, sources, None, upsert)

    def put_tensor_from(self, key, buffer_ptr, size):
        """Store the tensor object (header and elements) that lies in memory."""
        return self._put_objects([key], [buffer_ptr], [size])[0]

    def batch_put_tensor_from(self, keys, buffer_ptrs, sizes):
        """A code for each key."""
        return self._put_objects(keys, buffer_ptrs, sizes)

    def upsert_tensor_from(self, key, buffer_ptr, size):
        """As put_tensor_from; replaces."""
        return self._put_objects([key], [buffer_ptr], [size], True)[0]

    def batch_upsert_tensor_from(self, keys, buffer_ptrs, sizes):
        """A code for each key."""
        return self._put_objects(keys, buffer_ptrs, sizes, True)

    # ---- get

    def get_tensor(self, key):
        """The tensor, or None."""
        return self.batch_get_tensor([key])[0]

    def batch_get_tensor(self, keys):
        """A tensor or None for each key."""
        return [fmt.tensor_of_object(value) for value in self._batch_get_copy(keys)]

    @staticmethod
    def _tensor_at(buffer_ptr, length):
        return fmt.tensor_of_object(fmt.memory_at(buffer_ptr, length))

    def get_tensor_into(self, key, buffer_ptr, size):
        """Read header and elements into memory; a tensor that looks into it, or None."""
        return self._tensor_at(buffer_ptr, self.get_into(key, buffer_ptr, size))

    def batch_get_tensor_into(self, keys, buffer_ptrs, sizes):
        """A tensor or None for each key; -600 for each when the lists differ in length or the store
        is not set up."""
        keys, buffer_ptrs, sizes = list(keys), list(buffer_ptrs), list(sizes)
        if not len(keys) == len(buffer_ptrs) == len(sizes) or not self.get_hostname():
            return [INVALID_PARAMS] * len(keys)
        lengths = self.batch_get_into(keys, buffer_ptrs, sizes)
        return [self._tensor_at(*range_) for range_ in zip(buffer_ptrs, lengths)]

    def get_tensor_into_cuda(self, key, tensor):
        """Copy the elements into a tensor of the same type and size, on any device. Their bytes, or
        a negative code."""
        size = self.get_size(key)
        if size < 0:
            return size
        source = self.get_tensor(key)
        if source is None or source.dtype != tensor.dtype or source.numel() != tensor.numel():
            return INVALID_PARAMS
        tensor.copy_(source.reshape(tensor.shape))
        return source.numel() * source.element_size()

    def batch_get_tensor_into_cuda(self, keys, tensors):
        """Bytes or a negative code for each key."""
        keys, tensors = list(keys), list(tensors)
        if len(keys) != len(tensors):
            return [INVALID_PARAMS] * len(keys)
        return [self.get_tensor_into_cuda(*pair) for pair in zip(keys, tensors)]

    # ---- files

    def save_tensor_to_safetensor(self, key, file_name=None):
        """Write a stored tensor into a safetensors file (<key>.safetensors). 0, -600 or -1100."""
        value = self._batch_get_copy([key])[0]
        layout = None if value is None else fmt.parse(memoryview(value).cast("B"))
        if layout is None:
            return INVALID_PARAMS
        try:
            save_tensor(file_name or f"{key}.safetensors", str(key), layout,
                        memoryview(value).cast("B"))
        except OSError:
            return FILE_ERROR
        return 0

    def load_tensor_from_safetensor(self, key=None, file_name=None):
        """Read a tensor (of that name, else the first) from a file and store it under its name.
        The tensor, or None."""
        loaded = load_tensor(file_name, None if key is None else str(key)) if file_name else None
        if loaded is None:
            return None
        name, layout, data = loaded
        memory = bytearray(layout.pack() + data)
        code = self.put_parts(name if key is None else key, memory)
        return fmt.tensor_of_object(memory) if code == 0 else None
