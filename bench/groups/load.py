"""The load generator: commits and heartbeats of raw members, in a process of its own.

It is asked in lines of JSON, see `main`.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import uvloop

from bench.groups.raw_classic import ClassicMember, form_classic, leave_classic
from bench.groups.raw_consumer import ConsumerMember, form_consumer, leave_consumer
from bench.groups.raw_first import firsts
from bench.groups.raw_member import COMMIT_VERSION, RawMember
from bench.groups.repeating import Count, Repeater, repeat
from bench.groups.rows import CLASSIC
from bench.groups.wire import WrongAnswer, answer_of
from bench.process_stats import cpu_seconds
from bench.shared.answering import failure, next_question, take_stdout
from towpath.kafka.codec.messages.offset_commit import OffsetCommitRequest

CLASSIC_INTERVAL_MS = 3_000
"""The clients' default."""
SETTLE_S = 1.0

Groups = list[list[RawMember]]


async def form(question: dict[str, Any]) -> Groups:
    """The groups that a question asks for, all stable."""
    make: Any = form_classic if question["protocol"] == CLASSIC else form_consumer
    port, name, topic = question["port"], question["name"], question["topic"]
    names = [f"{name}-{number}" for number in range(question["groups"])]
    return list(
        await asyncio.gather(*(make(port, one, question["members"], topic) for one in names))
    )


async def dissolve(groups: Groups) -> None:
    """All leave, so that nobody's session expires later."""
    for members in groups:
        classic = [member for member in members if isinstance(member, ClassicMember)]
        if classic:
            await leave_classic(classic)
        await leave_consumer([one for one in members if isinstance(one, ConsumerMember)])


async def commits(question: dict[str, Any]) -> Any:
    """Everybody commits as fast as it is answered, a partition of its own."""
    groups = await form(question)
    count, repeaters = Count(), []
    for number, member in enumerate(member for members in groups for member in members):
        frame = member.commit_frame(question["topic"], number)
        expected = await member.connection.ask_frame(frame)
        answer = answer_of(OffsetCommitRequest(), COMMIT_VERSION, expected)
        if answer.topics[0].partitions[0].error_code:
            raise WrongAnswer(f"OffsetCommit: {answer}")
        repeaters.append(Repeater(member, frame, expected, count))
    told = await repeat(repeaters, count, question)
    await dissolve(groups)
    return told


async def heartbeats(question: dict[str, Any]) -> Any:
    """Everybody sends heartbeats as fast as they are answered."""
    groups = await form(question)
    count, repeaters = Count(), []
    for member in (member for members in groups for member in members):
        frame = member.heartbeat_frame()
        repeaters.append(Repeater(member, frame, await stable_answer(member, frame), count))
    told = await repeat(repeaters, count, question)
    await dissolve(groups)
    return told


async def idle(question: dict[str, Any]) -> Any:
    """Everybody sends a heartbeat per interval; the CPU time of the broker meanwhile."""
    pids, seconds = question["pids"], question["seconds"]
    before_s, began = cpu_seconds(pids), time.monotonic()
    groups = await form(question)
    formed_s, forming_cpu_s = time.monotonic() - began, cpu_seconds(pids) - before_s
    members = [member for group in groups for member in group]
    interval_s = _interval_ms(members[0]) / 1000
    beats = [
        asyncio.create_task(beat_on(member, interval_s, interval_s * number / len(members)))
        for number, member in enumerate(members)
    ]
    await asyncio.sleep(interval_s + SETTLE_S)
    cpu_s, began = cpu_seconds(pids), time.monotonic()
    await asyncio.sleep(seconds)
    cores = (cpu_seconds(pids) - cpu_s) / (time.monotonic() - began)
    for task in beats:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*beats, return_exceptions=True)
    await dissolve(groups)
    return {"broker_cpu_cores": cores, "forming_s": formed_s, "forming_cpu_s": forming_cpu_s}


async def beat_on(member: RawMember, interval_s: float, delay_s: float) -> None:
    """Heartbeats at a steady pace until it is cancelled."""
    await asyncio.sleep(delay_s)
    frame = member.heartbeat_frame()
    expected = await stable_answer(member, frame)
    due = time.monotonic()
    while True:
        due += interval_s
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if await member.connection.ask_frame(frame) != expected:
            raise WrongAnswer("a heartbeat was answered otherwise than the last one")


async def stable_answer(member: RawMember, frame: bytes) -> bytes:
    """The answer to a heartbeat of a member in whose group nothing happens."""
    answer = await member.connection.ask_frame(frame)
    if not member.is_stable(answer):
        raise WrongAnswer(f"a heartbeat was answered {answer!r}")
    return answer


def _interval_ms(member: RawMember) -> int:
    return member.interval_ms if isinstance(member, ConsumerMember) else CLASSIC_INTERVAL_MS


KINDS = {"first": firsts, "commits": commits, "heartbeats": heartbeats, "idle": idle}


def main() -> None:
    """Answer questions until stdin ends."""
    answer = take_stdout()
    answer({"up": True})
    gc.disable()
    while (question := next_question()) is not None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                answer(runner.run(KINDS[question["do"]](question)))
        except Exception as error:  # noqa: BLE001 - the parent is told.
            answer(failure(error))
        gc.collect()


if __name__ == "__main__":
    main()
