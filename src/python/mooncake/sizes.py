"""Sizes as people write them: 1048576, "16MB", "4.5 gb"."""

import re

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_PATTERN = re.compile(r"\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)


def parse_size(value):
    """Bytes as an int. ValueError says what is wrong, also with a negative size."""
    if isinstance(value, bool):
        raise ValueError(f"size {value!r}: a number or a text such as 16MB is expected")
    if isinstance(value, (int, float)):
        size = int(value)
    else:
        match = _PATTERN.fullmatch(str(value))
        if match is None:
            raise ValueError(f"size {value!r}: a number or a text such as 16MB is expected")
        unit = _UNITS[match[2].lower()]
        size = int(match[1]) * unit if "." not in match[1] else int(float(match[1]) * unit)
    if size < 0:
        raise ValueError(f"size {value!r}: is negative")
    return size
