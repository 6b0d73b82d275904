"""The child's side of a conversation in lines of JSON: a question on stdin, an answer on stdout."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

Answer = Callable[[dict[str, Any]], None]


def take_stdout() -> Answer:
    """Keep stdout for answers; whatever else is printed, also by children, goes to stderr."""
    own = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.set_inheritable(own.fileno(), False)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def answer(told: dict[str, Any]) -> None:
        own.write(json.dumps(told) + "\n")
        own.flush()

    return answer


def next_question() -> dict[str, Any] | None:
    """The next question; None when the parent has closed its end. Blocks."""
    line = sys.stdin.readline()
    if not line:
        return None
    question: dict[str, Any] = json.loads(line)
    return question


def failure(error: BaseException) -> dict[str, Any]:
    """An answer that tells what went wrong, in one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return {"error": text[:2000]}
