"""Small damages of valid bytes, as values that hypothesis can shrink."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

INTERESTING = (
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\x7f\xff",
    b"\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\0\x0f\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
)
"""Bytes and numbers at which readers of lengths go wrong."""

PLACES = 1 << 16


class Damage(NamedTuple):
    """One change at a place, given as a share of the length."""

    kind: str
    place: int
    data: bytes

    def of(self, whole: bytes) -> bytes:
        """The damaged bytes."""
        at = self.place * len(whole) // PLACES
        if self.kind == "cut":
            return whole[:at]
        if self.kind == "insert":
            return whole[:at] + self.data + whole[at:]
        if self.kind == "remove":
            return whole[:at] + whole[at + len(self.data) :]
        if self.kind == "repeat":
            return whole[:at] + whole[at : at + 16] * 4 + whole[at + 16 :]
        return whole[:at] + self.data + whole[at + len(self.data) :]


def damages(most: int = 5) -> st.SearchStrategy[list[Damage]]:
    """Some damages, to be applied one after another."""
    data = st.one_of(st.sampled_from(INTERESTING), st.binary(min_size=1, max_size=8))
    kinds = st.sampled_from(["replace", "replace", "replace", "insert", "remove", "repeat", "cut"])
    return st.lists(st.builds(Damage, kinds, st.integers(0, PLACES - 1), data), max_size=most)


def damaged(whole: bytes, changes: list[Damage]) -> bytes:
    """The bytes after all changes."""
    for change in changes:
        whole = change.of(whole)
    return whole
