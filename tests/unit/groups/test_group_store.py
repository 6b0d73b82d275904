"""Roots, blobs and deletions in the metadata store, with other brokers in between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.groups.helpers_cluster import (
    GROUP,
    KINDS,
    CountingStore,
    Fault,
    World,
    in_virtual_time,
)

from towpath.groups.classic.member import Member, Protocol
from towpath.groups.classic.state import ClassicGroup
from towpath.groups.packing import INLINE_MAX_BYTES, INLINE_TOTAL_MAX_BYTES
from towpath.groups.store import NOTHING, GroupDamaged, GroupStore, Stored
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.groups import DEAD, GroupRoot
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.store import StoreUnavailable, VersionConflict

LARGE = INLINE_MAX_BYTES + 1


def group_of(*contents: bytes, generation: int = 1) -> ClassicGroup:
    """A group whose members have this metadata."""
    members = [
        Member(f"m{i}", None, "c", "/h", 1, 1, (Protocol("range", content),))
        for i, content in enumerate(contents)
    ]
    return ClassicGroup(generation=generation, members={m.member_id: m for m in members})


def opened(world: World) -> tuple[CountingStore, GroupStore]:
    store = world.store()
    return store, GroupStore(store, KINDS)


def blobs(world: World) -> list[str]:
    return world.stored_keys(keys.blobs_prefix(GROUP))


async def saved(groups: GroupStore, old: Stored, state: ClassicGroup | None) -> Stored:
    """Save and collect as an actor does."""
    new = await groups.save(GROUP, old, state, f"w{old.version}")
    await groups.collect(GROUP, [name for name in old.blobs if name not in new.blobs])
    return new


@in_virtual_time
async def test_an_ordinary_group_is_one_key_and_one_write(world: World) -> None:
    store, groups = opened(world)
    state = group_of(b"a" * 100, b"b" * 100)
    stored = await saved(groups, NOTHING, state)
    assert world.stored_keys() == [f"{GROUP}/state"]
    assert sum(store.writes.values()) == 1
    loaded = await GroupStore(world.store(), KINDS).load(GROUP)
    assert (loaded.state, loaded.version) == (state, stored.version)


@in_virtual_time
async def test_what_is_large_becomes_blobs_that_are_shared_and_reused(world: World) -> None:
    store, groups = opened(world)
    one, two = b"1" * LARGE, b"2" * LARGE
    first = await saved(groups, NOTHING, group_of(one, one, b"small"))
    assert len(blobs(world)) == 1
    store.writes.clear()
    second = await saved(groups, first, group_of(one, two, b"small", generation=2))
    assert len(blobs(world)) == 2
    assert set(first.blobs) < set(second.blobs)
    third = await saved(groups, second, group_of(two, generation=3))
    assert blobs(world) == sorted(third.blobs)
    loaded = await GroupStore(world.store(), KINDS).load(GROUP)
    assert loaded.state == group_of(two, generation=3)
    # What is known is not read again.
    known = await groups.load(GROUP, third)
    assert known is third


@in_virtual_time
async def test_many_small_contents_do_not_make_a_large_root(world: World) -> None:
    _, groups = opened(world)
    contents = [bytes([i]) * INLINE_MAX_BYTES for i in range(50)]
    stored = await saved(groups, NOTHING, group_of(*contents))
    row = world.state.get(keys.state(GROUP))
    assert row is not None
    root = GroupRoot.decode(row.value)
    assert sum(map(len, root.inline)) <= INLINE_TOTAL_MAX_BYTES
    assert len(root.blobs) == 50 - len(root.inline)
    loaded = await GroupStore(world.store(), KINDS).load(GROUP)
    assert loaded.state == stored.state


@in_virtual_time
async def test_of_two_writers_one_wins_and_the_other_changes_nothing(world: World) -> None:
    _, one = opened(world)
    _, other = opened(world)
    base = await saved(one, NOTHING, group_of(b"x" * LARGE))
    won = await saved(one, base, group_of(b"y" * LARGE, generation=2))
    with pytest.raises(VersionConflict):
        await other.save(GROUP, base, group_of(b"z" * LARGE, generation=2), "late")
    loaded = await other.load(GROUP)
    assert (loaded.state, loaded.version) == (won.state, won.version)
    # The loser's blob is garbage, and a sweep knows it.
    assert len(blobs(world)) == 2
    assert await other.sweep(GROUP) == 1
    assert blobs(world) == sorted(won.blobs)


@in_virtual_time
async def test_a_sweep_leaves_a_writer_that_is_under_way_alone(world: World) -> None:
    store, groups = opened(world)
    base = await saved(groups, NOTHING, group_of(b"x" * LARGE))

    async def sweep() -> None:
        assert await GroupStore(world.store(), KINDS).sweep(GROUP) == 0

    store.faults = [Fault("put", keys.state(GROUP), action=sweep)]
    await saved(groups, base, group_of(b"x" * LARGE, b"y" * LARGE))
    assert (await GroupStore(world.store(), KINDS).load(GROUP)).state is not None


@in_virtual_time
async def test_two_first_writers_with_blobs(world: World) -> None:
    store, one = opened(world)
    _, other = opened(world)

    async def overtake() -> None:
        await saved(other, NOTHING, group_of(b"theirs" * LARGE))

    store.faults = [Fault("put", keys.state(GROUP), action=overtake)]
    with pytest.raises(VersionConflict):
        await one.save(GROUP, NOTHING, group_of(b"mine" * LARGE), "w")
    assert (await one.load(GROUP)).state == group_of(b"theirs" * LARGE)
    assert len(blobs(world)) == 1


@in_virtual_time
async def test_a_reservation_whose_writer_died_is_written_over(world: World) -> None:
    store, one = opened(world)
    store.faults = [Fault("commit", keys.blobs_prefix(GROUP), StoreUnavailable("died"))]
    with pytest.raises(StoreUnavailable):
        await one.save(GROUP, NOTHING, group_of(b"x" * LARGE), "w")
    _, other = opened(world)
    found = await other.load(GROUP)
    assert found.is_dead
    assert found.state is None
    await saved(other, found, group_of(b"y"))
    assert (await other.load(GROUP)).state == group_of(b"y")


@in_virtual_time
async def test_a_reader_that_is_overtaken_reads_again(world: World) -> None:
    store, reader = opened(world)
    _, writer = opened(world)
    base = await saved(writer, NOTHING, group_of(b"x" * LARGE))

    async def overtake() -> None:
        await saved(writer, base, group_of(b"y" * LARGE, generation=2))

    store.faults = [Fault("get", keys.blobs_prefix(GROUP), action=overtake)]
    assert (await reader.load(GROUP)).state == group_of(b"y" * LARGE, generation=2)


@in_virtual_time
async def test_a_blob_that_is_missing_is_told(world: World) -> None:
    store, groups = opened(world)
    stored = await saved(groups, NOTHING, group_of(b"x" * LARGE))
    await store.delete(keys.blob(GROUP, next(iter(stored.blobs))))
    with pytest.raises(GroupDamaged):
        await groups.load(GROUP)


@in_virtual_time
async def test_a_kind_that_is_not_known_is_told(world: World) -> None:
    store, groups = opened(world)
    await store.put(keys.state(GROUP), GroupRoot("share", "w").encode())
    with pytest.raises(UnknownValueVersion):
        await groups.load(GROUP)
    await store.put(keys.state(GROUP), GroupRoot("classic", "w", fields={"x": 1}).encode())
    with pytest.raises(UnknownValueVersion):
        await groups.load(GROUP)


# Deletion


async def put_offsets(store: CountingStore, count: int) -> None:
    for partition in range(count):
        await store.put(keys.offset(GROUP, "t", partition), b"offset")


@in_virtual_time
async def test_a_deleted_group_leaves_nothing_but_its_configs(world: World) -> None:
    store, groups = opened(world)
    stored = await saved(groups, NOTHING, group_of(b"x" * LARGE))
    await put_offsets(store, 1_201)
    await store.put(keys.config(GROUP), keys.GroupConfig({}).encode())
    dead = await groups.save(GROUP, stored, None, "w")
    assert dead.is_dead
    await groups.finish(GROUP, dead)
    assert world.stored_keys() == [f"{GROUP}/config"]
    assert await groups.load(GROUP) == NOTHING


@in_virtual_time
async def test_a_deletion_that_was_cut_short_is_finished_by_the_next_writer(world: World) -> None:
    store, groups = opened(world)
    stored = await saved(groups, NOTHING, group_of(b"x" * LARGE))
    await put_offsets(store, 3)
    await groups.save(GROUP, stored, None, "w")
    _, other = opened(world)
    found = await other.load(GROUP)
    assert found.state is None
    await saved(other, found, group_of(b"new", generation=7))
    assert world.stored_keys() == [f"{GROUP}/state"]


@in_virtual_time
async def test_a_deletion_that_was_cut_short_is_finished_by_a_sweep(world: World) -> None:
    store, groups = opened(world)
    stored = await saved(groups, NOTHING, group_of(b"x" * LARGE))
    await put_offsets(store, 3)
    await groups.save(GROUP, stored, None, "w")
    await GroupStore(world.store(), KINDS).sweep(GROUP)
    assert world.stored_keys() == []


@pytest.mark.parametrize("conditions", [True, False])
def test_a_late_purge_spares_the_offsets_of_the_group_s_successor(conditions: bool) -> None:
    @in_virtual_time
    async def run(world: World) -> None:
        store, slow = opened(world)
        other_store, other = opened(world)
        store.supports_conditions = other_store.supports_conditions = conditions
        stored = await saved(slow, NOTHING, group_of(b"x"))
        await put_offsets(store, 2)
        dead = await slow.save(GROUP, stored, None, "w")

        async def succeed() -> None:
            found = await other.load(GROUP)
            await saved(other, found, group_of(b"new", generation=9))
            await put_offsets(other_store, 3)

        verb = "commit" if conditions else "delete"
        store.faults = [Fault(verb, keys.offsets_prefix(GROUP), action=succeed)]
        await slow.finish(GROUP, dead)
        assert len(world.stored_keys(keys.offsets_prefix(GROUP))) == 3
        assert (await other.load(GROUP)).state == group_of(b"new", generation=9)

    run()


@in_virtual_time
async def test_deleting_what_is_not_there_changes_nothing(world: World) -> None:
    store, groups = opened(world)
    assert await groups.save(GROUP, NOTHING, None, "w") is NOTHING
    assert not store.writes


@in_virtual_time
async def test_blobs_without_a_root_are_garbage(world: World) -> None:
    store, groups = opened(world)
    await store.put(keys.blob(GROUP, keys.blob_name(5, b"x")), b"x")
    assert await groups.sweep(GROUP) == 1
    assert world.stored_keys() == []


@in_virtual_time
async def test_the_mark_of_a_root_tells_its_writer(world: World) -> None:
    _, groups = opened(world)
    stored = await groups.save(GROUP, NOTHING, group_of(b"x" * LARGE), "me")
    assert (await groups.load(GROUP)).writer == "me"
    again = await groups.save(GROUP, stored, replace(group_of(b"x"), generation=2), "you")
    assert again.writer == "you"
    dead = await groups.save(GROUP, again, None, "they")
    row = world.state.get(keys.state(GROUP))
    assert row is not None
    assert (GroupRoot.decode(row.value).kind, dead.writer) == (DEAD, "they")


@in_virtual_time
async def test_finishing_a_deletion_leaves_who_makes_the_group_anew_alone(world: World) -> None:
    store, groups = opened(world)
    old = await saved(groups, NOTHING, group_of(b"x" * LARGE))
    dead = await groups.save(GROUP, old, None, "w")

    async def finish() -> None:
        # Another broker has met the dead root as well.
        await GroupStore(world.store(), KINDS)._purge(GROUP, dead)

    store.faults = [Fault("put", keys.state(GROUP), action=finish)]
    new = await groups.save(GROUP, dead, group_of(b"y" * LARGE), "w")
    assert not store.faults
    assert (await GroupStore(world.store(), KINDS).load(GROUP)).state == new.state
    assert blobs(world) == sorted(new.blobs)
