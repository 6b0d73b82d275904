"""The administrator: creates and deletes topics, deletes records, shortens retention."""

from __future__ import annotations

import asyncio
import json

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.observer import LOG_END, Observer
from tests.faults.simulation.scenario import LOAD_S, Scenario
from tests.faults.simulation.wire import Broken, Wire

from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from towpath.kafka.codec.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from towpath.kafka.codec.messages.delete_topics import DeleteTopicsRequest
from towpath.kafka.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from towpath.typed.declaration import FORMAT, SCHEMA

TOPIC_RESOURCE = 2
GIVEN = json.dumps({"properties": {f"plain-{number}": {"type": "integer"} for number in range(3)}})
ORDERS = (("infer",), ("infer", GIVEN), (GIVEN, "infer"), (GIVEN,))
"""What a topic's values are said to be, one after the other."""
RETRY_S = 0.1
REQUEST_MS = 5_000


class Admin:
    """One client that changes topics; each change is asked for until it is answered for good."""

    def __init__(self, scenario: Scenario, wire: Wire, observer: Observer, chance: Chance) -> None:
        self._scenario = scenario
        self._wire = wire
        self._observer = observer
        self._chance = chance

    async def create(self, name: str, partitions: int) -> None:
        """Create a topic and wait until it exists."""
        request = CreateTopicsRequest(
            timeout_ms=REQUEST_MS,
            topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)],
        )
        while True:
            code = await self._code(request, 5)
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._observer.created[name] = partitions
                self._observer.journal.note(f"created {name}")
                return

    async def run(self) -> None:
        """Change things while the load lasts."""
        while self._scenario.removes_records or self._scenario.deletes_topics:
            await asyncio.sleep(self._chance.random() * LOAD_S / 3)
            topics = self._observer.usable()
            if not topics:
                return
            topic = self._chance.pick(*topics)
            if self._scenario.deletes_topics and self._chance.happens(0.15):
                await self._delete(topic)
            elif self._scenario.removes_records:
                await self._remove_records(topic)

    async def declare(self) -> None:
        """Say what the values of every topic are, each at its own time, and say it anew later."""
        waiting = [
            (self._chance.random() * LOAD_S, name, schema)
            for name in self._observer.created
            for schema in self._chance.pick(
                ("infer",), ("infer", GIVEN), (GIVEN, "infer"), (GIVEN,)
            )
        ]
        waited_s = 0.0
        for at_s, name, schema in sorted(waiting):
            await asyncio.sleep(at_s - waited_s)
            waited_s = at_s
            await self._declare(name, schema)

    async def _declare(self, topic: str, schema: str) -> None:
        configs = [
            AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in ((FORMAT, "json"), (SCHEMA, schema))
        ]
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configs=configs
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        gone = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        while await self._code(request, 0) not in gone:
            pass
        self._observer.counts["declarations"] += 1
        self._observer.journal.note(f"declared {topic}")

    async def _remove_records(self, topic: str) -> None:
        if self._chance.happens(0.3):
            await self._shorten_retention(topic)
        else:
            partition = self._chance.randrange(self._observer.created[topic])
            await self._delete_records(topic, partition)

    async def _delete(self, topic: str) -> None:
        self._observer.doomed.add(topic)
        self._observer.journal.note(f"deleting {topic}")
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=REQUEST_MS)
        gone = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        while await self._code(request, 4) not in gone:
            pass
        self._observer.counts["deleted topics"] += 1

    async def _shorten_retention(self, topic: str) -> None:
        name, value = self._chance.pick(
            ("retention.bytes", "400"), ("retention.ms", "1000"), ("retention.ms", "3000")
        )
        self._observer.retained.add(topic)
        config = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config]
        )
        await self._code(IncrementalAlterConfigsRequest(resources=[resource]), 0)

    async def _delete_records(self, topic: str, partition: int) -> None:
        stream = self._observer.stream(topic, partition)
        end = self._observer.known[stream].end if stream in self._observer.known else 0
        offset = self._chance.pick(LOG_END, self._chance.randint(0, end))
        self._observer.cut_asked(stream, offset)
        request = DeleteRecordsRequest(
            timeout_ms=REQUEST_MS,
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)],
                )
            ],
        )
        mark = self._observer.mark(topic, partition)
        try:
            answer = (await self._wire.ask(request, 2)).topics[0].partitions[0]
        except Broken:
            return
        if answer.error_code == ErrorCode.NONE:
            self._observer.cut_at(mark, answer.low_watermark, self._wire.name)
            self._observer.counts["deleted records"] += 1
        else:
            self._observer.error(topic, answer.error_code, "delete records")

    async def _code(self, request: object, version: int) -> int:
        """The error code of the one thing asked; REQUEST_TIMED_OUT if no answer came."""
        try:
            answer = await self._wire.ask(request, version)  # type: ignore[arg-type]
        except Broken:
            return ErrorCode.REQUEST_TIMED_OUT
        parts = answer.topics if hasattr(answer, "topics") else answer.responses
        code = int(parts[0].error_code)
        if code != ErrorCode.NONE:
            self._observer.counts[f"admin {ErrorCode(code).name}"] += 1
            await asyncio.sleep(RETRY_S)
        return code
