"""The store for asyncio: async_<method> runs <method> in the loop's default executor."""

import asyncio
import functools

from mooncake.store import MooncakeDistributedStore


class MooncakeDistributedStoreAsync(MooncakeDistributedStore):
    """Every method `m` of the store is also there as the coroutine function `async_m`."""

    def __getattr__(self, name):
        if not name.startswith("async_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        method = getattr(self, name[len("async_"):])

        @functools.wraps(method)
        async def call(*args, **kwargs):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, functools.partial(method, *args, **kwargs))

        return call
