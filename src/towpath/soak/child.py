"""The parent's side of a soak's clients: a process, its last message, and its books at the end."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import Any

END_TIMEOUT_S = 10.0


class ChildFailed(Exception):
    """A client process ended without telling its books."""


class Child:
    """One client process. Everything it tells is read by a thread of its own."""

    def __init__(self, name: str, module: str, given: dict[str, Any]) -> None:
        self.name = name
        self.last: dict[str, Any] = {}
        self._done = threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"towpath.soak.{module}", json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._thread = threading.Thread(target=self._listen, name=name, daemon=True)
        self._thread.start()

    def ask(self, request: dict[str, Any]) -> None:
        """Send a request; one to a process that has ended is dropped."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return

    def failure(self) -> str | None:
        """Why it has ended without its books; None while all is well."""
        if self._process.poll() is None or self._has_finished():
            return None
        return f"the {self.name} ended with exit code {self._process.returncode}"

    def final(self, deadline_s: float) -> dict[str, Any]:
        """Its books, waiting until `deadline_s` of the monotonic clock; raises ChildFailed."""
        if not self._done.wait(max(0.0, deadline_s - time.monotonic())):
            raise ChildFailed(f"the {self.name} did not finish in time; last: {self.last}")
        if "final" not in self.last:
            raise ChildFailed(f"the {self.name} ended too early; last: {self.last}")
        books: dict[str, Any] = self.last["final"]
        return books

    def wait_exit(self) -> int:
        """Its exit code, once it has ended by itself; soon after its last message."""
        return self._process.wait(END_TIMEOUT_S)

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait(END_TIMEOUT_S)
        self._thread.join(END_TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def _has_finished(self) -> bool:
        self._done.wait(END_TIMEOUT_S)
        return "final" in self.last

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.last = json.loads(line)
        self._done.set()
