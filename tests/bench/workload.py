"""A small trace, and what an exact LRU cache makes of it."""

import json
import tempfile
from collections import OrderedDict


def requests(count):
    """Shared prefixes, and conversations that return shorter or longer than they were."""
    result = []
    for i in range(count):
        start = (i * 7919) % 40
        prompt = [1000000 + start // 4]
        prompt += range(start * 50, start * 50 + 1 + (i * i) % 30)
        result.append(prompt)
    return result


def write_trace(prompts):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as file:
        for ids in prompts:
            file.write(json.dumps({"timestamp": 0, "hash_ids": ids}) + "\n")
    return file.name


def lru_hits(prompts, capacity):
    """Blocks found in unbroken prefixes."""
    cache = OrderedDict()
    hits = 0
    for ids in prompts:
        for block in ids:
            if block not in cache:
                break
            hits += 1
        for block in ids:
            cache[block] = True
            cache.move_to_end(block)
            if len(cache) > capacity:
                cache.popitem(last=False)
    return hits
