"""Sessions: values that are written, or read, in ranges over several calls.

The pool stores and hands out whole values. So what a put session writes is gathered in this process
and stored at its end, and a get session reads its values at its start.
"""

import ctypes
import mmap
import threading

INVALID_PARAMS = -600
NO_SPACE = -200
NO_SUCH_KEY = -704
EXPIRED = -707
SESSIONS_MAX = 65536
STAGED_BYTES_MIN = 1 << 30


class _Put:
    """A value under way. Memory is touched as it is written."""

    def __init__(self, size, config):
        self.size, self.config = size, config
        self.map = mmap.mmap(-1, size)
        self.memory = ctypes.c_char.from_buffer(self.map)
        self.pointer = ctypes.addressof(self.memory)


class Sessions:
    """For a class with the batches on memory. All lists are by key."""

    def _init_sessions(self):
        self._sessions_lock = threading.Lock()
        self._puts = {}
        self._gets = {}  # key: [value, how many have started it]
        self._staged_bytes = 0
        self._staged_bytes_max = STAGED_BYTES_MIN

    def _forget_sessions(self, local_buffer_size=0):
        with self._sessions_lock:
            self._puts, self._gets, self._staged_bytes = {}, {}, 0
            self._staged_bytes_max = max(local_buffer_size, STAGED_BYTES_MIN)

    # ---- put

    def _start_put(self, key, size, config):
        if not isinstance(key, (str, bytes)) or not isinstance(size, int):
            raise TypeError("keys must be str or bytes, sizes int")
        if not key or size <= 0:
            return INVALID_PARAMS
        with self._sessions_lock:
            if key in self._puts or len(self._puts) >= SESSIONS_MAX:
                return INVALID_PARAMS
            if size > self._staged_bytes_max - self._staged_bytes:
                return NO_SPACE
            try:
                self._puts[key] = _Put(size, config)
            except (OSError, OverflowError):
                return NO_SPACE
            self._staged_bytes += size
        return 0

    def batch_put_session_start(self, keys, sizes, config=None):
        """Begin values of these sizes: codes. Nobody sees them before the session's end."""
        keys, sizes = list(keys), list(sizes)
        if len(keys) != len(sizes) or not self.get_hostname():
            return [INVALID_PARAMS] * len(keys)
        config = None if config is None else config.copy()
        return [self._start_put(key, size, config) for key, size in zip(keys, sizes)]

    def _take_puts(self, keys):
        """Those sessions, ended; None where there is none."""
        with self._sessions_lock:
            puts = [self._puts.pop(key, None) for key in keys]
            self._staged_bytes -= sum(put.size for put in puts if put is not None)
        return puts

    @staticmethod
    def _copy(total, base, ranges, offsets, into):
        """Copy ranges of memory to (or from) offsets of a value of @total bytes; bytes or a code."""
        pointers, sizes = ranges
        if not len(pointers) == len(sizes) == len(offsets):
            return INVALID_PARAMS
        if any(size < 0 or offset < 0 or pointer <= 0 or offset + size > total
               for pointer, size, offset in zip(pointers, sizes, offsets)):
            return INVALID_PARAMS
        for pointer, size, offset in zip(pointers, sizes, offsets):
            there = base + offset
            ctypes.memmove(*((there, pointer) if into else (pointer, there)), size)
        return sum(sizes)

    def batch_put_from_multi_buffer_ranges(self, keys, all_buffer_ptrs, all_sizes,
                                           all_dst_offsets):
        """Write pieces of memory at offsets of the values: bytes written, or codes."""
        if not len(keys) == len(all_buffer_ptrs) == len(all_sizes) == len(all_dst_offsets):
            return [INVALID_PARAMS] * len(keys)
        with self._sessions_lock:
            puts = [self._puts.get(key) for key in keys]
        return [INVALID_PARAMS if put is None else
                self._copy(put.size, put.pointer, (pointers, sizes), offsets, True)
                for put, pointers, sizes, offsets
                in zip(puts, all_buffer_ptrs, all_sizes, all_dst_offsets)]

    def batch_put_session_end(self, keys):
        """Store the values: codes as those of a put. The sessions are over in any case."""
        keys = list(keys)
        puts = self._take_puts(keys)
        codes = [INVALID_PARAMS] * len(keys)
        groups = {}  # one call for those of one config
        for i, put in enumerate(puts):
            if put is not None:
                groups.setdefault(id(put.config), []).append(i)
        for rows in groups.values():
            stored = self.batch_put_from([keys[i] for i in rows], [puts[i].pointer for i in rows],
                                         [puts[i].size for i in rows], puts[rows[0]].config)
            for i, code in zip(rows, stored):
                codes[i] = code
        return codes

    def batch_put_session_revoke(self, keys):
        """Forget the values: codes."""
        return [INVALID_PARAMS if put is None else 0 for put in self._take_puts(list(keys))]

    # ---- get

    def batch_get_session_start(self, keys):
        """Begin to read: 0, or -704 for a miss. Each start wants its own end."""
        keys = list(keys)
        values = dict(zip(keys, self.batch_get_buffer(keys)))
        codes = []
        with self._sessions_lock:
            for key in keys:
                known = self._gets.get(key)
                if values[key] is None or (known is None and len(self._gets) >= SESSIONS_MAX):
                    codes.append(NO_SUCH_KEY)
                elif known is None:
                    self._gets[key] = [values[key], 1]
                    codes.append(0)
                else:
                    known[1] += 1
                    codes.append(0)
        return codes

    def batch_get_into_multi_buffer_ranges(self, keys, all_buffer_ptrs, all_sizes,
                                           all_src_offsets):
        """Copy ranges of the values to memory: bytes, or codes; -707 where no session is."""
        if not len(keys) == len(all_buffer_ptrs) == len(all_sizes) == len(all_src_offsets):
            return [INVALID_PARAMS] * len(keys)
        with self._sessions_lock:
            values = [self._gets.get(key, (None,))[0] for key in keys]
        if not self.get_hostname():  # closed, or the parent's of this forked process
            return [EXPIRED] * len(keys)
        return [self._copy_from(value, (pointers, sizes), offsets)
                for value, pointers, sizes, offsets
                in zip(values, all_buffer_ptrs, all_sizes, all_src_offsets)]

    def _copy_from(self, value, ranges, offsets):
        """Bytes, or a code. The value may lie in the pool's memory: what it was is asked last."""
        if value is None:
            return EXPIRED
        copied = self._copy(value.size(), value.ptr(), ranges, offsets, False)
        return copied if value.check() == 0 else EXPIRED

    def batch_get_session_end(self, keys):
        """The values are not needed any more. 0."""
        with self._sessions_lock:
            for key in keys:
                known = self._gets.get(key)
                if known is not None:
                    known[1] -= 1
                    if known[1] == 0:
                        del self._gets[key]
        return 0
