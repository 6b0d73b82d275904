"""A listing in path order, for stores that can list one directory at a time in no order at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from towpath.objects.paths import RESERVED_SEGMENT, is_path

ListDirectory = Callable[[str], Awaitable[Sequence[str]]]
"""The names in a directory (`""` is the root; else without a trailing `/`), in any order.

A sub-directory's name ends in `/`. A directory that does not exist has no names.
"""


async def walk(prefix: str, list_directory: ListDirectory) -> AsyncIterator[list[str]]:
    """The paths that start with `prefix` (any string), as runs in ascending order.

    Each run lies in one directory. Only the names of the directories on the way down are held.
    """
    directory, _, name_prefix = prefix.rpartition("/")
    if "/" in prefix and not is_path(directory):
        return
    async for run in _walk_directory(directory, name_prefix, list_directory):
        yield run


async def _walk_directory(
    directory: str, name_prefix: str, list_directory: ListDirectory
) -> AsyncIterator[list[str]]:
    # A sub-directory sorts with its trailing slash, as it does in the paths below it: "a-b" comes
    # before "a/b", though "a" comes before "a-b".
    names = sorted(name for name in await list_directory(directory) if name.startswith(name_prefix))
    at = f"{directory}/" if directory else ""
    run: list[str] = []
    for name in names:
        if not name.endswith("/"):
            run.append(at + name)
        elif directory or name != f"{RESERVED_SEGMENT}/":
            if run:
                yield run
                run = []
            async for below in _walk_directory(at + name[:-1], "", list_directory):
                yield below
    if run:
        yield run
