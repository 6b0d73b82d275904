"""A listing in path order, for services that list a whole tree at once in an order of their own.

S3, GCS and Azure list in the order of bytes, which is ours; SeaweedFS lists directory by directory,
S3's directory buckets in no order. So a tree of bounded size is held and sorted here; a larger one
is listed level by level, until its parts are small enough.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from towpath.objects.paths import is_path
from towpath.objects.store import ObjectInfo

TREE_OBJECTS_MAX = 20_000
"""Objects that are held and sorted at once; more only if a single directory has more."""

ListTree = Callable[[str], Awaitable[Sequence[ObjectInfo] | None]]
"""Every object whose path starts with the prefix, in any order; None if there are too many."""

ListLevel = Callable[[str], Awaitable[Sequence[ObjectInfo]]]
"""What starts with the prefix up to the next `/`, in any order; directories end in it."""


async def sorted_listing(
    prefix: str, list_tree: ListTree, list_level: ListLevel
) -> AsyncIterator[ObjectInfo]:
    """Every object whose path starts with `prefix` (any string), in ascending path order."""
    directory = prefix.rpartition("/")[0]
    if "/" in prefix and not is_path(directory):
        return
    tree = await list_tree(prefix)
    if tree is not None:
        for info in sorted(tree, key=_path):
            if info.path.startswith(prefix) and is_path(info.path):
                yield info
        return
    # A directory sorts with its trailing slash, as it does in the paths below it.
    for entry in sorted(await list_level(prefix), key=_path):
        if not entry.path.startswith(prefix):
            continue
        if is_path(entry.path):
            yield entry
        elif entry.path.endswith("/") and entry.path != prefix:
            async for info in sorted_listing(entry.path, list_tree, list_level):
                yield info


def _path(info: ObjectInfo) -> str:
    return info.path
