"""Arrays that are part of many answers, and are encoded once.

Metadata of a topic with hundreds of partitions takes a millisecond to make and to encode, and after
a broker's death every client asks for it, again and again, until it has a new leader.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

T = TypeVar("T")

MAY_BE_KEPT: Final = frozenset({"MetadataResponsePartition"})
"""Names of the structs whose arrays writers look at for this; the others are spared the look."""


class KeptArray(list[T]):
    """An array of structs that nobody changes any more. Writers keep its encoding in it."""

    __slots__ = ("encoded",)

    def __init__(self, elements: Iterable[T]) -> None:
        super().__init__(elements)
        self.encoded: dict[int, bytes] = {}
        """The elements, without their number, by version of the message."""
