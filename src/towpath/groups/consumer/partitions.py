"""Sets of partitions of several topics, as members own them and assignments name them.

The mappings are never changed once made, so states share them freely. A topic without partitions is
never a key: two equal sets are equal mappings.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping

Partitions = Mapping[uuid.UUID, frozenset[int]]
"""Topic id to partition numbers."""

NO_PARTITIONS: Partitions = {}


def no_partitions() -> Partitions:
    """The empty set, as a default of fields."""
    return NO_PARTITIONS


def partitions_of(pairs: Iterable[tuple[uuid.UUID, Iterable[int]]]) -> Partitions:
    """The set that these topics and numbers make; a topic may come several times."""
    found: dict[uuid.UUID, frozenset[int]] = {}
    for topic_id, numbers in pairs:
        together = found.get(topic_id, frozenset()).union(numbers)
        if together:
            found[topic_id] = together
    return found


def in_order(partitions: Partitions) -> Iterator[tuple[uuid.UUID, list[int]]]:
    """Topics by id with ascending numbers: an order that does not depend on how a set was made."""
    for topic_id in sorted(partitions):
        yield topic_id, sorted(partitions[topic_id])


def each(partitions: Partitions) -> Iterator[tuple[uuid.UUID, int]]:
    """Every partition, in no promised order."""
    for topic_id, numbers in partitions.items():
        for number in numbers:
            yield topic_id, number


def count(partitions: Partitions) -> int:
    """How many partitions there are."""
    return sum(map(len, partitions.values()))


def common(left: Partitions, right: Partitions) -> Partitions:
    """The partitions of both."""
    return partitions_of(
        (topic_id, numbers & right[topic_id])
        for topic_id, numbers in left.items()
        if topic_id in right
    )


def without(left: Partitions, right: Partitions) -> Partitions:
    """The partitions of `left` that are not in `right`."""
    return partitions_of(
        (topic_id, numbers - right.get(topic_id, frozenset())) for topic_id, numbers in left.items()
    )


def together(left: Partitions, right: Partitions) -> Partitions:
    """The partitions of either."""
    return partitions_of([*left.items(), *right.items()])


def includes(whole: Partitions, part: Partitions) -> bool:
    """Whether every partition of `part` is in `whole`."""
    return all(numbers <= whole.get(topic_id, frozenset()) for topic_id, numbers in part.items())


def meet(left: Partitions, right: Partitions) -> bool:
    """Whether some partition is in both."""
    return any(
        not numbers.isdisjoint(right[topic_id])
        for topic_id, numbers in left.items()
        if topic_id in right
    )
