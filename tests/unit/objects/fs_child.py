"""A process that puts objects until it is killed; run by the tests of the `fs` store.

Arguments: the root, then `one PATH` to put one small object, or `flood SIZE NAME` to put objects of
`SIZE` bytes for ever. A line is printed for each put that returned.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from hashlib import sha256

from towpath.objects.fs import FsObjectStore
from towpath.runtime import inline_runtime


def content(name: str, size_bytes: int) -> bytes:
    """Bytes that a reader can tell from any others."""
    seed = sha256(name.encode()).digest()
    return (seed * (size_bytes // len(seed) + 1))[:size_bytes]


async def put_one(root: str, path: str) -> None:
    store = FsObjectStore(root, inline_runtime(1))
    print("opened", flush=True)
    await store.put(path, [b"first ", b"second"])
    print("returned", flush=True)
    await store.close()


async def flood(root: str, size_bytes: int, writer: str) -> None:
    store = FsObjectStore(root, inline_runtime(1))

    async def one(number: int) -> None:
        path = f"{writer}/{number % 3}/{number:06d}"
        data = memoryview(content(path, size_bytes))
        await store.put(path, [data[:1000], data[1000:]])
        print(path, flush=True)

    for first in itertools.count(0, 4):
        await asyncio.gather(*(one(first + n) for n in range(4)))


if __name__ == "__main__":
    if sys.argv[2] == "one":
        asyncio.run(put_one(sys.argv[1], sys.argv[3]))
    else:
        asyncio.run(flood(sys.argv[1], int(sys.argv[3]), sys.argv[4]))
