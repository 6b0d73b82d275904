"""What a Spark session needs to know."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"
DRIVER_HOST = "spark.driver.host"
BIND_ADDRESS = "spark.driver.bindAddress"
STANDALONE = "spark://"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where Spark runs, what it may use, and when its memory is given back."""

    work_dir: Path
    """Every file that Spark writes goes here; processes may share it."""
    master: str = "local[*,4]"
    """Of a classic session. The 4 lets a task that lost its worker be tried again."""
    remote: str | None = None
    """The `sc://` address of a Spark Connect server; then `master` and what concerns the driver
    are the server's."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Spark's own settings, stronger than what is derived from these ones."""
    tasks: int | None = None
    """Tasks of a run; None: as many as Spark has cores."""
    driver_memory_mb: int = 512
    """The driver's heap; Spark refuses less than 450. The work itself is done in Python."""
    ui_port: int | None = 4040
    """Port of Spark's UI, or one of the next few if it is taken; None: no UI."""
    idle_stop_ms: int | None = 300_000
    """The session ends after so long without a run; None: it stays."""
    start_timeout_ms: int = 120_000
    """How long the driver's JVM may take until it answers."""
    stop_timeout_ms: int = 15_000
    """How long the driver's JVM may take to end before it is killed."""

    def __post_init__(self) -> None:
        """Spark's processes have other current directories than this one."""
        object.__setattr__(self, "work_dir", self.work_dir.absolute())

    @property
    def driver_hosts(self) -> tuple[str, str] | None:
        """The address that the driver and its UI bind, and the one by which executors call it; None
        where Spark itself has to find them."""
        told = self.conf.get(DRIVER_HOST) or (LOOPBACK if self.is_local else seen_by(self.master))
        return None if told is None else (self.conf.get(BIND_ADDRESS, told), told)

    @property
    def is_local(self) -> bool:
        """Whether the tasks run inside the driver's JVM and on this machine."""
        return self.remote is None and self.master.startswith("local")


def seen_by(master: str) -> str | None:
    """The address of this machine on the way to a standalone master, or to the first of several;
    None for other masters, and for one that cannot be found. Nothing is sent."""
    if not master.startswith(STANDALONE):
        return None
    try:
        first = urlsplit(master.split(",", 1)[0])
        family, *_, target = socket.getaddrinfo(
            first.hostname, first.port or 7077, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return None
