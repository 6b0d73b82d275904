"""Three broker processes on one data directory: any of them serves any partition, and what one
acknowledged every other one sees."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import PEER
from tests.integration.harness.admin import (
    REQUEST_TIMEOUT_S,
    admin_client,
    create_topic,
    unique_name,
)
from tests.integration.harness.clients import (
    Sent,
    assigned_consumer,
    consume,
    produce_all,
    producer,
    take,
)
from tests.integration.harness.confluent_admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from tests.integration.harness.raw_batches import decode_batches, encode_batch
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.wire import Connection

BROKERS = 3


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TowpathProcess]:
    """Three brokers for the tests that kill none of them."""
    if PEER == "kafka":
        pytest.skip("a test of Towpath alone")
    server = TowpathProcess(tmp_path_factory.mktemp("trio"), brokers=BROKERS)
    try:
        server.start()
        yield server
    finally:
        print(server.process.log_tail())
        server.stop()


@pytest.fixture
def connections(trio: TowpathProcess) -> Iterator[list[Connection]]:
    """A bare connection to each broker."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(Connection("127.0.0.1", trio.kafka_port + i))
            for i in range(BROKERS)
        ]


def batch(*values: bytes) -> bytes:
    """A plain batch."""
    return encode_batch(list(values), timestamp_ms=int(time.time() * 1000))


def read_all(connection: Connection, topic: str, partition: int = 0) -> dict[int, bytes]:
    """Every record of a partition as this broker sees it now."""
    seen: dict[int, bytes] = {}
    while True:
        fetched = connection.fetch(topic, partition, len(seen))
        assert fetched.error == 0
        if not fetched.records:
            return seen
        seen.update(decode_batches(fetched.records))


def test_the_cluster_shows_three_brokers(trio: TowpathProcess) -> None:
    for address in trio.bootstraps:
        cluster = admin_client(address).describe_cluster().result(REQUEST_TIMEOUT_S)
        assert {f"127.0.0.1:{node.port}" for node in cluster.nodes} == set(trio.bootstraps)
        assert len({node.id for node in cluster.nodes}) == BROKERS


def test_leaders_are_spread_and_agreed_on(trio: TowpathProcess) -> None:
    topic = create_topic(trio.bootstrap, partitions=30)
    seen = [
        {
            number: partition.leader
            for number, partition in admin_client(address)
            .list_topics(timeout=REQUEST_TIMEOUT_S)
            .topics[topic]
            .partitions.items()
        }
        for address in trio.bootstraps
    ]
    assert seen[0] == seen[1] == seen[2]
    assert len(set(seen[0].values())) == BROKERS


def test_any_broker_appends_to_any_partition(
    trio: TowpathProcess, connections: list[Connection]
) -> None:
    topic = create_topic(trio.bootstrap, partitions=4)
    for partition in range(4):
        for number, connection in enumerate(connections):
            done = connection.produce(topic, partition, batch(b"%d" % number))
            assert (done.error, done.base_offset) == (0, number)
    for connection in connections:
        for partition in range(4):
            assert read_all(connection, topic, partition) == {0: b"0", 1: b"1", 2: b"2"}


def test_concurrent_producers_through_all_brokers_leave_no_gap(trio: TowpathProcess) -> None:
    topic = create_topic(trio.bootstrap)
    acknowledged: dict[int, bytes] = {}
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with Connection("127.0.0.1", trio.kafka_port + number % BROKERS) as connection:
                for i in range(60):
                    values = [b"%d-%d-%d" % (number, i, j) for j in range(1 + i % 3)]
                    done = connection.produce(topic, 0, batch(*values))
                    assert done.error == 0
                    for offset, value in enumerate(values, done.base_offset):
                        assert acknowledged.setdefault(offset, value) is value
        except BaseException as failure:  # noqa: BLE001 - told to the test's own thread
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not failures
    assert sorted(acknowledged) == list(range(6 * 120))
    for number in range(BROKERS):
        with Connection("127.0.0.1", trio.kafka_port + number) as connection:
            assert read_all(connection, topic) == acknowledged


def test_what_one_acknowledged_the_next_fetch_at_another_sees(
    trio: TowpathProcess, connections: list[Connection]
) -> None:
    topic = create_topic(trio.bootstrap)
    pairs = itertools.cycle(itertools.permutations(range(BROKERS), 2))
    for offset in range(200):
        writer, reader = next(pairs)
        done = connections[writer].produce(topic, 0, batch(b"%d" % offset))
        assert (done.error, done.base_offset) == (0, offset)
        fetched = connections[reader].fetch(topic, 0, offset)
        assert fetched.error == 0
        assert dict(decode_batches(fetched.records)) == {offset: b"%d" % offset}
        assert fetched.high_watermark == offset + 1
        assert connections[3 - writer - reader].list_offset(topic, 0, -1)[2] == offset + 1


def test_a_new_topic_is_known_everywhere_at_once(
    trio: TowpathProcess, connections: list[Connection]
) -> None:
    for round_number in range(15):
        made, used, read = (round_number + i for i in range(3))
        topic = unique_name("everywhere")
        new = admin_client(trio.bootstraps[made % 3]).create_topics([NewTopic(topic, 2)])
        new[topic].result(REQUEST_TIMEOUT_S)
        done = connections[used % 3].produce(topic, 1, batch(b"v"))
        assert (done.error, done.base_offset) == (0, 0)
        assert dict(decode_batches(connections[read % 3].fetch(topic, 1, 0).records)) == {0: b"v"}
        listed = admin_client(trio.bootstraps[read % 3]).list_topics(timeout=REQUEST_TIMEOUT_S)
        assert len(listed.topics[topic].partitions) == 2


def test_an_altered_config_is_seen_everywhere_at_once(trio: TowpathProcess) -> None:
    topic = create_topic(trio.bootstrap)
    for value in range(1000, 1010):
        change = ConfigEntry(
            "retention.ms", str(value), incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
        altering = admin_client(trio.bootstraps[value % 3])
        (altered,) = altering.incremental_alter_configs([resource]).values()
        altered.result(REQUEST_TIMEOUT_S)
        for address in trio.bootstraps:
            asked = ConfigResource(ResourceType.TOPIC, topic)
            (future,) = admin_client(address).describe_configs([asked]).values()
            assert future.result(REQUEST_TIMEOUT_S)["retention.ms"].value == str(value)


def test_a_long_poll_is_woken_by_another_broker(
    trio: TowpathProcess, connections: list[Connection]
) -> None:
    topic = create_topic(trio.bootstrap)
    for offset in range(15):
        waiting, writing = connections[offset % 3], connections[(offset + 1) % 3]
        # The connection gives up after 20 s, long before this wait would end by itself.
        waiting.send_fetch(topic, 0, offset, max_wait_ms=60_000)
        writing.produce(topic, 0, batch(b"%d" % offset))
        fetched = waiting.receive_fetch(topic, 0)
        assert dict(decode_batches(fetched.records)) == {offset: b"%d" % offset}


def test_a_retry_at_another_broker_is_stored_once(
    trio: TowpathProcess, connections: list[Connection]
) -> None:
    topic = create_topic(trio.bootstrap)
    producer_id, epoch = connections[0].init_producer_id()
    for sequence in range(30):
        same = encode_batch(
            [b"%d" % sequence],
            timestamp_ms=int(time.time() * 1000),
            producer_id=producer_id,
            producer_epoch=epoch,
            first_sequence=sequence,
        )
        for turn in range(3):
            done = connections[(sequence + turn) % 3].produce(topic, 0, same)
            assert (done.error, done.base_offset) == (0, sequence)
    assert read_all(connections[0], topic) == {i: b"%d" % i for i in range(30)}


def test_producer_ids_differ_between_brokers(connections: list[Connection]) -> None:
    given = [connection.init_producer_id()[0] for connection in connections for _ in range(20)]
    assert len(set(given)) == 60


def test_ordinary_clients_use_all_brokers(trio: TowpathProcess) -> None:
    topic = create_topic(trio.bootstrap, partitions=9)
    records = [Sent(b"%d" % i, partition=i % 9) for i in range(900)]
    for address in trio.bootstraps:
        produce_all(producer(address), topic, records)
    with assigned_consumer(trio.bootstraps[0], {(topic, p): 0 for p in range(9)}) as consumer:
        got = [(m.partition(), m.offset()) for m in take(consumer, 2700)]
    assert sorted(got) == [(p, offset) for p in range(9) for offset in range(300)]


def test_clients_go_on_when_a_broker_is_killed(
    start_towpath: Callable[..., TowpathProcess],
) -> None:
    cluster = start_towpath(brokers=BROKERS)
    topic = create_topic(cluster.bootstrap, partitions=6)
    client = producer(
        cluster.bootstrap, reconnect_backoff_max_ms=200, topic_metadata_refresh_interval_ms=1000
    )
    acknowledged: dict[tuple[int, int], bytes] = {}
    for round_number in range(60):
        if round_number in (10, 30):
            cluster.kill_broker(round_number // 10 % BROKERS)
        records = [Sent(b"%d-%d" % (round_number, p), partition=p) for p in range(6)]
        offsets = produce_all(client, topic, records)
        for record, offset in zip(records, offsets, strict=True):
            acknowledged[record.partition, offset] = record.value or b""
    assert len(acknowledged) == 360
    for partition in range(6):
        got = consume(cluster.bootstrap, topic, 60, partition=partition)
        assert [message.offset() for message in got] == list(range(60))
        assert all(acknowledged[partition, m.offset()] == m.value() for m in got)


def test_all_brokers_stop_and_come_back_with_the_same_data(
    start_towpath: Callable[..., TowpathProcess], tmp_path: Path
) -> None:
    cluster = start_towpath(brokers=BROKERS)
    topic = create_topic(cluster.bootstrap, partitions=3)
    records = [Sent(b"%d" % i, partition=i % 3) for i in range(30)]
    produce_all(producer(cluster.bootstrap), topic, records)
    children = cluster.process.descendants()
    assert cluster.stop() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    cluster.restart()
    got: list[Any] = []
    for partition in range(3):
        got += consume(cluster.bootstrap, topic, 10, partition=partition)
    assert sorted(int(m.value()) for m in got) == list(range(30))
