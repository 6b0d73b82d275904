"""Reading and deleting many keys without asking the store for too much at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from towpath.metadata.store import KeyValue, MetadataStore

PAGE_KEYS = 500
OPERATIONS_PER_COMMIT = 100
"""Stays below etcd's default of 128 operations in a transaction."""


async def scan_pages(store: MetadataStore, start: str, end: str) -> AsyncIterator[list[KeyValue]]:
    """The keys of `[start, end)` in order. Keys deleted meanwhile may be missing."""
    while True:
        page = await store.scan(start, end, limit=PAGE_KEYS)
        if page:
            yield page
        if len(page) < PAGE_KEYS:
            return
        start = key_after(page[-1].key)


def key_after(key: str) -> str:
    """The smallest key greater than `key`."""
    return key + "\0"


async def delete_keys(store: MetadataStore, keys: Sequence[str]) -> None:
    """Delete the keys in the order given; a crash leaves some of the last ones."""
    if store.domain_count == 1:
        for start in range(0, len(keys), OPERATIONS_PER_COMMIT):
            await store.commit(0, deletes=keys[start : start + OPERATIONS_PER_COMMIT])
        return
    # The keys may lie in several domains, and a commit changes one.
    for key in keys:
        await store.delete(key)
