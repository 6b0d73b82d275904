"""Producers: plain ones, whose retries may duplicate, and idempotent ones, whose may not."""

from __future__ import annotations

import asyncio
import json
from collections import deque

from crc32c import crc32c
from tests.faults.simulation.chance import Chance
from tests.faults.simulation.clock import SimClock
from tests.faults.simulation.observer import Mark, Observer, Sent
from tests.faults.simulation.scenario import LOAD_S, Scenario
from tests.faults.simulation.wire import Broken, Wire

from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.init_producer_id import InitProducerIdRequest
from towpath.kafka.codec.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from towpath.records.build import NO_PRODUCER, NewRecord, ProducerFields, build_batch

BY_ID_SINCE_VERSION = 13
RETRY_S = 0.05
ATTEMPTS_MAX = 6
"""How often a plain producer sends a batch before it gives up."""
DAY_MS = 86_400_000
GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Producing:
    """What both kinds of producers share: batches, requests, and the books they keep."""

    def __init__(
        self,
        scenario: Scenario,
        wire: Wire,
        observer: Observer,
        clock: SimClock,
        chance: Chance,
    ) -> None:
        self._scenario = scenario
        self._wire = wire
        self._observer = observer
        self._clock = clock
        self._chance = chance
        self._version = chance.pick(7, 9, 12, BY_ID_SINCE_VERSION)
        self._numbers = 0

    def _new_batch(self, prefix: str) -> Sent:
        values = []
        for _ in range(self._chance.pick(1, 1, 2, 4)):
            self._numbers += 1
            padding = b"." * self._chance.pick(0, 0, 30, 200)
            values.append(self._value(prefix).encode() + padding)
        return Sent(tuple(values))

    def _value(self, prefix: str) -> str:
        tables = self._scenario.tables
        if tables is not None and tables.declares_values:
            return json.dumps({prefix: self._numbers})
        return f"{prefix}:{self._numbers}"

    def _encode(self, batch: Sent, producer: ProducerFields = NO_PRODUCER) -> bytes:
        records = [self._record(value) for value in batch.values]
        return build_batch(records, producer=producer)

    def _record(self, value: bytes) -> NewRecord:
        """A record whose key, headers and day depend on its value alone."""
        digest = crc32c(value)
        tables = self._scenario.tables
        days = digest % 3 if tables is not None and tables.split_by_day else 0
        headers = ((), (("a", b"x"), ("a", None)), (("b", b""),))[digest // 8 % 3]
        return NewRecord(
            value=value,
            key=(None, b"", value[-4:])[digest // 64 % 3],
            timestamp_ms=self._clock.now_ms() - days * DAY_MS,
            headers=headers,
        )

    def _request(self, topic: str, partition: int, data: bytes) -> ProduceRequest:
        return ProduceRequest(
            acks=self._chance.pick(-1, 1),
            timeout_ms=self._scenario.produce_timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=self._observer.ledger.topics[topic].topic_id,
                    partition_data=[PartitionProduceData(index=partition, records=data)],
                )
            ],
        )

    def _choose_partition(self) -> tuple[str, int] | None:
        topics = self._observer.usable()
        if not topics:
            return None
        topic = self._chance.pick(*topics)
        return topic, self._chance.randrange(self._observer.created[topic])

    async def _think(self) -> None:
        pause_s = 2 * LOAD_S / self._scenario.batches_per_producer
        await asyncio.sleep(self._chance.random() * self._chance.pick(0.0, 0.1, pause_s))


def only_answer(response: ProduceResponse) -> PartitionProduceResponse:
    """The answer for the one partition that was asked."""
    ((answer,),) = [topic.partition_responses for topic in response.responses]
    return answer


class PlainProducer(Producing):
    """Sends a batch, and again when it does not know what became of it."""

    async def run(self) -> None:
        """Send all batches."""
        for _ in range(self._scenario.batches_per_producer):
            await self._think()
            target = self._choose_partition()
            if target is not None:
                await self.produce(*target)
        self._wire.close()

    async def produce(self, topic: str, partition: int) -> None:
        """Send one new batch until it is acknowledged or given up."""
        batch = self._new_batch(f"{self._wire.name}")
        books = f"{self._wire.name}/{topic}/{partition}"
        self._observer.sent.setdefault(books, []).append(batch)
        mark = self._observer.mark(topic, partition)
        for _ in range(ATTEMPTS_MAX):
            if await self._attempt(mark, batch, topic, partition):
                return
            await asyncio.sleep(self._chance.random() * RETRY_S)

    async def _attempt(self, mark: Mark, batch: Sent, topic: str, partition: int) -> bool:
        """Send the batch once; whether no other attempt is to be made."""
        request = self._request(topic, partition, self._encode(batch))
        batch.attempts += 1
        try:
            answer = only_answer(await self._wire.ask(request, self._version))
        except Broken:
            return False
        if answer.error_code == ErrorCode.NONE:
            self._observer.acked(mark, batch, answer.base_offset, self._wire.name)
            return True
        self._observer.error(topic, answer.error_code, "produce")
        if self._chance.happens(0.1):
            self._wire.close()  # Try another broker, as a client does that refreshes its metadata.
        return answer.error_code in GONE


class IdempotentProducer(Producing):
    """Writes to one partition, several batches in flight, each with its sequence numbers.

    After an error or a broken connection everything that is not acknowledged is sent again, in
    order and with the same numbers, perhaps to another broker.
    """

    async def run(self) -> None:
        """Send all batches and wait for their acknowledgements."""
        target = self._choose_partition()
        if target is None:
            return
        self._topic, self._partition = target
        self._books = self._observer.sent.setdefault(
            f"{self._wire.name}/{self._topic}/{self._partition}", []
        )
        self._producer_id = await self._init()
        self._next_sequence = 0
        self._unacked: deque[tuple[Sent, int, Mark, bytes]] = deque()
        """Batch, first sequence, mark and bytes, in order."""
        self._in_flight = 0
        left = self._scenario.batches_per_producer
        while (left or self._unacked) and self._topic not in self._observer.doomed:
            await self._resend()
            window_batches = self._scenario.window_batches
            while left and self._span() < window_batches and self._wire.connected:
                await self._think()
                left -= 1
                self._make()
            await self._receive()
        self._wire.close()

    def _span(self) -> int:
        """How many batches lie between the oldest one without an answer and the next one."""
        return len(self._books) - self._books.index(self._unacked[0][0]) if self._unacked else 0

    async def _init(self) -> int:
        while True:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            try:
                answer = await self._wire.ask(request, 1)
            except Broken:
                continue
            if answer.error_code == ErrorCode.NONE:
                return int(answer.producer_id)
            await asyncio.sleep(RETRY_S)

    def _make(self) -> None:
        """A new batch, sent at once."""
        batch = self._new_batch(f"{self._wire.name}")
        producer = ProducerFields(self._producer_id, 0, self._next_sequence)
        mark = self._observer.mark(self._topic, self._partition)
        data = self._encode(batch, producer)
        self._unacked.append((batch, self._next_sequence, mark, data))
        self._books.append(batch)
        self._next_sequence += len(batch.values)
        self._send(batch, data)

    def _send(self, batch: Sent, data: bytes) -> None:
        batch.attempts += 1
        self._in_flight += 1
        self._wire.send(self._request(self._topic, self._partition, data), self._version)

    async def _resend(self) -> None:
        """If nothing is in flight, send again what is not acknowledged."""
        if not self._wire.connected:
            self._in_flight = 0
            await self._wire.connect()
        if self._in_flight == 0:
            for batch, _, _, data in self._unacked:
                self._send(batch, data)

    async def _receive(self) -> None:
        """Take all answers in flight; after an error the rest is sent again in order."""
        failed = False
        pending = list(self._unacked)
        for place, (batch, _, mark, _) in enumerate(pending):
            try:
                answer = only_answer(await self._wire.answer())
            except Broken:
                self._in_flight = 0
                break
            self._in_flight -= 1
            if answer.error_code == ErrorCode.NONE:
                self._observer.acked(mark, batch, answer.base_offset, self._wire.name)
            else:
                self._observer.error(self._topic, answer.error_code, "produce")
                self._judge_refusal(answer.error_code, place, failed)
                failed = True
        # One that failed here may have been committed by an earlier attempt, and those behind it
        # were accepted.
        self._unacked = deque(item for item in self._unacked if item[0].acked_at is None)
        if failed:
            await asyncio.sleep(self._chance.random() * RETRY_S)
            if self._chance.happens(0.3):
                self._wire.close()

    def _judge_refusal(self, code: int, place: int, failed: bool) -> None:
        """Everything before the oldest batch was acknowledged: its sequence must be accepted."""
        fatal = code not in RETRIABLE_OR_LATE
        if fatal and place == 0 and not failed and self._topic not in self._observer.doomed:
            name = ErrorCode(code).name
            self._observer.journal.fail(f"{self._wire.name} was refused its next batch: {name}")


RETRIABLE_OR_LATE = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        *GONE,
    }
)
"""Errors after which an idempotent producer sends the same batch again."""
