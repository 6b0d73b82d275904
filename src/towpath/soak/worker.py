"""The child's side of a soak's clients: one JSON message per line, told on stdout, asked on stdin.

A child ends when its stdin does: then whoever started it is gone.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import Any

STDIN_FD = 0
STDIN_CHUNK_BYTES = 65_536
TELL_EVERY_S = 1.0


class Gone(Exception):
    """The parent has ended."""


class Parent:
    """Progress goes to it, requests come from it."""

    def __init__(self) -> None:
        self._buffer = b""
        self._next_tell_s = 0.0

    def ask(self, timeout_s: float | None = 0.0) -> dict[str, Any] | None:
        """The next request if there is one in time (None waits for ever); raises Gone."""
        while b"\n" not in self._buffer:
            if not select.select([STDIN_FD], [], [], timeout_s)[0]:
                return None
            chunk = os.read(STDIN_FD, STDIN_CHUNK_BYTES)
            if not chunk:
                raise Gone
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        asked: dict[str, Any] = json.loads(line)
        return asked

    def is_due(self) -> bool:
        """Whether it is time for the next progress."""
        now_s = time.monotonic()
        if now_s < self._next_tell_s:
            return False
        self._next_tell_s = now_s + TELL_EVERY_S
        return True

    def tell(self, message: dict[str, Any]) -> None:
        """Send one message."""
        print(json.dumps(message), flush=True)


class Stall:
    """The longest pause between two steps of something that should go on all the time."""

    def __init__(self) -> None:
        self._last_s: float | None = None
        self.longest_s = 0.0

    def moved(self) -> None:
        """It goes on, or has nothing to do."""
        now_s = time.monotonic()
        if self._last_s is not None:
            self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s


def arguments() -> dict[str, Any]:
    """What the parent gave on the command line."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given
