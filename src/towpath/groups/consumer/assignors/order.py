"""The order in which members and topics are considered where Kafka itself promises none.

Kafka visits them as Java's hash tables keep them, so which member gets the odd partition follows
from the hash codes of the ids. The same order here makes the same members get the same partitions
as on Kafka, which is what lets recorded sequences of both be compared.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import TypeVar

_SMALLEST_TABLE = 16
_FULL_QUARTERS = 3
"""A table grows when more than this many quarters of it are used."""

_SIGN_BIT = 1 << 63

KEPT_HASHES = 16_384
"""Hash codes of member ids kept: every assignment of a group asks for the same."""

Key = TypeVar("Key", str, uuid.UUID)


def names_in_order(names: Collection[str]) -> list[str]:
    """Member ids, or other names, as a table of them is visited."""
    return _in_table_order(names, string_hash)


def topics_in_order(topic_ids: Collection[uuid.UUID]) -> list[uuid.UUID]:
    """Topic ids as a table of them is visited."""
    return _in_table_order(topic_ids, uuid_hash)


def _in_table_order(keys: Collection[Key], code: Callable[[Key], int]) -> list[Key]:
    slots = _SMALLEST_TABLE
    while 4 * len(keys) > _FULL_QUARTERS * slots:
        slots *= 2

    def slot(key: Key) -> int:
        whole = code(key)
        return (whole ^ (whole >> 16)) & (slots - 1)

    # Keys of one slot stay in the order in which they came.
    return sorted(keys, key=slot)


@lru_cache(maxsize=KEPT_HASHES)
def string_hash(text: str) -> int:
    """Java's hash code of a string, as an unsigned number of 32 bits."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        code = (31 * code + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return code


def uuid_hash(topic_id: uuid.UUID) -> int:
    """Kafka's hash code of an id, as an unsigned number of 32 bits."""
    halves = (topic_id.int >> 64) ^ topic_id.int
    return (halves >> 32 ^ halves) & 0xFFFFFFFF


def signed_order(topic_id: uuid.UUID) -> tuple[int, int]:
    """A sort key for ids that compares their halves as signed numbers, as Kafka does."""
    high, low = topic_id.int >> 64, topic_id.int & (1 << 64) - 1
    return high ^ _SIGN_BIT, low ^ _SIGN_BIT
