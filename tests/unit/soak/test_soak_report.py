"""The summary of a soak, its limits, and what the command refuses."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from towpath.cli.main import run
from towpath.soak.child import Child, ChildFailed
from towpath.soak.cluster import free_ports
from towpath.soak.plan import HANDLES_GROWTH_MAX, RSS_GROWTH_MAX_BYTES, Plan
from towpath.soak.process_size import ProcessSize, directory_bytes, size_of
from towpath.soak.report import BrokerSizes, Report

BEFORE = ProcessSize(100 << 20, 30)


def test_memory_and_files_may_grow_only_so_much() -> None:
    same = BrokerSizes(BEFORE, BEFORE, BEFORE)
    assert same.problems(1) == []
    larger = ProcessSize(BEFORE.rss_bytes + RSS_GROWTH_MAX_BYTES + 1, BEFORE.handles)
    assert "memory grew" in BrokerSizes(BEFORE, larger, larger).problems(1)[0]
    assert BrokerSizes(BEFORE, larger, BEFORE).problems(1) == [], "a peak that passed"
    more = ProcessSize(BEFORE.rss_bytes, BEFORE.handles + HANDLES_GROWTH_MAX + 1)
    assert "files stayed open" in BrokerSizes(BEFORE, more, more).problems(2)[0]


def test_the_report_says_whether_all_is_well() -> None:
    report = Report(acknowledged=1234, brokers=[BrokerSizes(BEFORE, BEFORE, BEFORE)])
    assert report.lines()[-1] == "everything adds up"
    assert report.to_dict()["good"] is True
    assert report.to_dict()["brokers"][0]["before"] == {"rss_bytes": 100 << 20, "handles": 30}
    report.problems.append("one is missing")
    assert "PROBLEM    one is missing" in report.lines()
    assert report.to_dict()["good"] is False


def test_plans_survive_the_way_between_processes() -> None:
    plan = Plan(3.0, brokers=5)
    assert Plan.from_dict(plan.to_dict()) == plan


def test_sizes_are_those_of_the_kernel(tmp_path: Path) -> None:
    assert size_of(os.getpid()).rss_bytes > 1 << 20
    assert size_of(os.getpid()).handles >= 3
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(bytes(1000))
    assert directory_bytes(tmp_path) == 1000


def test_ports_are_below_those_of_outgoing_connections() -> None:
    assert 20_000 <= free_ports(4) < 32_000


def test_a_client_that_breaks_is_noticed() -> None:
    child = Child("broken consumer", "consumer", {})
    try:
        with pytest.raises(ChildFailed, match="the broken consumer ended too early"):
            child.final(time.monotonic() + 60)
        assert child.wait_exit() == 1
        assert child.failure() == "the broken consumer ended with exit code 1"
    finally:
        child.end()


def test_a_directory_with_files_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").touch()
    assert run(["soak", "--minutes", "1", "--data-dir", str(tmp_path)]) == 2
    assert "wants a new or empty directory" in capsys.readouterr().err
