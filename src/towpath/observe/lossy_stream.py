"""Log lines are the first thing to give up: a log that cannot be written must not stop anything."""

from __future__ import annotations

from typing import TextIO


class LossyStream:
    """Passes text on to a stream, and drops what it does not take.

    The log often lies on the disk that is full, or goes to a pipe whose reader has died, just when
    there is most to tell; the code that wanted to tell it has to go on.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.dropped = 0
        """How many writes were given up."""

    def write(self, text: str) -> int:
        """Write the text, or drop it; the length of the text in both cases."""
        try:
            self._stream.write(text)
        except (OSError, ValueError):
            # ValueError is what a closed stream raises.
            self.dropped += 1
        return len(text)

    def flush(self) -> None:
        """Flush what the stream takes."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self.dropped += 1

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()
