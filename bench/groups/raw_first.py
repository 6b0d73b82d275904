"""The first assignment without a client's own time: what the broker takes for it."""

from __future__ import annotations

import time
import uuid
from typing import Any

from bench.groups.raw_classic import ClassicMember, assignment, leave_classic
from bench.groups.raw_consumer import ConsumerMember
from bench.groups.rows import CLASSIC
from bench.groups.wire import WrongAnswer, connect
from towpath.kafka.codec.messages.find_coordinator import FindCoordinatorRequest

FIND_VERSION = 4


async def firsts(question: dict[str, Any]) -> dict[str, Any]:
    """Milliseconds of each first assignment of a new group over a new connection."""
    one = _classic if question["protocol"] == CLASSIC else _consumer
    total = question["warmups"] + question["repetitions"]
    found = [
        1000 * await one(question["port"], f"{question['name']}-{number}", question["topic"])
        for number in range(total)
    ]
    return {"times_ms": found[question["warmups"] :]}


async def _classic(port: int, group_id: str, topic: str) -> float:
    """Seconds from connecting until the assignment comes back to the member that made it."""
    began = time.perf_counter()
    member = ClassicMember(await connect(port), group_id, "")
    await _find(member)
    await member.join(topic)
    await member.join(topic)
    await member.sync({member.member_id: assignment(topic, 0)})
    seconds = time.perf_counter() - began
    await leave_classic([member])
    return seconds


async def _consumer(port: int, group_id: str, topic: str) -> float:
    """Seconds from connecting until the broker has assigned."""
    began = time.perf_counter()
    member = ConsumerMember(await connect(port), group_id, str(uuid.uuid4()))
    await _find(member)
    await member.join(topic)
    seconds = time.perf_counter() - began
    if not member.assigned:
        raise WrongAnswer("the first member was assigned nothing")
    await member.leave()
    return seconds


async def _find(member: ClassicMember | ConsumerMember) -> None:
    request = FindCoordinatorRequest(coordinator_keys=[member.group_id])
    await member.connection.ask_ready(
        request, FIND_VERSION, lambda answer: int(answer.coordinators[0].error_code)
    )
