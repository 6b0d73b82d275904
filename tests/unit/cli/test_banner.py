"""The banner's lines, and the sizes that people read."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.cli.banner import Ready, banner_lines, show
from towpath.cli.describe_topics import human_size


def test_lines_to_copy_use_the_command_and_the_address() -> None:
    ready = Ready((("127.0.0.1", 9192), ("127.0.0.1", 9193)), ("127.0.0.1", 9464), Path("/d"))
    lines = dict(banner_lines(ready, "./towpath"))
    assert lines["kafka"] == "127.0.0.1:9192,127.0.0.1:9193"
    assert lines["http"].startswith("http://127.0.0.1:9464/metrics")
    assert lines["data"] == "/d"
    assert lines["write"] == (
        "echo 'hello' | ./towpath produce greetings --bootstrap 127.0.0.1:9192"
    )
    assert lines["read"] == (
        "./towpath consume greetings --from earliest --count 1 --bootstrap 127.0.0.1:9192"
    )


def test_the_default_port_needs_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    show(Ready((("127.0.0.1", 9092),), ("::1", 9464), Path("/d")))
    printed = capsys.readouterr().out
    assert "--bootstrap" not in printed
    assert "http://[::1]:9464/metrics" in printed
    assert "\x1b[" not in printed


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_572_864, "1.5 MiB"),
        (2**60, "1024.0 PiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert human_size(size) == text
