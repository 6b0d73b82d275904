"""Structured logs on stderr: for people (`console`) or one JSON object per line (`json`).

Lines written while a connection or request is being served carry its ids: whoever serves it binds
them once, in a context that asyncio carries into every task started from there.
"""

from __future__ import annotations

import logging
import re
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, TextIO, cast

import structlog

from towpath.observe.lossy_stream import LossyStream

if TYPE_CHECKING:
    from structlog.typing import Processor

LogFormat = Literal["console", "json"]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_NO_TRACE = "0" * 32


def configure(
    level: str = "info", log_format: LogFormat = "console", stream: TextIO | None = None
) -> None:
    """Set up structlog and the standard library's logging; may be called again."""
    lossy = LossyStream(sys.stderr if stream is None else stream)
    severity = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    final = _renderer(log_format, colors=lossy.isatty())
    structlog.configure(
        processors=[*shared, *final],
        wrapper_class=structlog.make_filtering_bound_logger(severity),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, lossy)),
        cache_logger_on_first_use=False,
    )
    _configure_standard_logging(severity, lossy, shared, final)


def _renderer(log_format: LogFormat, *, colors: bool) -> list[Processor]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [
        structlog.dev.ConsoleRenderer(
            colors=colors,
            timestamp_key="time",
            exception_formatter=structlog.dev.plain_traceback,
        )
    ]


def _configure_standard_logging(
    severity: int, stream: LossyStream, shared: list[Processor], final: list[Processor]
) -> None:
    """Libraries' lines take the same shape; below warnings they are noise."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(severity, logging.WARNING))


def connection_context(connection_id: int, peer: str) -> AbstractContextManager[None]:
    """Every line inside carries the connection's id and peer."""
    return structlog.contextvars.bound_contextvars(connection_id=connection_id, peer=peer)


def request_context(
    correlation_id: int, client_id: str | None, traceparent: str | None = None
) -> AbstractContextManager[None]:
    """Every line inside carries the request's correlation and client id, and its trace if any."""
    fields: dict[str, object] = {"correlation_id": correlation_id, "client_id": client_id}
    trace = trace_id(traceparent)
    if trace is not None:
        fields["trace_id"] = trace
    return structlog.contextvars.bound_contextvars(**fields)


def trace_id(traceparent: str | None) -> str | None:
    """The trace id of a W3C `traceparent`, or None if it is missing or malformed."""
    match = _TRACEPARENT.fullmatch(traceparent or "")
    return match[1] if match is not None and match[1] != _NO_TRACE else None
