"""What is shown while a round runs and when it has ended."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import structlog
from structlog.testing import capture_logs
from tests.unit.lakehouse.helpers_jobs import some_job

from towpath.cli.compaction_progress import LoggedProgress, RoundProgress, Tally
from towpath.cli.compaction_report import show_summary
from towpath.cli.output import Output
from towpath.lakehouse.plan import JobProgress, JobResult, ParquetFile
from towpath.lakehouse.rounds import RoundSummary

FILE = ParquetFile("a.parquet", 10, 1, 10, 10, 19, 0, 0)


def test_bytes_follow_the_share_of_the_offsets() -> None:
    tally = Tally()
    tally.planned([some_job(0, 1_000), some_job(1, 500), replace(some_job(2, 70), topic="views")])
    assert tally.total_bytes == {"clicks": 1_500, "views": 70}
    tally.advanced(JobProgress("task-0", 5, 1))
    assert tally.of_topic("clicks") == (500, 5, 1)
    tally.advanced(JobProgress("task-1", 10, 2))
    assert tally.of_topic("clicks") == (1_000, 15, 3)
    assert tally.of_topic("views") == (0, 0, 0)


def test_an_attempt_that_begins_again_takes_nothing_back() -> None:
    tally = Tally()
    tally.planned([some_job(0, 1_000)])
    tally.advanced(JobProgress("task-0", 8, 2))
    tally.advanced(JobProgress("task-0", 1, 1))
    assert tally.of_topic("clicks") == (800, 8, 2)
    tally.ended(JobResult("task-0", (FILE,), 10, 1_000))
    assert tally.of_topic("clicks") == (1_000, 10, 1)


def test_the_parts_of_a_cut_job_add_up() -> None:
    tally = Tally()
    tally.planned([some_job(0, 1_000)])
    tally.advanced(JobProgress("task-0", 2, 1))
    tally.advanced(JobProgress("task-0", 4, 1, part=1))
    tally.advanced(JobProgress("task-0", 3, 1))
    assert tally.of_topic("clicks") == (700, 7, 2)


def test_jobs_of_other_rounds_are_ignored() -> None:
    tally = Tally()
    tally.planned([some_job(0, 1_000)])
    tally.advanced(JobProgress("task-9", 8, 2))
    tally.ended(JobResult("task-9", (FILE,), 10, 1_000))
    assert tally.of_topic("clicks") == (0, 0, 0)


def test_a_terminal_shows_a_bar_that_moves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    with RoundProgress() as progress:
        progress.planned([some_job(0, 2_000_000)])
        progress.advanced(JobProgress("task-0", 5, 1))
        (bar,) = progress._display.tasks  # type: ignore[union-attr]
        assert (bar.completed, bar.total, bar.fields["rows"]) == (1_000_000, 2_000_000, 5)
        progress.ended(JobResult("task-0", (FILE,), 10, 2_000_000))
    shown = capsys.readouterr().err
    assert "clicks" in shown
    assert "10 rows, 1 files" in shown


def test_a_service_logs_a_long_round_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    structlog.reset_defaults()
    progress = LoggedProgress()
    with capture_logs() as lines:
        progress.planned([some_job(0, 10_000_000)])
        progress.advanced(JobProgress("task-0", 1, 1))
        now_s[0] += 10.0
        progress.advanced(JobProgress("task-0", 5, 1))
        progress.advanced(JobProgress("task-0", 6, 1))
    (line,) = lines
    assert line["event"] == "compacting"
    assert (line["records"], line["input_bytes"], line["of_bytes"]) == (5, 5_000_000, 10_000_000)
    assert line["mb_per_second"] == 0.5


@pytest.mark.parametrize("more", [True, False])
def test_a_round_says_whether_more_is_waiting(
    more: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    show_summary(RoundSummary(more=more), 1.0, Output.TABLE)
    assert ("run it again" in capsys.readouterr().err) is more
