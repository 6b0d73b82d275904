"""The adapter over OpenDAL: which failures it repeats, how often, and what it says at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import opendal
import pytest
from opendal import exceptions

from towpath.objects.opendal_store import (
    ATTEMPTS_MAX,
    PART_BYTES,
    WHOLE_MAX_BYTES,
    OpendalStore,
)
from towpath.objects.store import ObjectExists, ObjectStoreError
from towpath.runtime import inline_runtime

TEMPORARY = exceptions.Unexpected("Unexpected (temporary) at write => reset by peer\n\nContext:")
PERMANENT = exceptions.PermissionDenied("PermissionDenied (permanent) at write => no\n\nContext:")


class FailingOperator:
    """OpenDAL's memory service, behind failures given in advance: raised before or after a call."""

    def __init__(self, exclusive: bool = True) -> None:
        self.inner = opendal.AsyncOperator("memory")
        self.before: list[Exception] = []
        self.after: list[Exception] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.write_with_if_not_exists = exclusive
        self.write_can_multi = True

    def capability(self) -> FailingOperator:
        return self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*args: Any, **options: Any) -> Any:
            self.calls.append((name, options))
            if self.before:
                raise self.before.pop(0)
            answer = await getattr(self.inner, name)(*args, **options)
            if self.after:
                raise self.after.pop(0)
            return answer

        return call


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seen: list[float] = []

    async def sleep(seconds: float) -> None:
        seen.append(seconds)

    monkeypatch.setattr("towpath.objects.opendal_store.asyncio.sleep", sleep)
    return seen


def over(operator: FailingOperator, seed: int = 1) -> OpendalStore:
    return OpendalStore(cast(opendal.AsyncOperator, operator), inline_runtime(seed))


async def test_temporary_failures_are_repeated_with_growing_jittered_pauses(
    pauses: list[float],
) -> None:
    operator = FailingOperator()
    operator.before = [TEMPORARY, exceptions.RateLimited("slow down"), TEMPORARY]
    await over(operator).put("a", [b"12"])
    assert len(pauses) == 3
    for pause, base_ms in zip(pauses, (50, 100, 200), strict=True):
        assert 0.5 * base_ms <= pause * 1000 <= 1.5 * base_ms
    again = FailingOperator()
    again.before = [TEMPORARY] * 3
    await over(again).put("a", [b"12"])
    assert pauses[3:] == pauses[:3]  # The jitter comes from the injected randomness.


async def test_attempts_are_bounded(pauses: list[float]) -> None:
    operator = FailingOperator()
    operator.before = [TEMPORARY] * 100
    with pytest.raises(ObjectStoreError, match=r"cannot write a: Unexpected: reset by peer"):
        await over(operator).put("a", [b"12"])
    assert len(operator.calls) == ATTEMPTS_MAX


async def test_permanent_failures_are_not_repeated(pauses: list[float]) -> None:
    operator = FailingOperator()
    operator.before = [PERMANENT]
    with pytest.raises(ObjectStoreError, match="cannot stat a: PermissionDenied"):
        await over(operator).stat("a")
    assert (len(operator.calls), pauses) == (1, [])


async def test_a_repeated_put_recognises_its_own_object(pauses: list[float]) -> None:
    operator = FailingOperator()
    operator.after = [TEMPORARY]
    store = over(operator)
    await store.put("a", [b"mine"])
    assert bytes(await store.read("a", 0, 4)) == b"mine"


@pytest.mark.parametrize("theirs", [b"else", b"other size"])
async def test_a_repeated_put_does_not_take_another_object_for_its_own(
    pauses: list[float], theirs: bytes
) -> None:
    operator = FailingOperator()
    await operator.inner.write("a", theirs)
    operator.before = [TEMPORARY]
    with pytest.raises(ObjectExists):
        await over(operator).put("a", [b"mine"])
    assert await operator.inner.read("a") == theirs


async def test_the_condition_is_sent_only_where_the_service_knows_it() -> None:
    for exclusive in (True, False):
        operator = FailingOperator(exclusive)
        await over(operator).put("a", [b"1"])
        assert operator.calls == [("write", {"if_not_exists": True} if exclusive else {})]


async def test_large_objects_are_written_in_parts() -> None:
    operator = FailingOperator()
    await over(operator).put("a", [bytes(WHOLE_MAX_BYTES), b"1"])
    await over(operator).put("b", [bytes(WHOLE_MAX_BYTES)])
    (_, large), (_, small) = operator.calls
    assert (large["chunk"], large["if_not_exists"]) == (PART_BYTES, True)
    assert small == {"if_not_exists": True}
    assert (await operator.inner.stat("a")).content_length == WHOLE_MAX_BYTES + 1


async def test_a_listing_that_breaks_off_begins_again(pauses: list[float]) -> None:
    operator = FailingOperator()
    store = over(operator)
    await store.put("a/b", [b"12"])
    operator.before = [TEMPORARY]
    assert [(info.path, info.size_bytes) async for info in store.list("a/")] == [("a/b", 2)]
    assert len(pauses) == 1


async def test_cancellation_is_not_a_failure() -> None:
    operator = FailingOperator()
    operator.before = [TEMPORARY] * 3
    task = asyncio.create_task(over(operator).put("a", [b"1"]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
