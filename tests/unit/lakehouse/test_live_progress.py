"""Workers tell the driver how far they are; nothing depends on it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.unit.lakehouse.helpers_jobs import some_job

from towpath.lakehouse.jobs import teller
from towpath.lakehouse.jobs.teller import Teller, decode, encode
from towpath.lakehouse.plan import JobProgress
from towpath.lakehouse.runners.live import listening

LOOPBACK = "127.0.0.1"


class Told(asyncio.Queue[JobProgress]):
    """What the driver was told, and where workers tell it."""

    address = ""


@pytest.fixture
async def told() -> AsyncIterator[Told]:
    seen, loop = Told(), asyncio.get_running_loop()
    with listening(loop, LOOPBACK, LOOPBACK, seen.put_nowait) as address:
        assert address is not None
        seen.address = address
        yield seen


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teller, "PAUSE_S", 0.0)


@pytest.mark.usefixtures("no_pause")
async def test_what_a_worker_tells_arrives(told: Told) -> None:
    worker = Teller(replace(some_job(3), progress_to=told.address))
    worker.wrote(5, 1)
    worker.wrote(9, 2)
    assert await told.get() == JobProgress("task-3", 5, 1)
    assert await told.get() == JobProgress("task-3", 9, 2)
    worker.close()
    worker.wrote(10, 2)
    assert told.empty()


async def test_a_worker_tells_it_now_and_then_only(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    worker = Teller(replace(some_job(), progress_to=told.address))
    for count in range(5):
        worker.wrote(count, 1)
    now_s[0] += teller.PAUSE_S
    worker.wrote(5, 1)
    monkeypatch.undo()
    assert [(await told.get()).record_count for _ in range(2)] == [0, 5]
    worker.close()


async def test_datagrams_of_strangers_are_not_shown(told: Told) -> None:
    token, port, _ = told.address.split("@")
    wanted = JobProgress("task-1", 1, 1, part=2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for data in (
            b"",
            b"\xff" * 2_000,
            encode("0" * 32, wanted),
            f"{token} task-1 many 1".encode(),
            f"{token} task-1 1".encode(),
            encode(token, wanted),
        ):
            stranger.sendto(data, (LOOPBACK, int(port)))
        assert await told.get() == wanted
    assert told.empty()
    assert decode(token, encode(token, wanted)) == wanted


@pytest.mark.parametrize(
    "address", [None, "", "a@b", "t@x@127.0.0.1", "t@1@no such host", "t@9@127.0.0.1"]
)
@pytest.mark.usefixtures("no_pause")
def test_a_job_goes_on_whatever_its_address_is(address: str | None) -> None:
    worker = Teller(replace(some_job(), progress_to=address))
    for count in range(3):
        worker.wrote(count, 1)
    worker.close()


async def test_without_a_port_nobody_is_told() -> None:
    loop = asyncio.get_running_loop()
    with listening(loop, "no such host", LOOPBACK, lambda progress: None) as address:
        assert address is None


async def test_the_port_is_given_back() -> None:
    loop = asyncio.get_running_loop()
    addresses: list[str | None] = []

    def use_it() -> None:
        with listening(loop, LOOPBACK, LOOPBACK, lambda progress: None) as address:
            addresses.append(address)

    thread = threading.Thread(target=use_it)
    thread.start()
    await asyncio.to_thread(thread.join)
    await asyncio.sleep(0)
    (address,) = addresses
    assert address is not None
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as again:
        again.bind((LOOPBACK, int(address.split("@")[1])))
