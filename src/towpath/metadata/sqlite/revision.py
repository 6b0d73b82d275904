"""One revision: the changes of one put, delete or commit, and its row in the `changes` table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from towpath.metadata.store import Change

_PUT = "+"
_DELETE = "-"
_SEPARATOR = "\0"
"""Keys hold no zero byte (`rules.check_key`)."""


@dataclass(frozen=True, slots=True)
class Revision:
    """The changes that became visible together as revision `number`.

    The version of every key put in a revision is its number.
    """

    number: int
    changes: tuple[Change, ...]

    @classmethod
    def of(cls, number: int, put_keys: Iterable[str], deleted_keys: Iterable[str]) -> Revision:
        """The revision that puts and deletes these keys."""
        puts = [Change(key, number) for key in put_keys]
        return cls(number, (*puts, *(Change(key, None) for key in deleted_keys)))

    def encode(self) -> str:
        """The keys as the feed stores them."""
        return _SEPARATOR.join(
            (_DELETE if change.version is None else _PUT) + change.key for change in self.changes
        )

    @classmethod
    def decode(cls, number: int, keys: str) -> Revision:
        """The inverse of `encode`."""
        return cls(
            number,
            tuple(
                Change(item[1:], number if item[0] == _PUT else None)
                for item in keys.split(_SEPARATOR)
            ),
        )
