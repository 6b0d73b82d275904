"""Keeps the product's logs off the screen in a run, and turns its cries of bugs into findings."""

from __future__ import annotations

import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog
from tests.faults.simulation.journal import Journal

BUGS = frozenset(
    {
        "a handler failed",
        "flush broke",
        "unexpected failure",
        "handlers ignored being cancelled",
        "an order would delete an object in use",
        "committed object is missing or damaged",
        "cannot sweep a deleted topic",
        "retention skips a stream",
        "cannot judge a WAL object",
        "cannot read an order",
        "cannot read a staging marker",
    }
)
"""What the product logs only when it is broken itself."""


@contextmanager
def quiet_logs(journal: Journal) -> Iterator[None]:
    """Within this, log lines of the product are judged and dropped."""

    def judge(logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        text = str(event.get("event"))
        if text in BUGS:
            error = event.pop("exc_info", None)
            journal.fail(f"the product logged: {text} {dict(event)} {error!r}")
        raise structlog.DropEvent

    before = structlog.get_config()
    plain = logging.getLogger("towpath")
    level = plain.level
    structlog.configure(
        processors=[judge],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        cache_logger_on_first_use=False,
    )
    plain.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        plain.setLevel(level)
        structlog.configure(**before)
