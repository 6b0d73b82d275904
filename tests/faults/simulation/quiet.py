"""Keeps the product's logs off the screen in a run, and turns its cries of bugs into findings."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.ledger import Ledger

FILE_IN_USE = "an order would delete a file in use"
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
        "the index names other files than the table",
        FILE_IN_USE,
        "cannot carry out an order",
        "cannot read a compaction task",
        "committing offsets failed",
        "offsets of a group cannot be swept",
    }
)
"""What the product logs only when it is broken itself."""
FAILED = frozenset(
    {
        "collector round failed",
        "compaction waits",
        "a group cannot be read",
        "a group cannot be changed",
        "a group cannot be tended",
    }
)
"""What the product logs when a round failed, which it survives whatever the reason."""
UNEXPECTED = re.compile(
    r"\b(AssertionError|AttributeError|IndexError|KeyError|NameError|NotImplementedError"
    r"|RuntimeError|TypeError|ValueError|ZeroDivisionError|LogDamaged|CorruptBatch)\b"
    r"|names blobs that do not exist|damaged group|group of the unknown kind"
)
"""Reasons that no fault of the simulation gives."""


@contextmanager
def quiet_logs(journal: Journal, ledger: Ledger) -> Iterator[None]:
    """Within this, log lines of the product are judged and dropped."""

    def is_excused(event: MutableMapping[str, Any]) -> bool:
        # The table of a deleted topic is dropped without waiting for the sweep of its index.
        return event["event"] == FILE_IN_USE and ledger.is_of_deleted_topic(event["path"])

    def judge(logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        text = str(event.get("event"))
        if text in BUGS and not is_excused(event):
            error = event.pop("exc_info", None)
            journal.fail(f"the product logged: {text} {dict(event)} {error!r}")
        if text in FAILED and UNEXPECTED.search(str(event.get("error") or event.get("reason"))):
            journal.fail(f"the product logged: {text} {dict(event)}")
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
