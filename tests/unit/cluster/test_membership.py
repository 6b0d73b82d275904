"""Registration of this broker, the view of the others, and what a lost session does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.helpers_topics import Fault, FaultyStore, until

from towpath.cluster import membership
from towpath.cluster.membership import BrokerIdInUse, Membership
from towpath.cluster.rendezvous import Rendezvous
from towpath.metadata.keys.cluster import BrokerRecord, broker
from towpath.metadata.memory import MemoryStore
from towpath.metadata.memory_state import MemoryState
from towpath.metadata.store import OutcomeUnknown, StoreUnavailable

TTL_MS = 200


def record(broker_id: int, started_at_ms: int = 1) -> BrokerRecord:
    return BrokerRecord(broker_id, "127.0.0.1", 9092 + broker_id, started_at_ms, "test")


@asynccontextmanager
async def running(
    store: FaultyStore, broker_id: int, lost: list[int] | None = None
) -> AsyncIterator[Membership]:
    member = Membership(
        store,
        "c",
        record(broker_id),
        session_ttl_ms=TTL_MS,
        on_session_lost=lambda: (lost if lost is not None else []).append(broker_id),
    )
    await member.start()
    try:
        yield member
    finally:
        await member.close()


def session_of(store: FaultyStore, broker_id: int) -> int:
    return store.state._owners[broker("c", broker_id)]


async def test_a_broker_registers_an_ephemeral_key_of_the_specified_form() -> None:
    store = FaultyStore()
    async with running(store, 3):
        found = await store.get("/dray/v1/cluster/c/brokers/0000000003")
        assert found is not None
        assert BrokerRecord.decode(found.value) == record(3)
        assert session_of(store, 3) is not None
    assert await store.get(broker("c", 3)) is None


async def test_brokers_see_each_other_come_and_go() -> None:
    state = FaultyStore().state
    async with running(FaultyStore(state), 2) as two:
        assert [b.broker_id for b in two.brokers()] == [2]
        assert two.controller() == 2
        async with running(FaultyStore(state), 1) as one:
            await two.refresh()
            assert [b.broker_id for b in two.brokers()] == [1, 2]
            assert [b.broker_id for b in one.brokers()] == [1, 2]
            assert one.controller() == two.controller() == 1
            expected = Rendezvous([1, 2])
            for stream in range(50):
                assert one.leader(stream) == two.leader(stream) == expected.owner(stream)
        await two.refresh()
        assert [b.broker_id for b in two.brokers()] == [2]
        assert {two.leader(stream) for stream in range(50)} == {2}


async def test_the_view_follows_without_a_refresh() -> None:
    state = FaultyStore().state
    async with running(FaultyStore(state), 1) as one, running(FaultyStore(state), 2):
        await until(lambda: len(one.brokers()) == 2)


async def test_a_broker_always_sees_itself() -> None:
    member = Membership(FaultyStore(), "c", record(4))
    assert [b.broker_id for b in member.brokers()] == [4]
    assert member.leader(1) == 4


async def test_the_id_of_a_live_broker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "EXPIRY_MARGIN_MS", 0)
    monkeypatch.setattr(membership, "POLL_MS", 10)
    state = FaultyStore().state
    async with running(FaultyStore(state), 1) as first:
        second = Membership(FaultyStore(state), "c", record(1, 2), session_ttl_ms=TTL_MS)
        with pytest.raises(BrokerIdInUse, match=r"broker id 1 is in use by the broker at 127"):
            await second.start()
        await first.refresh()
        assert [b.started_at_ms for b in first.brokers()] == [1]
        assert len(state._leases) == 1


async def test_a_restart_waits_for_the_killed_predecessors_key_to_expire() -> None:
    state = FaultyStore().state
    killed = FaultyStore(state)
    first = Membership(killed, "c", record(1), session_ttl_ms=TTL_MS)
    await first.start()
    assert first._keeper is not None
    first._keeper.cancel()
    killed.crash()
    store = FaultyStore(state)
    async with running(store, 1) as second:
        assert [b.broker_id for b in second.brokers()] == [1]
        assert session_of(store, 1) is not None


async def test_a_lost_session_is_told_once_and_replaced() -> None:
    store = FaultyStore()
    lost: list[int] = []
    async with running(store, 1, lost) as member:
        old = session_of(store, 1)
        store.state.end_session(old)
        await until(lambda: broker("c", 1) in store.state._owners)
        assert session_of(store, 1) != old
        assert lost == [1]
        assert [b.broker_id for b in member.brokers()] == [1]


async def test_a_deleted_key_is_put_back() -> None:
    store = FaultyStore()
    lost: list[int] = []
    async with running(store, 1, lost):
        await store.delete(broker("c", 1))
        await until(lambda: broker("c", 1) in store.state._owners)
        assert lost == [1]


async def test_a_broker_whose_id_was_taken_gets_it_back_when_it_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "POLL_MS", 1)
    store = FaultyStore()
    thief = FaultyStore(store.state)
    lost: list[int] = []
    async with running(store, 1, lost) as member:
        stolen = record(1, started_at_ms=9)
        store.state.end_session(session_of(store, 1))
        await thief.put(broker("c", 1), stolen.encode())
        await until(lambda: lost == [1])
        await member.refresh()
        assert [b.started_at_ms for b in member.brokers()] == [1]
        await thief.delete(broker("c", 1))
        await until(lambda: broker("c", 1) in store.state._owners)
        assert lost == [1]


@pytest.mark.parametrize("after", [True, False])
async def test_a_lost_answer_to_the_registration_is_settled_by_looking(after: bool) -> None:
    store = FaultyStore()
    fault = Fault("put", broker("c", 1), after=after, error=OutcomeUnknown("lost"))
    store.faults.append(fault)
    async with running(store, 1):
        assert await store.get(broker("c", 1)) is not None


async def test_a_registration_that_arrives_after_its_error_is_recognised() -> None:
    store = FaultyStore()

    async def arrive_late() -> None:
        """The put that failed arrives when the broker has looked for it in vain."""
        session = store._sessions[-1]
        store.faults.append(
            Fault(
                "get",
                "brokers/",
                after=True,
                action=lambda: MemoryStore.put(
                    store, broker("c", 1), record(1).encode(), session=session
                ),
            )
        )

    store.faults.append(Fault("put", "brokers/", error=OutcomeUnknown("x"), action=arrive_late))
    async with running(store, 1) as member:
        found = await store.get(broker("c", 1))
        assert found is not None
        assert found.version == member._own_version


async def test_the_keeper_survives_a_failing_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "POLL_MS", 1)
    state = FaultyStore().state
    store = FaultyStore(state)
    async with running(store, 1) as one:
        store.faults.append(Fault("scan", "/brokers/", error=StoreUnavailable("down")))
        async with running(FaultyStore(state), 2):
            await until(lambda: len(one.brokers()) == 2)


async def test_a_failed_start_leaves_nothing_behind() -> None:
    store = FaultyStore()
    store.faults.append(Fault("scan", "/brokers/", error=StoreUnavailable("down")))
    member = Membership(store, "c", record(1), session_ttl_ms=TTL_MS)
    with pytest.raises(StoreUnavailable):
        await member.start()
    assert await store.get(broker("c", 1)) is None


async def test_a_registration_of_another_release_is_left_out() -> None:
    store = FaultyStore()
    await store.put(broker("c", 7), b'{"version":9}')
    async with running(store, 1) as member:
        assert [b.broker_id for b in member.brokers()] == [1]


async def test_closing_twice_is_fine() -> None:
    store = FaultyStore()
    member = Membership(store, "c", record(1), session_ttl_ms=TTL_MS)
    await member.start()
    await member.close()
    await member.close()
    await asyncio.sleep(0)
    assert isinstance(store.state, MemoryState)
