"""Reads of parts of values. The pool hands out whole values, so a part costs what its value costs;
each value is read once a call."""

import ctypes

INVALID_PARAMS = -600
NO_SUCH_KEY = -704
EXPIRED = -707


class RangeReads:
    """get_into_ranges(), for a class that has register_buffer() and batch_get_buffer()."""

    _registered = None

    def _forget_buffers(self):
        self._registered = {}

    def register_buffer(self, buffer_ptr, size):
        """Announce memory. 0 or a negative code."""
        code = super().register_buffer(buffer_ptr, size)
        if code == 0:
            self._registered.setdefault(int(buffer_ptr), []).append(int(size))
        return code

    def unregister_buffer(self, buffer_ptr):
        """Take that back. 0 or a negative code."""
        code = super().unregister_buffer(buffer_ptr)
        if code == 0:
            sizes = self._registered.get(int(buffer_ptr))
            if sizes:
                sizes.pop()
                if not sizes:
                    del self._registered[int(buffer_ptr)]
        return code

    def _room_at(self, pointer):
        """Registered bytes from @pointer on."""
        room = 0
        for start, sizes in list((self._registered or {}).items()):
            for size in list(sizes):
                if start <= pointer < start + size:
                    room = max(room, start + size - pointer)
        return room

    def get_into_ranges(self, buffer_ptrs, all_keys, all_dst_offsets, all_src_offsets, all_sizes):
        """Copy parts of values into registered memory. Results are [buffer][key][range]: bytes
        copied, or a negative code."""
        columns = (all_keys, all_dst_offsets, all_src_offsets, all_sizes)
        if any(len(column) != len(buffer_ptrs) for column in columns):
            return [[[INVALID_PARAMS]] for _ in buffer_ptrs]
        wanted = list(dict.fromkeys(key for keys in all_keys for key in keys))
        values = dict(zip(wanted, self.batch_get_buffer(wanted)))
        return [self._one_buffer(pointer, values, *rest)
                for pointer, *rest in zip(buffer_ptrs, *columns)]

    def _one_buffer(self, pointer, values, keys, dst_offsets, src_offsets, sizes):
        if not len(keys) == len(dst_offsets) == len(src_offsets) == len(sizes):
            return [[INVALID_PARAMS] for _ in keys]
        room = self._room_at(pointer)
        return [self._one_key(pointer, room, values[key], *rest)
                for key, *rest in zip(keys, dst_offsets, src_offsets, sizes)]

    @staticmethod
    def _one_key(pointer, room, value, dst_offsets, src_offsets, sizes):
        if not len(dst_offsets) == len(src_offsets) == len(sizes):
            return [INVALID_PARAMS] * max(len(dst_offsets), len(src_offsets), len(sizes))
        results = []
        for dst, src, size in zip(dst_offsets, src_offsets, sizes):
            if min(dst, src, size) < 0 or dst + size > room:
                results.append(INVALID_PARAMS)
            elif value is None:
                results.append(NO_SUCH_KEY)
            elif src + size > value.size():
                results.append(INVALID_PARAMS)
            else:
                ctypes.memmove(pointer + dst, value.ptr() + src, size)
                results.append(size)
        if value is not None and value.check() != 0:
            return [EXPIRED] * len(results)
        return results
