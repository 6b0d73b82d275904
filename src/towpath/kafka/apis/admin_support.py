"""What the admin APIs share: refusals, fresh caches, operation masks and bounded parallel work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import structlog

from towpath.errors import TowpathError
from towpath.kafka.errors import ErrorCode, error_code_of, error_message_of
from towpath.kafka.services import Services
from towpath.metadata.store import MetadataError

CHANGES_AT_ONCE = 8
"""Topics of one request that are created or deleted together."""

TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""Kafka's bit mask of every operation on a topic: what anybody may do without an authorizer."""

CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""Likewise on the cluster."""

_log = structlog.get_logger(__name__)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Refused(Exception):
    """A part of a request that is answered with this code and message."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


EXPECTED_FAILURES = (Refused, TowpathError, MetadataError)
"""What a part of a request may fail with; anything else is a fault of the broker itself."""


def failure_of(error: Exception) -> tuple[int, str | None]:
    """The code and message a client is told."""
    if isinstance(error, Refused):
        return error.code, error.message
    if isinstance(error, MetadataError):
        # The store may or may not have made the change, which is what this code says in Kafka.
        _log.warning("the metadata store failed", error=str(error))
        return ErrorCode.REQUEST_TIMED_OUT, "The metadata store did not answer; try again."
    return error_code_of(error), error_message_of(error)


async def freshen(services: Services) -> bool:
    """Bring the caches of topics and brokers up to date.

    False if the store cannot be asked: what is cached may still be answered, but nothing may be
    called missing.
    """
    try:
        await asyncio.gather(services.topics.refresh(), services.cluster.refresh())
    except MetadataError as error:
        _log.warning("answering from the cache; the metadata store failed", error=str(error))
        return False
    return True


def missing_topic(fresh: bool) -> ErrorCode:
    """The code for a topic that the cache does not know: only a fresh cache can say it is gone."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if fresh else ErrorCode.LEADER_NOT_AVAILABLE


def duplicates(items: Iterable[Item]) -> set[Item]:
    """The items that appear more than once."""
    return {item for item, count in Counter(items).items() if count > 1}


async def run_bounded(
    work: Callable[[Item], Awaitable[Result]], items: Sequence[Item]
) -> list[Result]:
    """The results of `work` for each item in order, `CHANGES_AT_ONCE` of them at a time."""
    slots = asyncio.Semaphore(CHANGES_AT_ONCE)

    async def one(item: Item) -> Result:
        async with slots:
            return await work(item)

    return list(await asyncio.gather(*(one(item) for item in items)))
