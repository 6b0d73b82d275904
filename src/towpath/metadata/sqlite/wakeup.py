"""Wake-ups between the processes of one database: a datagram after each commit.

They are a hint: whoever misses one finds the change at its next poll. So nothing here ever fails a
commit, and a process that cannot have a socket lives without.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)

MAX_SOCKET_PATH_BYTES = 107
"""The kernel's 108 bytes less the final zero."""
_SUFFIX = ".sock"
_MTIME_GRAIN_NS = 100_000_000
"""A directory changed twice within this time may show the same time of change."""


def runtime_directory(database: Path) -> Path:
    """The short directory that holds the sockets of a database's processes."""
    digest = hashlib.sha256(os.fsencode(database.resolve())).hexdigest()[:12]
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.path.isdir(base):
        base = tempfile.gettempdir()
    return Path(base) / f"towpath-{os.getuid()}-{digest}"


class Wakeup:
    """This process's socket, and the sending to those of others."""

    def __init__(self, directory: Path, name: str) -> None:
        """`name` must be unique among the processes, and short."""
        self._directory = directory
        self._path = directory / f"{name}{_SUFFIX}"
        self._others: list[str] = []
        self._listed_at_ns = -1
        """The time of the directory's change at which `_others` was read; -1 if too fresh."""
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def listen(self, callback: Callable[[], None]) -> None:
        """Call back on the running loop when another process has committed."""
        try:
            self._socket = self._bind()
        except OSError as error:
            logger.warning("no wake-ups at %s, polling only: %s", self._path, error)
            return
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._received, callback)

    def notify(self) -> None:
        """Wake the other processes. May be called on any thread; never blocks nor raises."""
        sender = self._socket
        if sender is None:
            return
        try:
            others = self._list_others()
        except OSError:
            return
        for path in others:
            self._send(sender, path)

    def close(self) -> None:
        """Stop listening and remove the socket. The writer must have stopped."""
        if self._socket is None:
            return
        if self._loop is not None:
            self._loop.remove_reader(self._socket)
        try:
            self._path.unlink(missing_ok=True)
            self.notify()  # Removes what killed processes left, so that the directory may go.
            self._directory.rmdir()
        except OSError:
            pass  # Others still have their sockets there.
        self._socket.close()
        self._socket = None

    def _list_others(self) -> list[str]:
        """The other processes' sockets; the directory is read only when it has changed."""
        changed_at_ns = os.stat(self._directory).st_mtime_ns
        if changed_at_ns != self._listed_at_ns:
            is_settled = time.time_ns() - changed_at_ns > _MTIME_GRAIN_NS
            self._others = [
                os.fspath(self._directory / name)
                for name in os.listdir(self._directory)
                if name != self._path.name and name.endswith(_SUFFIX)
            ]
            self._listed_at_ns = changed_at_ns if is_settled else -1
        return self._others

    def _bind(self) -> socket.socket:
        if len(os.fsencode(self._path)) > MAX_SOCKET_PATH_BYTES:
            raise OSError(f"the socket path has more than {MAX_SOCKET_PATH_BYTES} bytes")
        self._directory.mkdir(mode=0o700, exist_ok=True)
        status = os.lstat(self._directory)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise OSError(f"{self._directory} belongs to somebody else")
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.chmod(self._directory, 0o700)
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            receiver.bind(os.fspath(self._path))
        except OSError:
            receiver.close()
            raise
        return receiver

    def _received(self, callback: Callable[[], None]) -> None:
        assert self._socket is not None
        try:
            while self._socket.recv(16):
                pass
        except OSError:
            pass  # Nothing more is there: one call answers all that came.
        callback()

    @staticmethod
    def _send(sender: socket.socket, path: str) -> None:
        try:
            sender.sendto(b"\1", path)
        except ConnectionRefusedError:
            # Its process died without removing it.
            try:
                os.unlink(path)
            except OSError:
                pass
        except OSError:
            pass  # Its queue is full, so it will wake up anyway; or it has just gone.
