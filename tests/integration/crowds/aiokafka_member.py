"""A member of a crowd with aiokafka, classic."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from tests.integration.crowds.member import (
    COMMIT_PAUSE_S,
    COMMIT_TIMEOUT_S,
    IDLE_S,
    RECORDS_PER_TURN_MAX,
    CrowdMember,
)

FINAL_REFUSALS = (
    CommitFailedError,
    IllegalGenerationError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
"""Of a commit that comes too late."""


class AioKafkaMember(CrowdMember):
    """One consumer of aiokafka, in an event loop of its own. It does not tell what was lost from
    what it had to give up."""

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        client = AIOKafkaConsumer(
            bootstrap_servers=self.settings["bootstrap.servers"],
            group_id=self.settings["group.id"],
            client_id=self.name,
            session_timeout_ms=self.settings["session.timeout.ms"],
            heartbeat_interval_ms=self.settings["heartbeat.interval.ms"],
            partition_assignment_strategy=[RangePartitionAssignor],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self._client = client
        client.subscribe([self.topic], listener=_Listener(self))
        await client.start()
        while not self.is_leaving.is_set():
            found = await client.getmany(
                timeout_ms=int(1000 * IDLE_S), max_records=RECORDS_PER_TURN_MAX
            )
            for records in found.values():
                for record in records:
                    self.process(record.partition, record.offset)
            self.tell_processed()
            if self.is_commit_due():
                await self._commit()
        # It says nothing of what it gives up when it leaves.
        await self.hand_over(self.owned)
        await client.stop()

    async def hand_over(self, partitions: Iterable[int]) -> None:
        """Give partitions up, after a commit of everything: somebody else will go on with them."""
        self.tell_processed()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + COMMIT_TIMEOUT_S
        while self.uncommitted() and loop.time() < deadline_s:
            error = await self._commit()
            if isinstance(error, FINAL_REFUSALS):
                break
            if error is not None:
                await asyncio.sleep(COMMIT_PAUSE_S)
        self.gave_up(partitions)

    async def _commit(self) -> KafkaError | None:
        offsets = self.uncommitted()
        if not offsets:
            return None
        try:
            await self._client.commit(
                {TopicPartition(self.topic, p): o for p, o in offsets.items()}
            )
        except KafkaError as error:
            self.refused(type(error).__name__)
            return error
        self.note_committed(offsets)
        return None


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Tells the member what it is given and has to give up."""

    def __init__(self, member: AioKafkaMember) -> None:
        self._member = member

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await self._member.hand_over(tp.partition for tp in revoked)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._member.given(tp.partition for tp in assigned)
