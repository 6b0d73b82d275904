"""Listings of services that have an order of their own: sorted, bounded, complete."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from towpath.objects.sorted_listing import sorted_listing
from towpath.objects.store import ObjectInfo

NAMES = st.text("ab-.0é", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def info(path: str) -> ObjectInfo:
    return ObjectInfo(path, len(path), 1)


class Service:
    """Objects in reverse order; how many a listing of a whole tree may have."""

    def __init__(self, paths: set[str], limit: int) -> None:
        self._paths = sorted(paths, reverse=True)
        self._limit = limit
        self.asked: list[str] = []

    async def list_tree(self, prefix: str) -> Sequence[ObjectInfo] | None:
        self.asked.append(prefix)
        found = [info(path) for path in self._paths if path.startswith(prefix)]
        return found if len(found) <= self._limit else None

    async def list_level(self, prefix: str) -> Sequence[ObjectInfo]:
        found = set()
        for path in self._paths:
            if path.startswith(prefix):
                name, slash, _ = path[len(prefix) :].partition("/")
                found.add(prefix + name + slash)
        if prefix.endswith("/"):
            found.add(prefix)  # Services list a directory's own name, too.
        return [info(path) for path in sorted(found, reverse=True)]

    async def listed(self, prefix: str) -> list[str]:
        return [
            found.path async for found in sorted_listing(prefix, self.list_tree, self.list_level)
        ]


def without_directories(paths: set[str]) -> set[str]:
    """No object is another one's directory."""
    return {path for path in paths if not any(other.startswith(f"{path}/") for other in paths)}


@given(st.sets(PATHS, max_size=12).map(without_directories), st.integers(0, 12), PATHS, st.data())
async def test_every_object_in_order(
    paths: set[str], limit: int, other: str, data: st.DataObject
) -> None:
    whole = data.draw(st.sampled_from([*sorted(paths), other]))
    prefix = whole[: data.draw(st.integers(0, len(whole)))]
    expected = sorted(path for path in paths if path.startswith(prefix))
    assert await Service(paths, limit).listed(prefix) == expected


async def test_small_trees_are_asked_for_once() -> None:
    service = Service({"a/1", "a/2", "b/c/1", "b/c/2", "b/d"}, 3)
    assert await service.listed("b/") == ["b/c/1", "b/c/2", "b/d"]
    assert service.asked == ["b/"]
    assert len(await service.listed("")) == 5
    assert service.asked[1:] == ["", "a/", "b/"]


async def test_what_cannot_be_an_object_is_passed_over() -> None:
    service = Service({".towpath/tmp/x", "a//b", "a/", "a/x"}, 10)
    assert await service.listed("") == ["a/x"]
    assert await service.listed("a//") == []
