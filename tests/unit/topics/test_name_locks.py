"""Locks by name: exclusive per name, independent between names, gone when unused."""

from __future__ import annotations

import asyncio

import pytest

from towpath.topics.name_locks import NameLocks


async def test_holders_of_one_name_take_turns_and_other_names_do_not_wait() -> None:
    locks = NameLocks()
    log: list[str] = []

    async def work(name: str, tag: str) -> None:
        async with locks.hold(name):
            log.append(f"{tag} in")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            log.append(f"{tag} out")

    await asyncio.gather(work("a", "1"), work("a", "2"), work("b", "3"))
    assert log == ["1 in", "3 in", "1 out", "3 out", "2 in", "2 out"]
    assert len(locks) == 0


async def test_failures_and_cancelled_waiters_leave_no_lock_behind() -> None:
    locks = NameLocks()

    async def wait() -> None:
        async with locks.hold("a"):
            raise AssertionError("the lock was not held")

    async def fail() -> None:
        async with locks.hold("a"):
            waiter = asyncio.create_task(wait())
            await asyncio.sleep(0)
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
            assert len(locks) == 1
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert len(locks) == 0
