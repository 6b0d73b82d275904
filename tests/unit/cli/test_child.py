"""Child processes: readiness, restarts, giving up, and clean stops."""

from __future__ import annotations

import asyncio
import errno
import io
import sys
from pathlib import Path

import pytest

from towpath.cli import child as child_module
from towpath.cli.child import Child, GivenUp

READY = (
    """print('{"ready": true, "kafka": ["127.0.0.1", 1], "http": ["127.0.0.1", 2]}', flush=True)"""
)
WAIT = "import sys; sys.stdin.read()"


def child(*statements: str) -> Child:
    return Child("broker 1", [sys.executable, "-c", "\n".join(statements)])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "BACKOFF_FIRST_SECONDS", 0.001)


async def test_a_child_tells_its_addresses_and_stops(capsys: pytest.CaptureFixture[str]) -> None:
    running = child("import sys; print('hello', file=sys.stderr)", "print('plain')", READY, WAIT)
    life = asyncio.create_task(running.keep_running())
    await running.ready.wait()
    assert (running.kafka, running.http) == (("127.0.0.1", 1), ("127.0.0.1", 2))
    running.stop()
    await life
    lines = capsys.readouterr().err.splitlines()
    assert "[broker 1] hello" in lines
    assert "[broker 1] plain" in lines


async def test_a_child_that_dies_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = tmp_path / "count"
    running = child(
        "import pathlib, sys",
        f"count = pathlib.Path({str(count)!r})",
        "first = not count.exists()",
        "count.touch()",
        READY,
        "if first: sys.exit(9)",
        "print('second life', flush=True)",
        WAIT,
    )
    complaints: list[str] = []
    second_life = asyncio.Event()
    monkeypatch.setattr(child_module, "complain", complaints.append)
    monkeypatch.setattr(running, "_print", lambda _: second_life.set())
    life = asyncio.create_task(running.keep_running())
    await second_life.wait()
    running.stop()
    await life
    assert complaints == ["broker 1 ended (exit code 9), restart in 0.001 s"]


async def test_a_child_that_never_was_ready_is_given_up() -> None:
    with pytest.raises(GivenUp, match=r"did not start \(exit code 3\)"):
        await child("import sys; sys.exit(3)").keep_running()


async def test_failures_in_a_row_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "RESTARTS_MAX", 1)
    with pytest.raises(GivenUp, match="failed 2 times in a row"):
        await child(READY).keep_running()


async def test_a_stop_during_the_pause_before_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "BACKOFF_FIRST_SECONDS", 3600.0)
    monkeypatch.setattr(child_module, "BACKOFF_MAX_SECONDS", 3600.0)
    running = child(READY)
    paused = asyncio.Event()
    monkeypatch.setattr(child_module, "complain", lambda _: paused.set())
    life = asyncio.create_task(running.keep_running())
    await paused.wait()
    running.stop()
    await life


async def test_overlong_lines_are_relayed_in_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    running = child("import sys; sys.stderr.write('x' * 200000 + '\\n')", READY, WAIT)
    life = asyncio.create_task(running.keep_running())
    await running.ready.wait()
    running.stop()
    await life
    text = capsys.readouterr().err
    assert text.count("x") == 200_000


async def test_a_child_is_kept_running_when_its_lines_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class FullDisk(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "no space left on device")

    running = child("import sys; print('lost', file=sys.stderr, flush=True)", READY, WAIT)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", FullDisk())
        life = asyncio.create_task(running.keep_running())
        await running.ready.wait()
        running.stop()
        await life
