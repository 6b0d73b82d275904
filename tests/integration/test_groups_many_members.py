"""Groups of 1, 3, 30 and 300 members while records are produced: members join, leave and crash, and
a broker is killed. Every record is processed at least once, no partition is had by two members of
one generation at once, and committed offsets never go back.

`TOWPATH_TEST_PEER=kafka` plays the same on Apache Kafka, one broker that nobody kills.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.conftest import PEER
from tests.integration.crowds.crowd import BROKER_SETTINGS, PROTOCOLS, Crowd, crowd
from tests.integration.crowds.traffic import OffsetWatch, Traffic, watching
from tests.integration.harness.admin import create_topic, unique_name
from tests.integration.harness.kafka_peer import KafkaPeer
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until

BROKERS = 3
MEMBERS_PER_PROCESS_MAX = 50
PROCESSED_TIMEOUT_S = 60.0

SCALES = [
    pytest.param("range", 1),
    pytest.param("range", 3, marks=pytest.mark.slow),
    pytest.param("cooperative", 3, marks=pytest.mark.slow),
    pytest.param("consumer", 3, marks=pytest.mark.slow),
    pytest.param("range", 30, marks=pytest.mark.slow),
    pytest.param("cooperative", 30, marks=pytest.mark.slow),
    pytest.param("consumer", 1),
    pytest.param("consumer", 30, marks=pytest.mark.slow),
    pytest.param("range", 300, marks=pytest.mark.slow),
    pytest.param("consumer", 300, marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TowpathProcess | KafkaPeer]:
    """Three brokers that `towpath up` starts again when they die, or one Kafka."""
    directory = tmp_path_factory.mktemp("crowd")
    named = {name.replace(".", "_"): value for name, value in BROKER_SETTINGS.items()}
    server = (
        KafkaPeer(directory, BROKER_SETTINGS)
        if PEER == "kafka"
        else TowpathProcess(directory, brokers=BROKERS, settings=named)
    )
    try:
        server.start()
        yield server
    finally:
        print(server.process.log_tail())
        server.stop()


class Play:
    """One group and what happens to it."""

    def __init__(
        self, cluster: TowpathProcess | KafkaPeer, group: Crowd, traffic: Traffic, members: int
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._traffic = traffic
        self._members = members

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
        self._group.wait_balanced()

    def some_join_and_others_leave(self) -> None:
        some = max(1, self._members // 10)
        self._group.add_process(some)
        self._group.wait_balanced()
        self._group.leave(self._group.processes[0], some)
        self._group.wait_balanced()

    def a_process_crashes(self) -> None:
        crashing = next(process for process in self._group.processes if process.members)
        self._group.add_process(1)
        self._group.wait_balanced()
        self._group.crash(crashing)
        self._group.wait_balanced()

    def a_broker_dies(self) -> None:
        if isinstance(self._cluster, KafkaPeer):
            return
        for index in range(BROKERS - 1):
            self._cluster.kill_broker(index)
            self.all_is_processed({p: set(o) for p, o in list(self._traffic.written.items())})
        self._group.wait_balanced()

    def all_is_processed(self, written: dict[int, set[int]]) -> None:
        books = self._group.books
        wait_until(
            lambda: not books.missing(written),
            "all records processed",
            timeout_s=PROCESSED_TIMEOUT_S,
        )


@pytest.mark.parametrize(("protocol", "members"), SCALES)
def test_members_come_and_go_and_nothing_is_left_out(
    cluster: TowpathProcess | KafkaPeer, protocol: str, members: int
) -> None:
    partitions = max(12, members)
    topic = create_topic(cluster.bootstrap, partitions=partitions)
    name = unique_name("crowd")
    ports = [cluster.kafka_port + i for i in range(1 if cluster.is_kafka else BROKERS)]
    with (
        watching(ports, name) as watch,
        crowd(cluster.bootstrap, name, topic, partitions, PROTOCOLS[protocol]) as group,
    ):
        traffic = Traffic(cluster.bootstrap, topic, partitions)
        Play(cluster, group, traffic, members).run()
        group.end()
        check(group, traffic, watch, topic)


def check(group: Crowd, traffic: Traffic, watch: OffsetWatch, topic: str) -> None:
    """What must be true in the end."""
    ends = {(topic, p): max(offsets) + 1 for p, offsets in traffic.written.items()}
    wait_until(lambda: watch.problems or watch.seen == ends, "everything committed")
    print(f"{watch.reads} reads, lost {group.books.lost}, errors {group.books.errors}")
    assert not watch.problems, watch.problems[:5]
    assert not group.books.problems(), group.books.problems()[:5]
    assert not group.books.lost, "members that were alive were put out of the group"
