"""What must hold when the faults have stopped: progress, the whole log, and nothing left behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.cluster import Broker, Cluster
from tests.faults.simulation.consumer import EARLIEST, LATEST, Consumer
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.ledger import Ledger, TrueRecord
from tests.faults.simulation.objects import SharedObjects
from tests.faults.simulation.observer import Observer, Sent
from tests.faults.simulation.producers import PlainProducer
from tests.faults.simulation.scenario import Scenario
from tests.faults.simulation.state import SharedState
from tests.faults.simulation.wire import Broken, Wire

from towpath.kafka.codec.messages.metadata import MetadataRequest
from towpath.metadata.keys import streams, topics, wal

PROGRESS_S = 5.0
"""Within this time a fresh client gets what it asks for, once nothing fails any more."""
LONG_POLL_MS = 20_000
WAL_SUFFIX = ".wo"

MakeProducer = Callable[[Broker], PlainProducer]
"""A new producer that talks to this broker."""


class Progress:
    """Fresh clients on every partition, through every broker that is alive."""

    def __init__(
        self,
        scenario: Scenario,
        cluster: Cluster,
        observer: Observer,
        journal: Journal,
    ) -> None:
        self._scenario = scenario
        self._cluster = cluster
        self._observer = observer
        self._journal = journal
        self._chance = Chance(scenario.seed, "progress")

    def wire(self, name: str) -> Wire:
        """A new client."""
        return Wire(self._cluster, name, self._chance.child(name), PROGRESS_S)

    async def check(self, make_producer: MakeProducer) -> None:
        """Every broker lists the topics and brokers that exist, and every partition moves."""
        for broker in self._cluster.alive():
            lost = broker.core.cluster._is_lost()
            self._journal.expect(not lost, f"{broker.name} believes that it is not registered")
            await self._within(self._look_around(broker), f"metadata of {broker.name}")
        for topic in self._observer.usable():
            for partition in range(self._observer.created[topic]):
                brokers = self._cluster.alive()
                reader, writer = self._chance.pick(*brokers), self._chance.pick(*brokers)
                await self._within(
                    self._tail(topic, partition, reader, make_producer(writer)),
                    f"{topic}/{partition} written through {writer.name}, read through "
                    f"{reader.name}",
                )

    async def _within(self, work: Coroutine[Any, Any, None], what: str) -> None:
        try:
            async with asyncio.timeout(PROGRESS_S):
                await work
        except (*Broken, TimeoutError) as error:
            self._journal.fail(f"no progress after the faults stopped: {what}: {error!r}")

    async def _look_around(self, broker: Broker) -> None:
        wire = self.wire(f"looker-{broker.name}")
        await wire.connect(broker)
        answer = await wire.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 9)
        wire.close()
        listed = {topic.name for topic in answer.topics}
        truth = {topic.name for topic in self._observer.ledger.topics.values() if not topic.deleted}
        self._journal.expect(listed == truth, f"{broker.name} lists {listed}, not {truth}")
        listed_ids = [node.node_id for node in answer.brokers]
        alive_ids = [one.broker_id for one in self._cluster.alive()]
        self._journal.expect(
            listed_ids == alive_ids, f"{broker.name} lists brokers {listed_ids}, not {alive_ids}"
        )

    async def _tail(
        self, topic: str, partition: int, reader: Broker, producer: PlainProducer
    ) -> None:
        """A long poll at the end is woken by an append through any broker."""
        wire = self.wire(f"tailer-{topic}-{partition}")
        await wire.connect(reader)
        consumer = Consumer(wire, self._observer, self._chance.child("tailer"))
        end = await consumer.look_up(topic, partition, LATEST)
        if end is None:
            raise TimeoutError("the log end cannot be told")
        place = (topic, partition)
        poll = asyncio.ensure_future(consumer.fetch({place: end}, LONG_POLL_MS))
        await asyncio.sleep(0.1)
        await producer.produce(topic, partition)
        await poll
        wire.close()


async def read_all(
    cluster: Cluster, observer: Observer, progress: Progress, journal: Journal
) -> None:
    """Every broker serves every readable record of every stream."""
    for broker in cluster.alive():
        wire = progress.wire(f"auditor-{broker.name}")
        await wire.connect(broker)
        consumer = Consumer(wire, observer, Chance(0, "auditor"))
        for topic in observer.usable():
            for partition in range(observer.created[topic]):
                await _read_partition(consumer, observer, journal, topic, partition)
        wire.close()


async def _read_partition(
    consumer: Consumer, observer: Observer, journal: Journal, topic: str, partition: int
) -> None:
    try:
        at = await consumer.look_up(topic, partition, EARLIEST)
        stream = observer.ledger.stream(observer.stream(topic, partition))
        if at != stream.log_start:
            journal.fail(f"{topic}/{partition} starts at {at}, not {stream.log_start}")
        while at is not None and at < len(stream.records) and not journal.failures:
            count = await consumer.fetch({(topic, partition): at}, 0)
            if count == 0:
                journal.fail(f"{topic}/{partition} cannot be read at {at}")
            at += count
    except Broken as error:
        journal.fail(f"{topic}/{partition} cannot be read: {error!r}")


def check_produced(observer: Observer, ledger: Ledger, journal: Journal) -> None:
    """Nothing nobody sent, nothing more often than it was sent, idempotent ones once, in order."""
    sent: dict[bytes, Sent] = {}
    for batches in observer.sent.values():
        for batch in batches:
            sent.update((value, batch) for value in batch.values)
    times: Counter[bytes] = Counter()
    for stream_id, stream in ledger.streams.items():
        for offset, record in enumerate(stream.records):
            times[record.value] += 1
            where = f"{record.value!r} at {offset} of {stream_id:x}"
            if record.value not in sent:
                journal.fail(f"nobody sent {where}")
                continue
            most = 1 if record.producer_id >= 0 else sent[record.value].attempts
            if times[record.value] > most:
                journal.fail(f"{where} is there {times[record.value]} times")
        _check_order(stream_id, stream.records, observer, journal)


def _check_order(
    stream_id: int, records: list[TrueRecord], observer: Observer, journal: Journal
) -> None:
    """The records of each idempotent producer are a prefix of what it sent."""
    by_producer: dict[int, list[bytes]] = {}
    for record in records:
        if record.producer_id >= 0:
            by_producer.setdefault(record.producer_id, []).append(record.value)
    for producer_id, values in by_producer.items():
        name = values[0].split(b":")[0].decode().strip('{"')
        (books,) = [b for key, b in observer.sent.items() if key.startswith(f"{name}/")]
        wanted = [value for batch in books for value in batch.values]
        acked = sum(len(batch.values) for batch in books if batch.acked_at is not None)
        missing = len(values) < acked and not observer.is_doomed(stream_id)
        if values != wanted[: len(values)] or missing:
            journal.fail(f"producer {producer_id} ({name}) in {stream_id:x} wrote {values}")


def check_nothing_left(
    state: SharedState, objects: SharedObjects, ledger: Ledger, journal: Journal
) -> None:
    """Every WAL object has an owner, and the collectors' own notes are gone."""
    paths = {path for path in objects.paths() if path.endswith(WAL_SUFFIX)}
    referenced = {path for path in ledger.referenced_paths() if path.endswith(WAL_SUFFIX)}
    journal.expect(paths >= referenced, f"objects are missing: {sorted(referenced - paths)}")
    journal.expect(paths <= referenced, f"objects without an owner: {sorted(paths - referenced)}")
    for prefix in (wal.STAGING_PREFIX, wal.GC_PREFIX, topics.DELETED_PREFIX):
        left = state.keys_under(prefix)
        journal.expect(not left, f"left behind: {left}")
    # A stream that let its chunk go waits for the other streams of the object.
    named = {
        path.rpartition("/")[2].removesuffix(WAL_SUFFIX).replace("-", "") for path in referenced
    }
    left = [key for key in state.keys_under(wal.DEREFS_PREFIX) if key.split("/")[-2] not in named]
    journal.expect(not left, f"derefs of deleted objects: {left}")
    records = len(state.keys_under(wal.OBJECTS_PREFIX))
    journal.expect(
        records == len(referenced), f"{records} object records for {len(referenced)} objects"
    )
    alive = {topic.number for topic in ledger.topics.values() if not topic.deleted}
    strays = [
        key
        for key in state.keys_under(streams.STREAMS_PREFIX)
        if topics.split_stream_id(streams.parse_stream_id(key))[0] not in alive
    ]
    journal.expect(not strays, f"keys of deleted topics are left: {strays}")
