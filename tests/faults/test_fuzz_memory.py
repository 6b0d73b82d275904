"""Hostile lengths and decompression bombs: memory stays under a named limit."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from tests.faults.fuzz.bombs import bombs
from tests.faults.fuzz.broker_rig import FuzzTransport, start_core
from tests.faults.fuzz.mutate import INTERESTING
from tests.faults.fuzz.targets import READABLE, TARGETS
from tests.integration.harness.towpath_process import REPOSITORY

from towpath.kafka.codec import MalformedMessage, decode
from towpath.kafka.services import KafkaSettings

pytestmark = pytest.mark.fuzz

HOSTILE_GROWTH_MAX_BYTES = 4 << 20
"""What a reader may allocate for some hundred bytes that claim to be millions."""
BOMB_BYTES = 256 << 20
BOMB_OUTPUT_MAX_BYTES = 16 << 20
BOMB_MEMORY_MAX_BYTES = 96 << 20
"""Address space that a child may add while it refuses bombs: the output's limit, as much again for
the step in which it is noticed, and the decoders' windows (zstd: 8 MiB and more per thread)."""


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes that Python had allocated at once during `work`."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pattern", INTERESTING, ids=bytes.hex)
def test_messages_full_of_hostile_lengths(pattern: bytes) -> None:
    data = pattern * (300 // len(pattern))

    def read(message: type, version: int) -> None:
        try:
            decode(message, version, data)
        except MalformedMessage:
            pass

    for message, version in READABLE:
        read(message, version)  # Compiles the reader, which is kept.
        peak = peak_of(partial(read, message, version))
        assert peak < HOSTILE_GROWTH_MAX_BYTES, (message.__name__, version)


@pytest.mark.parametrize("name", TARGETS)
def test_readers_of_hostile_lengths(name: str) -> None:
    for pattern in INTERESTING:
        for head in (b"", bytes(range(8)), b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"):
            data = head + pattern * (300 // len(pattern))
            assert peak_of(partial(TARGETS[name], data)) < HOSTILE_GROWTH_MAX_BYTES


async def test_frames_that_are_only_announced_take_no_more_than_the_process_may() -> None:
    settings = KafkaSettings(socket_request_max_bytes=8 << 20, process_inflight_max_bytes=32 << 20)
    core = await start_core(settings)
    transports = []
    tracemalloc.start()
    try:
        for _ in range(50):
            protocol, transport = core.server.accept(), FuzzTransport()
            transports.append((protocol, transport))
            protocol.connection_made(cast(asyncio.BaseTransport, transport))
            announced = (8 << 20).to_bytes(4, "big") + b"\0" * 10
            protocol.get_buffer(-1)[: len(announced)] = announced
            protocol.buffer_updated(len(announced))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(transport.paused for _, transport in transports) >= 40, "the others must wait"
    assert not any(transport.closed for _, transport in transports)
    assert peak < (32 + 8 + 4) << 20
    for protocol, _ in transports:
        protocol.connection_lost(None)
    await core.stop()


async def test_clients_that_announce_a_frame_and_leave_take_no_memory_with_them() -> None:
    core = await start_core(KafkaSettings(socket_request_max_bytes=8 << 20))
    announced = (8 << 20).to_bytes(4, "big") + b"\0" * 10

    def come_and_go() -> None:
        for _ in range(50):
            protocol, transport = core.server.accept(), FuzzTransport()
            protocol.connection_made(cast(asyncio.BaseTransport, transport))
            protocol.get_buffer(-1)[: len(announced)] = announced
            protocol.buffer_updated(len(announced))
            protocol.connection_lost(None)

    gc.disable()
    try:
        peak = peak_of(come_and_go)
    finally:
        gc.enable()
    assert peak < (8 << 20) + HOSTILE_GROWTH_MAX_BYTES
    await core.stop()


async def test_a_frame_beyond_the_limit_closes_without_allocating() -> None:
    core = await start_core(KafkaSettings())
    protocol, transport = core.server.accept(), FuzzTransport()
    protocol.connection_made(cast(asyncio.BaseTransport, transport))

    def announce() -> None:
        protocol.get_buffer(-1)[:4] = b"\x7f\xff\xff\xff"
        protocol.buffer_updated(4)

    assert peak_of(announce) < HOSTILE_GROWTH_MAX_BYTES
    assert transport.closed
    protocol.connection_lost(None)
    await core.stop()


def test_bombs_are_refused_within_memory(tmp_path: Path) -> None:
    made = bombs(BOMB_BYTES)
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    limits = BOMB_OUTPUT_MAX_BYTES, BOMB_MEMORY_MAX_BYTES
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.fuzz.bombs", str(tmp_path), *map(str, limits)],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines.keys() == made.keys()
    lies = {name for name in made if name.endswith("-lie")}
    assert {name for name, outcome in lines.items() if outcome == "too large"} >= made.keys() - lies
