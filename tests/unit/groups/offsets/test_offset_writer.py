"""The broker-wide write of commits: together, in order, never late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from tests.unit.groups.offsets.helpers_offsets import OffsetsRig, classic_group, offsets_rig
from tests.unit.helpers_topics import Fault, FaultyStore, until

from towpath.groups.offsets import writer
from towpath.kafka.errors import ErrorCode
from towpath.metadata.keys import groups as keys
from towpath.metadata.store import OutcomeUnknown

MEMBER: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 1}


@pytest.fixture(params=[True, False], ids=["conditions", "no-conditions"])
def store(request: pytest.FixtureRequest) -> type[FaultyStore]:
    """A kind of store: with conditions, or one that refuses them."""

    class WithoutConditions(FaultyStore):
        supports_conditions = False

        async def commit(self, domain, *, expect=(), **rest):  # type: ignore[no-untyped-def]
            if expect:
                raise ValueError("this store has no conditions")
            return await super().commit(domain, **rest)

    return FaultyStore if request.param else WithoutConditions


async def together(*commits: Awaitable[list[int]]) -> list[list[int]]:
    """The codes of commits that are sent at once."""
    return list(await asyncio.gather(*commits))


def offset_writes(rig: OffsetsRig) -> int:
    """How many writes there were to offsets."""
    return sum(verb == "commit" and "/offsets/" in key for verb, key in rig.store.calls)


async def test_all_that_waits_is_one_write() -> None:
    async with offsets_rig(topics={"a": 100}) as rig:
        for number in range(50):
            await rig.set_group(f"g{number}", classic_group(1, "m"))
        before = offset_writes(rig)
        codes = await together(
            *(rig.commit(f"g{n % 50}", {("a", n): n}, **MEMBER) for n in range(100))
        )
        assert codes == [[0]] * 100
        assert offset_writes(rig) - before == 1
        assert await rig.fetch("g7", None) == {("a", 7): 7, ("a", 57): 57}


async def test_large_commits_are_not_put_together_without_limit() -> None:
    async with offsets_rig(topics={"a": writer.WRITE_MAX_KEYS + 5}) as rig:
        await rig.set_group("g", classic_group(1, "m"))
        before = offset_writes(rig)
        large = {("a", n): n for n in range(writer.WRITE_MAX_KEYS + 5)}
        codes = await together(
            rig.commit("g", {("a", 0): 1}, **MEMBER), rig.commit("g", large, **MEMBER)
        )
        assert set(codes[1]) == {0}
        assert offset_writes(rig) - before == 2
        assert await rig.fetch("g", None) == large


async def test_commits_of_a_partition_keep_their_order(store: type[FaultyStore]) -> None:
    async with offsets_rig(store()) as rig:
        await rig.set_group("g", classic_group(1, "m"))
        codes = await together(
            *(rig.commit("g", {("a", 0): n}, **MEMBER) for n in (3, 1, 4, 1, 5, 9, 2, 6))
        )
        assert codes == [[0]] * 8
        assert await rig.fetch("g", None) == {("a", 0): 6}


async def test_a_refused_commit_does_not_stop_the_others(store: type[FaultyStore]) -> None:
    async with offsets_rig(store()) as rig:
        await rig.set_group("g", classic_group(1, "m"))
        stale: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 0}
        codes = await together(
            rig.commit("g", {("a", 0): 1}, **MEMBER),
            rig.commit("g", {("a", 0): 2}, **stale),
            rig.commit("simple", {("a", 0): 3}),
            rig.commit("absent", {("a", 0): 4}, **MEMBER),
        )
        assert codes == [[0], [ErrorCode.ILLEGAL_GENERATION], [0], [ErrorCode.GROUP_ID_NOT_FOUND]]
        assert await rig.fetch("g", None) == {("a", 0): 1}
        assert await rig.fetch("simple", None) == {("a", 0): 3}


async def test_a_late_commit_of_an_older_generation_is_never_written(
    store: type[FaultyStore],
) -> None:
    async with offsets_rig(store()) as one, offsets_rig(store(one.store.state)) as two:
        await one.set_group("g", classic_group(1, "m"))
        assert await one.commit("g", {("a", 0): 10}, **MEMBER) == [0]
        paused, resume = asyncio.Event(), asyncio.Event()

        async def pause() -> None:
            paused.set()
            await resume.wait()

        # The first broker has checked the commit and stops before it is written.
        for verb in ("commit", "put"):
            one.store.faults.append(Fault(verb, "/offsets/", action=pause))
        late = asyncio.create_task(one.commit("g", {("a", 0): 11}, **MEMBER))
        await paused.wait()
        # Meanwhile the partition goes to another member, which commits at the second broker.
        await two.set_group("g", classic_group(2, "n"))
        newer: dict[str, Any] = {"member_id": "n", "generation_id_or_member_epoch": 2}
        assert await two.commit("g", {("a", 0): 20}, **newer) == [0]
        one.store.faults.clear()
        resume.set()
        assert await late == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert await one.fetch("g", None) == await two.fetch("g", None) == {("a", 0): 20}


async def test_a_commit_is_checked_again_when_its_group_has_changed() -> None:
    async with offsets_rig() as one, offsets_rig(FaultyStore(one.store.state)) as two:
        await one.set_group("g", classic_group(1, "m"))
        await one.set_group("h", classic_group(1, "m"))
        for _ in range(3):
            one.store.faults.append(
                Fault(
                    "commit",
                    "/offsets/",
                    action=lambda: two.set_group("g", classic_group(1, "m", topics=["b"])),
                )
            )
        codes = await together(
            one.commit("g", {("a", 0): 1}, **MEMBER), one.commit("h", {("a", 0): 2}, **MEMBER)
        )
        assert codes == [[0], [0]]
        assert await one.fetch("g", None) == {("a", 0): 1}
        assert await one.fetch("h", None) == {("a", 0): 2}


async def test_a_group_that_never_rests_is_given_up_and_others_are_not() -> None:
    async with offsets_rig() as one, offsets_rig(FaultyStore(one.store.state)) as two:
        await one.set_group("g", classic_group(1, "m"))
        await one.set_group("h", classic_group(1, "m"))
        rounds = 0

        async def disturb() -> None:
            nonlocal rounds
            rounds += 1
            topics = ["b"] if rounds % 2 else ["a"]
            await two.set_group("g", classic_group(1, "m", topics=topics))
            one.store.faults.append(Fault("commit", "/groups/g/offsets/", action=disturb))

        one.store.faults.append(Fault("commit", "/groups/g/offsets/", action=disturb))
        codes = await together(
            one.commit("g", {("a", 0): 1}, **MEMBER), one.commit("h", {("a", 0): 2}, **MEMBER)
        )
        assert codes == [[ErrorCode.COORDINATOR_NOT_AVAILABLE], [0]]
        assert rounds == writer.ATTEMPTS_MAX


async def test_a_group_that_is_deleted_meanwhile_is_made_again(store: type[FaultyStore]) -> None:
    async with offsets_rig(store()) as one, offsets_rig(store(one.store.state)) as two:
        assert await one.commit("g", {("a", 0): 1, ("b", 0): 1}) == [0, 0]
        for verb in ("commit", "put"):
            one.store.faults.append(
                Fault(verb, "/offsets/", action=lambda: two.set_group("g", None))
            )
        assert await one.commit("g", {("a", 0): 2}) == [0]
        if one.store.supports_conditions:
            assert await two.fetch("g", None) == {("a", 0): 2}


async def test_an_unknown_outcome_is_told_and_not_repeated() -> None:
    async with offsets_rig() as rig:
        await rig.set_group("g", classic_group(1, "m"))
        before = offset_writes(rig)
        rig.store.faults.append(Fault("commit", "/offsets/", after=True, error=OutcomeUnknown("x")))
        codes = await rig.commit("g", {("a", 0): 1}, **MEMBER)
        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert offset_writes(rig) - before == 1


async def test_a_broker_that_was_taken_for_dead_writes_nothing() -> None:
    async with offsets_rig() as one, offsets_rig(FaultyStore(one.store.state), broker_id=2) as two:
        await one.set_group("g", classic_group(1, "m"))
        paused, resume = asyncio.Event(), asyncio.Event()

        async def pause() -> None:
            paused.set()
            await resume.wait()

        one.store.faults.append(Fault("commit", "/offsets/", action=pause))
        late = asyncio.create_task(one.commit("g", {("a", 0): 11}, **MEMBER))
        await paused.wait()
        queued = asyncio.create_task(one.commit("g", {("a", 0): 12}, **MEMBER))
        # The client gives up and goes to the second broker; the first one's session ends.
        assert await two.commit("g", {("a", 0): 20}, **MEMBER) == [0]
        (registered,) = [
            owner for key, owner in one.store.state._owners.items() if key.endswith("0000000001")
        ]
        one.store.state.end_session(registered)
        resume.set()
        assert await late == [ErrorCode.NOT_COORDINATOR]
        assert await queued == [ErrorCode.NOT_COORDINATOR]
        assert await two.fetch("g", None) == {("a", 0): 20}
        await until(lambda: one.cluster.registration() is not None)
        assert await one.commit("g", {("a", 0): 21}, **MEMBER) == [0]


async def test_commits_are_refused_while_the_queue_is_full_or_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer, "WAITING_MAX", 2)
    async with offsets_rig() as rig:
        codes = await together(*(rig.commit("g", {("a", 0): n}) for n in range(4)))
        full = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert codes == [[0], [0], full, full]
        waiting = asyncio.create_task(rig.commit("g", {("a", 0): 9}))
        await until(lambda: len(rig.released) == 5)
        await rig.offsets.close()
        assert await waiting == [0]
        assert await rig.commit("g", {("a", 0): 10}) == full


async def test_a_bug_in_a_check_is_told_and_the_next_ones_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with offsets_rig() as rig:
        with monkeypatch.context() as patched:

            async def broken(group_id: str) -> None:
                raise RuntimeError("a bug")

            patched.setattr(rig.groups, "view", broken)
            assert await rig.commit("g", {("a", 0): 1}) == [ErrorCode.UNKNOWN_SERVER_ERROR]
        assert await rig.commit("g", {("a", 0): 1}) == [0]


async def test_the_mark_tells_of_commits_from_outside_only() -> None:
    async with offsets_rig() as rig:
        await rig.set_group("g", classic_group(1, "m"))
        await rig.commit("g", {("a", 0): 1}, **MEMBER)
        await rig.commit("simple", {("a", 0): 1})
        found = await rig.store.keys_under(keys.offsets_prefix("g"))
        assert found == [keys.offset("g", "a", 0)]
        assert len(await rig.store.keys_under(keys.offsets_prefix("simple"))) == 2
