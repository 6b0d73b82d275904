"""The APIs of classic groups: what is refused, and what each version answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.groups.helpers_cluster import (
    GROUP,
    Broker,
    Fault,
    TalkingMember,
    World,
    in_virtual_time,
    stable_group,
)
from tests.unit.groups.helpers_other_kind import OtherKind

from towpath.groups.state import GroupState
from towpath.groups.step import Env, Outcome
from towpath.kafka.apis.delete_groups import handle_delete_groups
from towpath.kafka.apis.describe_groups import handle_describe_groups
from towpath.kafka.apis.group_support import GROUP_OPERATIONS
from towpath.kafka.apis.heartbeat import handle_heartbeat
from towpath.kafka.apis.join_group import handle_join_group
from towpath.kafka.apis.leave_group import handle_leave_group
from towpath.kafka.apis.list_groups import handle_list_groups
from towpath.kafka.apis.registry import APIS, RequestContext
from towpath.kafka.apis.sync_group import handle_sync_group
from towpath.kafka.codec import decode, encode
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.delete_groups import DeleteGroupsRequest
from towpath.kafka.codec.messages.describe_groups import DescribeGroupsRequest
from towpath.kafka.codec.messages.heartbeat import HeartbeatRequest
from towpath.kafka.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from towpath.kafka.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from towpath.kafka.codec.messages.list_groups import ListGroupsRequest
from towpath.kafka.codec.messages.sync_group import SyncGroupRequest
from towpath.metadata.keys import groups as keys
from towpath.metadata.store import StoreUnavailable

LONG_ID = "x" * (keys.SEGMENT_MAX_BYTES + 1)


def joining(group_id: str = GROUP, **fields: Any) -> JoinGroupRequest:
    settings: dict[str, Any] = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"m")],
        **fields,
    }
    return JoinGroupRequest(group_id=group_id, **settings)


async def join(broker: Broker, version: int = 9, **fields: Any) -> Any:
    return await handle_join_group(joining(**fields), broker.context(version))


def make_other(state: GroupState | None, env: Env) -> Outcome[None]:
    return Outcome(OtherKind(is_empty=False), None)


# Refusals


@pytest.mark.parametrize("group_id", ["", LONG_ID])
def test_group_ids_that_cannot_be(group_id: str) -> None:
    @in_virtual_time
    async def run(world: World) -> None:
        [broker] = await world.start()
        refused = ErrorCode.INVALID_GROUP_ID
        joined = await join(broker, group_id=group_id, member_id="m")
        assert (joined.error_code, joined.member_id) == (refused, "m")
        names: dict[str, Any] = {"protocol_type": "c", "protocol_name": "r"}
        requests: list[tuple[Any, Any, int]] = [
            (handle_sync_group, SyncGroupRequest(group_id=group_id, **names), 5),
            (handle_heartbeat, HeartbeatRequest(group_id=group_id), 4),
            (handle_leave_group, LeaveGroupRequest(group_id=group_id, member_id="m"), 0),
            (handle_leave_group, LeaveGroupRequest(group_id=group_id), 5),
        ]
        for handle, request, version in requests:
            answer = await handle(request, broker.context(version))
            assert answer.error_code == refused
        assert world.stored_keys() == []

    run()


@in_virtual_time
async def test_descriptions_and_deletions_take_the_empty_id_but_no_endless_one(
    world: World,
) -> None:
    [broker] = await world.start()
    ids = ["", LONG_ID]
    described: Any = await handle_describe_groups(
        DescribeGroupsRequest(groups=ids), broker.context(5)
    )
    errors = [group.error_code for group in described.groups]
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_GROUP_ID]
    deleted: Any = await handle_delete_groups(
        DeleteGroupsRequest(groups_names=ids), broker.context(2)
    )
    errors = [result.error_code for result in deleted.results]
    assert errors == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID]


@pytest.mark.parametrize("timeout_ms", [0, 5_999, 1_800_001])
def test_session_time_outs_have_limits(timeout_ms: int) -> None:
    @in_virtual_time
    async def run(world: World) -> None:
        [broker] = await world.start()
        answer = await join(broker, session_timeout_ms=timeout_ms)
        assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert world.stored_keys() == []

    run()


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_a_new_sync_names_its_protocol(missing: str) -> None:
    @in_virtual_time
    async def run(world: World) -> None:
        [broker] = await world.start()
        names: dict[str, Any] = {
            "protocol_type": "consumer",
            "protocol_name": "range",
            missing: None,
        }
        request = SyncGroupRequest(group_id=GROUP, member_id="m", **names)
        answer = await handle_sync_group(request, broker.context(5))
        assert answer is not None
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    run()


AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE


@in_virtual_time
async def test_a_store_that_is_away_is_told_so_that_clients_try_again(world: World) -> None:
    [broker] = await world.start()
    names: dict[str, Any] = {"protocol_type": "c", "protocol_name": "r"}
    requests: list[tuple[Any, Any, int]] = [
        (handle_join_group, joining("join"), 9),
        (handle_sync_group, SyncGroupRequest(group_id="sync", **names), 5),
        (handle_heartbeat, HeartbeatRequest(group_id="beat"), 4),
        (handle_leave_group, LeaveGroupRequest(group_id="leave"), 5),
    ]
    for handle, request, version in requests:
        go_away(broker, request.group_id)
        answer = await handle(request, broker.context(version))
        assert answer.error_code == AWAY


@in_virtual_time
async def test_tools_are_told_of_a_store_that_is_away(world: World) -> None:
    [broker] = await world.start()
    go_away(broker, "describe")
    described: Any = await handle_describe_groups(
        DescribeGroupsRequest(groups=["describe"]), broker.context(6)
    )
    assert described.groups[0].error_code == AWAY
    go_away(broker, "delete")
    deleted: Any = await handle_delete_groups(
        DeleteGroupsRequest(groups_names=["delete"]), broker.context(2)
    )
    assert deleted.results[0].error_code == AWAY
    await join(broker)
    go_away(broker, GROUP)
    listed: Any = await handle_list_groups(ListGroupsRequest(), broker.context(5))
    assert listed.error_code == AWAY


def go_away(broker: Broker, group_id: str) -> None:
    """Let the next look at a group fail."""
    broker.store.faults = [Fault("get", keys.state(group_id), StoreUnavailable("away"))]


# Versions


@pytest.mark.parametrize("version", range(10))
def test_every_version_of_join_and_its_answer(version: int) -> None:
    @in_virtual_time
    async def run(world: World) -> None:
        [broker] = await world.start()
        answer = await join(broker, version, session_timeout_ms=7_000)
        if version >= 4:
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            answer = await join(
                broker, version, member_id=answer.member_id, session_timeout_ms=7_000
            )
        assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 1)
        assert len(answer.members) == 1
        encoded = encode(answer, version)
        again = decode(type(answer), version, encoded)
        assert (again.member_id, again.protocol_name) == (answer.member_id, "range")
        row = world.state.get(keys.state(GROUP))
        assert row is not None
        [member] = keys.GroupRoot.decode(row.value).fields["members"]
        # The first version has no rebalance time-out of its own.
        assert member["rebalanceTimeoutMs"] == (7_000 if version == 0 else 60_000)
        assert (member["clientId"], member["clientHost"]) == ("c", "/127.0.0.1")

    run()


@pytest.mark.parametrize("version", range(10))
def test_refused_joins_can_be_told_in_every_version(version: int) -> None:
    @in_virtual_time
    async def run(world: World) -> None:
        [broker] = await world.start()
        answer = await join(broker, version, member_id="ghost")
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert decode(type(answer), version, encode(answer, version)).member_id == "ghost"

    run()


@in_virtual_time
async def test_a_client_without_an_id_gets_a_member_id_as_in_java(world: World) -> None:
    [broker] = await world.start()
    answer: Any = await handle_join_group(joining(), broker.context(9, None))
    assert answer.member_id.startswith("null-")


@in_virtual_time
async def test_leaving_in_old_and_new_versions(world: World) -> None:
    [broker] = await world.start()
    member = TalkingMember(broker)
    await stable_group([member])
    await member.crash()
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    old: Any = await handle_leave_group(
        LeaveGroupRequest(group_id=GROUP, member_id="ghost"), broker.context(0)
    )
    assert (old.error_code, old.members) == (unknown, [])
    new: Any = await handle_leave_group(
        LeaveGroupRequest(
            group_id=GROUP,
            members=[
                MemberIdentity(member_id="ghost"),
                MemberIdentity(member_id=member.member_id),
                MemberIdentity(group_instance_id="i"),
            ],
        ),
        broker.context(5),
    )
    assert new.error_code == ErrorCode.NONE
    assert [m.error_code for m in new.members] == [unknown, ErrorCode.NONE, unknown]
    assert [m.group_instance_id for m in new.members] == [None, None, "i"]
    none: Any = await handle_leave_group(LeaveGroupRequest(group_id=GROUP), broker.context(3))
    assert (none.error_code, none.members) == (ErrorCode.NONE, [])


# Descriptions and listings


@in_virtual_time
async def test_a_stable_group_is_described_in_full(world: World) -> None:
    [broker] = await world.start()
    members = [TalkingMember(broker, metadata=b"mine"), TalkingMember(broker, instance_id="i")]
    await stable_group(members)
    request = DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True)
    answer: Any = await handle_describe_groups(request, broker.context(6))
    [group] = answer.groups
    assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    assert group.authorized_operations == GROUP_OPERATIONS
    shown = {m.member_id: m for m in group.members}
    first, second = (shown[m.member_id] for m in members)
    assert (first.member_metadata, first.group_instance_id) == (b"mine", None)
    assert first.member_assignment == members[0].member_id.encode()
    assert (first.client_id, first.client_host) == ("c", "/127.0.0.1")
    assert second.group_instance_id == "i"


@in_virtual_time
async def test_a_group_that_rebalances_shows_no_metadata(world: World) -> None:
    [broker] = await world.start()
    staying = TalkingMember(broker)
    await stable_group([staying])
    await staying.crash()
    coming = asyncio.create_task(TalkingMember(broker).join())
    await asyncio.sleep(0.1)
    request = DescribeGroupsRequest(groups=[GROUP])
    answer: Any = await handle_describe_groups(request, broker.context(6))
    [group] = answer.groups
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [m.member_metadata for m in group.members] == [b"", b""]
    assert group.authorized_operations == -(2**31)
    coming.cancel()
    await asyncio.gather(coming, return_exceptions=True)


@pytest.mark.parametrize("version", [0, 5, 6])
def test_groups_that_are_not_there_or_not_classic_are_dead(version: int) -> None:
    @in_virtual_time
    async def run(world: World) -> None:
        [broker] = await world.start()
        await broker.groups.apply("other", make_other)
        request = DescribeGroupsRequest(groups=["nobody", "other"])
        answer: Any = await handle_describe_groups(request, broker.context(version))
        found = [(group.group_state, group.error_code) for group in answer.groups]
        missing = ErrorCode.GROUP_ID_NOT_FOUND if version == 6 else ErrorCode.NONE
        assert found == [("Dead", missing), ("Dead", missing)]
        messages = [group.error_message for group in answer.groups]
        if version == 6:
            assert messages == ["Group nobody not found.", "Group other is not a classic group."]
        else:
            assert messages == [None, None]

    run()


@in_virtual_time
async def test_listings_are_filtered_by_state_and_type(world: World) -> None:
    [broker] = await world.start()
    member = TalkingMember(broker)
    await stable_group([member])
    await join(broker, group_id="empty")
    await broker.groups.apply("other", make_other)

    async def listed(states: list[str], types: list[str]) -> list[str]:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        answer: Any = await handle_list_groups(request, broker.context(5))
        assert answer.error_code == ErrorCode.NONE
        return [group.group_id for group in answer.groups]

    assert await listed([], []) == ["empty", GROUP, "other"]
    assert await listed(["STABLE "], []) == [GROUP, "other"]
    assert await listed(["Empty"], []) == ["empty"]
    assert await listed(["stable"], ["Classic"]) == [GROUP]
    assert await listed([], ["consumer", "other"]) == ["other"]
    assert await listed(["nonsense"], []) == []
    assert await listed([], ["nonsense"]) == []
    answer: Any = await handle_list_groups(ListGroupsRequest(), broker.context(5))
    stable = next(group for group in answer.groups if group.group_id == GROUP)
    assert (stable.group_state, stable.group_type) == ("Stable", "classic")
    assert stable.protocol_type == "consumer"


@in_virtual_time
async def test_groups_are_deleted_with_their_offsets(world: World) -> None:
    [broker] = await world.start()
    member = TalkingMember(broker)
    await stable_group([member])
    await join(broker, group_id="empty")
    await broker.store.put(keys.offset("empty", "t", 0), b"offset")

    async def delete(*names: str) -> list[tuple[str, ErrorCode]]:
        request = DeleteGroupsRequest(groups_names=list(names))
        answer: Any = await handle_delete_groups(request, broker.context(2))
        return [(result.group_id, ErrorCode(result.error_code)) for result in answer.results]

    assert await delete(GROUP, "empty", "nobody", "empty") == [
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
        ("empty", ErrorCode.NONE),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    left = [key for key in world.stored_keys() if key.startswith("empty/")]
    assert left in ([], ["empty/lease"])
    assert await member.leave() is ErrorCode.NONE
    assert await delete(GROUP) == [(GROUP, ErrorCode.NONE)]
    assert await delete(GROUP) == [(GROUP, ErrorCode.GROUP_ID_NOT_FOUND)]


@in_virtual_time
async def test_a_request_that_waits_lets_the_connection_go_on(world: World) -> None:
    [broker] = await world.start()
    member = TalkingMember(broker)
    await stable_group([member])
    await member.crash()
    released: list[str] = []
    context = broker.context(3)
    context.release = lambda: released.append("join")
    waiting = asyncio.create_task(_join_in(context))
    await asyncio.sleep(0.1)
    assert released == ["join"]
    assert not waiting.done()
    await member.leave()
    answer = await waiting
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 2)


async def _join_in(context: RequestContext) -> Any:
    return await handle_join_group(joining(), context)


def test_only_waiting_ends_with_the_client() -> None:
    waiting = {key for key, api in APIS.items() if api.cancel_on_disconnect}
    assert {11, 14} <= waiting
    assert not waiting & {12, 13, 15, 16, 42}
