"""Running a broker to its end: signals, failures, time-outs, and the supervisor's end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from towpath.cli import serve
from towpath.cli.errors import CliError
from towpath.config import Settings


class FakeBroker:
    """Keeps the contract of a broker and notes what was called."""

    start_error: Exception | None = None
    failure: Exception | None = None
    fails = False
    stop_forever = False
    kafka_address = ("127.0.0.1", 1)
    http_address = ("127.0.0.1", 2)

    def __init__(self, settings: Settings, index: int = 0) -> None:
        self.calls: list[str] = [f"broker {settings.broker_id(index)}"]

    async def start(self) -> None:
        if self.start_error is not None:
            raise self.start_error
        self.calls.append("start")

    async def stop(self) -> None:
        if self.stop_forever:
            await asyncio.Event().wait()
        self.calls.append("stop")

    async def wait_failed(self) -> None:
        if self.failure is not None:
            raise self.failure
        if not self.fails:
            await asyncio.Event().wait()


@pytest.fixture
def broker_type(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeBroker]]:
    class Broker(FakeBroker):
        pass

    module = types.ModuleType("towpath.broker")
    module.Broker = Broker  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "towpath.broker", module)
    yield Broker
    structlog.reset_defaults()


def settings(tmp_path: Path, **given: int) -> Settings:
    return Settings.model_validate({"data_dir": tmp_path, **given})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_cleanly(
    number: signal.Signals, broker_type: type[FakeBroker], tmp_path: Path
) -> None:
    seen: list[FakeBroker] = []

    def announce(broker: object) -> None:
        assert isinstance(broker, FakeBroker)
        seen.append(broker)
        os.kill(os.getpid(), number)

    assert serve.run(settings(tmp_path, node_id=7), 2, announce) == 0
    assert seen[0].calls == ["broker 9", "start", "stop"]


def test_a_failed_part_stops_the_broker(broker_type: type[FakeBroker], tmp_path: Path) -> None:
    broker_type.failure = RuntimeError("session lost")
    seen: list[object] = []
    with pytest.raises(CliError, match="the broker failed: session lost"):
        serve.run(settings(tmp_path), 0, seen.append)
    assert isinstance(seen[0], FakeBroker)
    assert seen[0].calls[-1] == "stop"
    broker_type.failure, broker_type.fails = None, True
    with pytest.raises(CliError, match="a background part ended"):
        serve.run(settings(tmp_path), 0, seen.append)


def test_a_start_that_fails_is_one_line(broker_type: type[FakeBroker], tmp_path: Path) -> None:
    broker_type.start_error = OSError(98, "Address already in use")
    with pytest.raises(CliError, match=r"cannot start: .*Address already in use"):
        serve.run(settings(tmp_path), 0, lambda _: None)


def test_a_stop_that_hangs_ends_the_process(
    broker_type: type[FakeBroker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker_type.stop_forever = True
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    number = signal.SIGTERM
    serve.run(
        settings(tmp_path, shutdown_timeout_ms=100), 0, lambda _: os.kill(os.getpid(), number)
    )
    assert codes == [1]


async def test_a_second_signal_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(os, "_exit", ended.set_result)
    stop = serve.StopRequest()
    stop.install()
    os.kill(os.getpid(), signal.SIGTERM)
    await stop.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    assert await ended == 143
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().remove_signal_handler(number)


async def test_the_end_of_the_supervisor_stops_its_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(serve, "STDIN_FD", reader)
    stop = serve.StopRequest()
    stop.watch_supervisor()
    os.close(writer)
    await stop.wait()
    os.close(reader)
