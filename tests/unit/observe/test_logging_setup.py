"""Log lines: forms, levels and the ids of connections and requests."""

from __future__ import annotations

import errno
import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from towpath.observe.logging import (
    LogFormat,
    configure,
    connection_context,
    request_context,
    trace_id,
)


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_lines_carry_the_ids() -> None:
    stream = io.StringIO()
    configure("info", "json", stream)
    log = structlog.get_logger()
    parent = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
    with connection_context(7, "127.0.0.1:5"), request_context(42, "me", parent):
        log.info("served", api="Fetch")
    log.info("after")
    served, after = lines(stream)
    expected = {"connection_id": 7, "correlation_id": 42, "client_id": "me", "api": "Fetch"}
    assert expected.items() <= served.items()
    assert served["trace_id"] == "ab" * 16
    assert served["level"] == "info"
    assert str(served["time"]).endswith("Z")
    assert "connection_id" not in after


def test_level_filters_and_libraries_take_the_same_shape() -> None:
    stream = io.StringIO()
    configure("warning", "json", stream)
    structlog.get_logger().info("quiet")
    logging.getLogger("library").info("quiet")
    logging.getLogger("library").warning("loud %d", 1)
    (line,) = lines(stream)
    assert line["event"] == "loud 1"
    assert line["logger"] == "library"


def test_console_lines_and_errors() -> None:
    stream = io.StringIO()
    configure("debug", "console", stream)
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger().exception("failed", topic="t")
    text = stream.getvalue()
    assert "failed" in text
    assert "topic=t" in text
    assert "ValueError: broken" in text
    assert "\x1b[" not in text


class FullDisk(io.StringIO):
    """A log file on a disk without room."""

    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().write(text)


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_log_that_cannot_be_written_stops_nobody(form: LogFormat) -> None:
    stream = FullDisk()
    configure("info", form, stream)
    structlog.get_logger().warning("lost")
    logging.getLogger("library").warning("lost")
    stream.full = False
    structlog.get_logger().warning("written")
    assert "written" in stream.getvalue()
    assert "lost" not in stream.getvalue()
    stream.close()
    structlog.get_logger().warning("after the end")


@pytest.mark.parametrize(
    "traceparent", [None, "", "x", "00-" + "0" * 32 + "-" + "1" * 16 + "-01", "00-ab-cd-01"]
)
def test_malformed_traces_are_ignored(traceparent: str | None) -> None:
    assert trace_id(traceparent) is None
