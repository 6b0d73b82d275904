"""Which groups there are, from the keys alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

from towpath.metadata.keys import groups as keys
from towpath.metadata.store import MetadataStore, prefix_end


async def group_ids(store: MetadataStore) -> AsyncIterator[str]:
    """Every group that has any key, by ascending key. One read per group: what lies under a group
    (its offsets, above all) is leapt over."""
    at, end = keys.GROUPS_PREFIX, prefix_end(keys.GROUPS_PREFIX)
    while (row := await store.first_above(at, end)) is not None:
        try:
            group_id = keys.parse(row.key).group_id
        except ValueError:
            at = row.key  # Not one of ours.
            continue
        yield group_id
        at = prefix_end(keys.prefix(group_id))
