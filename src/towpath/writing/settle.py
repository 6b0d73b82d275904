"""A commit, and the end of those objects that are certain never to be seen by anybody."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from towpath.metadata.store import MetadataStore
from towpath.objects.store import ObjectStoreError
from towpath.objects.worker import RemovableObjects
from towpath.runtime import Runtime
from towpath.writing.commit import Epoch, Outcome, commit
from towpath.writing.errors import WriteFailed, WriteRefused, WriteUnknown
from towpath.writing.staged import Staged

logger = structlog.get_logger(__name__)


async def settle(
    store: MetadataStore,
    objects: RemovableObjects,
    staged: Sequence[Staged],
    epoch: Epoch | None,
    runtime: Runtime,
) -> Outcome:
    """Make everything visible at once; see `commit.commit`. What was refused or in vain is deleted;
    what may be visible, or become so, stays."""
    try:
        outcome = await commit(store, staged, epoch, runtime)
    except WriteUnknown:
        raise
    except (WriteRefused, WriteFailed):
        discard(objects, staged)
        raise
    if outcome is Outcome.REPLAYED:
        discard(objects, staged)
    return outcome


def discard(objects: RemovableObjects, staged: Sequence[Staged]) -> None:
    """Delete objects that were never committed and never will be, as far as that is possible: the
    orphan collector takes the rest."""
    try:
        for part in staged:
            for each in part.objects:
                objects.delete(each.path)
    except ObjectStoreError as error:
        logger.warning("staged objects are left to the orphan collector", error=str(error))
