"""Sessions: a child that answers, fails, dies, hangs, or leaves children behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.errors import MeasurementFailed
from bench.shared.session import Session
from tests.integration.harness.process_tree import wait_until_gone

CHILD = """
import os, subprocess, sys, time
from bench.shared.answering import failure, next_question, take_stdout
answer = take_stdout()
print("this is no answer")
answer({"ready": True})
while (question := next_question()) is not None:
    match question["do"]:
        case "echo": answer({"echo": question["text"]})
        case "fail": answer(failure(ValueError("it cannot\\nbe done")))
        case "die": sys.exit("out of luck")
        case "hang": time.sleep(600)
        case "fork":
            child = subprocess.Popen(["sleep", "600"], start_new_session=True)
            answer({"pid": child.pid})
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the child's code, on the path of modules; the file of its log."""
    (tmp_path / "bench_compact_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "child.log"


def test_answers(child: Path) -> None:
    with Session("bench_compact_child", [], child) as session:
        assert session.answer() == {"ready": True}
        assert session.ask({"do": "echo", "text": "é\n"}) == {"echo": "é\n"}
        with pytest.raises(MeasurementFailed, match="ValueError: it cannot be done"):
            session.ask({"do": "fail"})
        assert session.ask({"do": "echo", "text": "again"}) == {"echo": "again"}
    assert "this is no answer" in child.read_text()


def test_death_is_told_with_its_last_words(child: Path) -> None:
    with Session("bench_compact_child", [], child) as session:
        session.answer()
        with pytest.raises(MeasurementFailed, match="out of luck"):
            session.ask({"do": "die"})
        with pytest.raises(MeasurementFailed):
            session.ask({"do": "echo", "text": ""})


def test_a_session_that_hangs_is_ended(child: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.shared.session.STOP_TIMEOUT_S", 0.05)
    with Session("bench_compact_child", [], child) as session:
        session.answer()
        with pytest.raises(MeasurementFailed, match="no answer"):
            session.ask({"do": "hang"}, timeout_s=0.05)


def test_no_child_is_left(child: Path) -> None:
    with Session("bench_compact_child", [], child) as session:
        session.answer()
        left = session.ask({"do": "fork"})["pid"]
    wait_until_gone([left])
