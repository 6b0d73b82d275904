"""Groups of 1, 3, 30 and 300 members while records are produced: members join, leave and crash, and
a broker is killed. Every record is processed at least once, no partition is had by two members of
one generation at once (see `Books` about the consumer protocol), and committed offsets never go
back.

`TOWPATH_TEST_PEER=kafka` plays the same on Apache Kafka, one broker that nobody kills.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from _pytest.mark import ParameterSet
from tests.integration.conftest import PEER
from tests.integration.crowds.crowd import Crowd, broker_settings, client_kind, crowd
from tests.integration.crowds.traffic import OffsetWatch, Traffic, watching
from tests.integration.harness.admin import create_topic, unique_name
from tests.integration.harness.kafka_peer import KafkaPeer
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until

BROKERS = 3
MEMBERS_PER_PROCESS_MAX = 50
SETTLE_TIMEOUT_S = 60.0
"""How long a group may take, besides a session time-out, until everybody has a share, or everything
is processed."""

SHORT_SESSION_MS = 6_000
LONG_SESSION_MS = 45_000
"""As clients have it by default. A death is noticed late, but 300 of them need it: where a broker
has vanished from the metadata, librdkafka 2.16 leaves threads behind that wake up each millisecond,
a hundred in all, and together they keep one of two cores busy from then on. The brokers that go on
meanwhile, and those that are started again, take up to 15 seconds to serve everybody."""


def scale(clients: str, members: int, *, slow: bool = True) -> ParameterSet:
    """A group, with the session time-out of its members."""
    session_timeout_ms = SHORT_SESSION_MS if members < 300 else LONG_SESSION_MS
    name, marks = f"{clients}-{members}", [pytest.mark.slow] if slow else []
    return pytest.param(session_timeout_ms, clients, members, id=name, marks=marks)


CLIENTS = ("range", "cooperative", "consumer", "aiokafka", "kafka-python")
SCALES = [
    scale("range", 1, slow=False),
    scale("consumer", 1, slow=False),
    *(scale(clients, members) for members in (3, 30, 300) for clients in CLIENTS),
]


@dataclass(frozen=True)
class Cluster:
    """Three brokers that `towpath up` starts again when they die, or one Kafka."""

    server: TowpathProcess | KafkaPeer
    session_timeout_ms: int


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """A cluster for members with the session time-out that is the fixture's parameter."""
    directory = tmp_path_factory.mktemp("crowd")
    settings = broker_settings(request.param)
    named = {name.replace(".", "_"): value for name, value in settings.items()}
    server = (
        KafkaPeer(directory, settings)
        if PEER == "kafka"
        else TowpathProcess(directory, brokers=BROKERS, settings=named)
    )
    try:
        server.start()
        yield Cluster(server, request.param)
    finally:
        print(server.process.log_tail())
        server.stop()


class Play:
    """One group and what happens to it."""

    def __init__(self, cluster: Cluster, group: Crowd, traffic: Traffic, members: int) -> None:
        self._server = cluster.server
        self._group = group
        self._traffic = traffic
        self._members = members
        self._timeout_s = SETTLE_TIMEOUT_S + cluster.session_timeout_ms / 1000

    def run(self) -> None:
        """Everything that can happen, one after the other."""
        self.everybody_joins()
        self.some_join_and_others_leave()
        self.a_process_crashes()
        self.a_broker_dies()
        self.all_is_processed(self._traffic.stop())

    def everybody_joins(self) -> None:
        processes = min(max(3, self._members // MEMBERS_PER_PROCESS_MAX), self._members)
        for number in range(processes):
            share = self._members // processes + (number < self._members % processes)
            self._group.add_process(share)
        self._group.wait_balanced(self._timeout_s)

    def some_join_and_others_leave(self) -> None:
        some = max(1, self._members // 10)
        self._group.add_process(some)
        self._group.wait_balanced(self._timeout_s)
        self._group.leave(self._group.processes[0], some)
        self._group.wait_balanced(self._timeout_s)

    def a_process_crashes(self) -> None:
        crashing = next(process for process in self._group.processes if process.members)
        self._group.add_process(1)
        self._group.wait_balanced(self._timeout_s)
        self._group.crash(crashing)
        self._group.wait_balanced(self._timeout_s)

    def a_broker_dies(self) -> None:
        if isinstance(self._server, KafkaPeer):
            return
        for index in range(BROKERS - 1):
            self._server.kill_broker(index)
            self.all_is_processed({p: set(o) for p, o in list(self._traffic.written.items())})
        self._group.wait_balanced(self._timeout_s)

    def all_is_processed(self, written: dict[int, set[int]]) -> None:
        books = self._group.books
        wait_until(
            lambda: not books.missing(written), "all records processed", timeout_s=self._timeout_s
        )


@pytest.mark.parametrize(("cluster", "clients", "members"), SCALES, indirect=["cluster"])
def test_members_come_and_go_and_nothing_is_left_out(
    cluster: Cluster, clients: str, members: int
) -> None:
    server = cluster.server
    partitions = max(12, members)
    topic = create_topic(server.bootstrap, partitions=partitions)
    name = unique_name("crowd")
    ports = [server.kafka_port + i for i in range(1 if server.is_kafka else BROKERS)]
    client = client_kind(clients, cluster.session_timeout_ms)
    with (
        watching(ports, name) as watch,
        crowd(server.bootstrap, name, topic, partitions, client) as group,
    ):
        traffic = Traffic(server.bootstrap, topic, partitions)
        Play(cluster, group, traffic, members).run()
        ends = {(topic, p): max(offsets) + 1 for p, offsets in traffic.written.items()}
        wait_until(lambda: watch.problems or watch.seen == ends, "everything committed")
        group.end()
        watch.look_again()
        check(group, watch)


def check(group: Crowd, watch: OffsetWatch) -> None:
    """What must be true in the end."""
    print(f"{watch.reads} reads, lost {group.books.lost}, errors {group.books.errors}")
    assert not watch.problems, watch.problems[:5]
    assert not group.books.problems(), group.books.problems()[:5]
    assert not group.books.lost, "members that were alive were put out of the group"
