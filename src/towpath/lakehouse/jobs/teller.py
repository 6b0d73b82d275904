"""A worker tells the driver how far its job has come: now and then, and without waiting.

`runners/live.py` is who listens.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from typing import Final

from towpath.lakehouse.plan import Job, JobProgress

PAUSE_S: Final = 0.2


def encode(token: str, progress: JobProgress) -> bytes:
    """As it travels."""
    counts = f"{progress.record_count} {progress.file_count}"
    return f"{token} {progress.task_id} {progress.part} {counts}".encode("ascii")


def decode(token: str, data: bytes) -> JobProgress | None:
    """The inverse of `encode`; None for what is not of this run."""
    try:
        given, task_id, part, records, files = data.decode("ascii").split(" ")
        if not secrets.compare_digest(given, token):
            return None
        return JobProgress(task_id, int(records), int(files), int(part))
    except ValueError:
        return None


class Teller:
    """Tells what a job has written, to the address that the job names, if it names one."""

    def __init__(self, job: Job) -> None:
        self._task_id = job.task_id
        self._part = job.part
        self._port: socket.socket | None = None
        self._token = ""
        self._told_s = 0.0
        if job.progress_to is not None:
            # Whatever is wrong with the address, the job's work is not.
            with contextlib.suppress(OSError, ValueError):
                self._connect(job.progress_to)

    def wrote(self, record_count: int, file_count: int) -> None:
        """So many records and files are written by now."""
        if self._port is None or time.monotonic() - self._told_s < PAUSE_S:
            return
        self._told_s = time.monotonic()
        progress = JobProgress(self._task_id, record_count, file_count, self._part)
        with contextlib.suppress(OSError):
            self._port.send(encode(self._token, progress))

    def close(self) -> None:
        """Nothing more will be told."""
        port, self._port = self._port, None
        if port is not None:
            port.close()

    def _connect(self, address: str) -> None:
        self._token, number, host = address.split("@", 2)
        family, *_, target = socket.getaddrinfo(host, int(number), type=socket.SOCK_DGRAM)[0]
        self._port = socket.socket(family, socket.SOCK_DGRAM)
        self._port.setblocking(False)
        self._port.connect(target)
