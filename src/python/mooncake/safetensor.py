"""One tensor in a safetensors file: eight bytes of length, a JSON table, the elements."""

import json
import os

from mooncake.tensor_format import DIMS_MAX, DTYPES, Layout

TABLE_BYTES_MAX = 100 << 20
_NAMES = ("F32", "F64", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL", "F16", "BF16",
          "F8_E4M3", "F8_E5M2")
assert len(_NAMES) == len(DTYPES)


def save_tensor(path, name, layout, value):
    """Write the elements of an object's bytes. OSError."""
    table = json.dumps({name: {"dtype": _NAMES[layout.dtype], "shape": list(layout.shape),
                               "data_offsets": [0, layout.data_bytes]}}).encode()
    table = table.ljust((len(table) + 7) // 8 * 8)
    with open(path, "wb") as file:
        file.write(len(table).to_bytes(8, "little") + table)
        file.write(value[layout.data_offset:layout.data_offset + layout.data_bytes])


def _entry(table, name):
    """(name, Layout, begin) of a table's entry. ValueError, KeyError or TypeError if it is wrong."""
    if name is None:
        name = next(iter(key for key in table if key != "__metadata__"), None)
    entry = table[name]
    shape, (begin, end) = entry["shape"], entry["data_offsets"]
    layout = Layout(_NAMES.index(entry["dtype"]), shape)
    if len(shape) > DIMS_MAX or any(not isinstance(n, int) or n < 0 for n in [*shape, begin, end]) \
            or end - begin != layout.data_bytes:
        raise ValueError("the entry is not true in itself")
    return name, layout, begin


def load_tensor(path, name):
    """(name, Layout, elements) of a tensor, the first if @name is None; None if there is none."""
    try:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > min(TABLE_BYTES_MAX, os.fstat(file.fileno()).st_size):
                return None
            name, layout, begin = _entry(json.loads(file.read(size)), name)
            file.seek(8 + size + begin)
            if layout.data_bytes > os.fstat(file.fileno()).st_size:
                return None
            data = file.read(layout.data_bytes)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return (name, layout, data) if len(data) == layout.data_bytes else None
