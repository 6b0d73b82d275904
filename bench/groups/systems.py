"""The two brokers, with the same settings of groups."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.integration.harness.server_process import ServerProcess
from tests.integration.harness.towpath_process import TowpathProcess

from bench.groups.rows import HEARTBEAT_INTERVAL_S, SESSION_TIMEOUT_S
from bench.groups.scale import Scale
from bench.plan import rotated
from bench.shared.part import Context
from bench.shared.started import started
from bench.systems import KAFKA, TOWPATH, Kafka, System, Towpath

SESSION_MS, HEARTBEAT_MS = round(SESSION_TIMEOUT_S * 1000), round(HEARTBEAT_INTERVAL_S * 1000)
COMMON = {"group.initial.rebalance.delay.ms": "0"}
SHORT = {
    "group.consumer.min.session.timeout.ms": f"{SESSION_MS}",
    "group.consumer.session.timeout.ms": f"{SESSION_MS}",
    "group.consumer.min.heartbeat.interval.ms": f"{HEARTBEAT_MS}",
    "group.consumer.heartbeat.interval.ms": f"{HEARTBEAT_MS}",
}
"""Times of the consumer protocol as the classic protocol's members have them."""


class GroupsTowpath(Towpath):
    """`towpath up` with settings of groups."""

    def __init__(self, directory: Path, program: Path, settings: Mapping[str, str]) -> None:
        self._settings = {name.replace(".", "_"): value for name, value in settings.items()}
        super().__init__(directory, program)

    def _make_process(self) -> ServerProcess:
        return TowpathProcess(self._directory, settings=self._settings).process


class GroupsKafka(Kafka):
    """Apache Kafka with settings of groups."""

    def __init__(self, directory: Path, program: Path, settings: Mapping[str, str]) -> None:
        self.extra_properties = "".join(f"{name}={value}\n" for name, value in settings.items())
        super().__init__(directory, program)


@contextlib.contextmanager
def both(
    context: Context[Scale], name: str, settings: Mapping[str, str]
) -> Iterator[dict[str, System]]:
    """Both brokers by name, up while the context lasts; who comes first changes with the run."""
    directory = context.make_directory(name)
    settings = {**COMMON, **settings}
    made: dict[str, System] = {
        TOWPATH: GroupsTowpath(directory / TOWPATH, context.program, settings),
        KAFKA: GroupsKafka(directory / KAFKA, context.program, settings),
    }
    with contextlib.ExitStack() as stack:
        for system in made.values():
            stack.enter_context(started(system))
        yield {name: made[name] for name in rotated(list(made), context.run)}


def port_of(system: System) -> int:
    """Where it listens."""
    return system.process.ports[0]
