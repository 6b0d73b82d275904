"""Commits from outside as blocking calls, for programs without an event loop or a broker.

Each call opens the metadata store for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from uuid import UUID

import structlog

from towpath.errors import TowpathError
from towpath.groups.offsets.outside import check_group, commit_outside
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import MetadataError, MetadataStore
from towpath.runtime import Runtime, inline_runtime

logger = structlog.get_logger(__name__)


class CommitFailed(TowpathError):
    """The store did not carry it out, or did not say so; the same commit may be repeated."""


class OutsideCommits:
    """Commits for the groups of one system."""

    def __init__(self, metadata_path: Path, runtime: Runtime | None = None) -> None:
        self._path = metadata_path
        self._runtime = inline_runtime() if runtime is None else runtime

    def check(self, group_id: str) -> None:
        """Raises GroupInUse if a commit would be refused now, and CommitFailed."""
        self._run(lambda store: check_group(store, group_id))

    def commit(self, group_id: str, topic: str, topic_id: UUID, offsets: Mapping[int, int]) -> None:
        """See `commit_outside`. Raises GroupInUse, and CommitFailed if it may be repeated."""
        self._run(
            lambda store: commit_outside(store, group_id, topic, topic_id, offsets, self._runtime)
        )

    def _run(self, work: Callable[[MetadataStore], Awaitable[None]]) -> None:
        async def run() -> None:
            store = await SqliteStore.open(self._path, self._runtime)
            try:
                await work(store)
            finally:
                try:
                    await store.close()
                except MetadataError as error:
                    # What was done is done: this must not look as if it were not.
                    logger.warning("the metadata store did not close", error=str(error))

        try:
            asyncio.run(run())
        except (MetadataError, UnknownValueVersion) as error:
            raise CommitFailed(f"the metadata store at {self._path}: {error}") from error
