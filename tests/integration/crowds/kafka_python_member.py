"""A member of a crowd with kafka-python, classic."""

from __future__ import annotations

from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from tests.integration.crowds.member import (
    COMMIT_TIMEOUT_S,
    RECORDS_PER_TURN_MAX,
    BlockingMember,
    Outcome,
)

LONG_POLL_S = 30.0
"""It forgets an assignment that comes just when its poll is over (3.0.12)."""
FINAL_REFUSALS = (
    CommitFailedError,
    IllegalGenerationError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
"""Of a commit that comes too late."""


class KafkaPythonMember(BlockingMember):
    """One consumer of kafka-python. It commits whenever a poll is over: the next may be long."""

    def consume(self) -> None:
        self._client = KafkaConsumer(
            bootstrap_servers=self.settings["bootstrap.servers"].split(","),
            group_id=self.settings["group.id"],
            client_id=self.name,
            session_timeout_ms=self.settings["session.timeout.ms"],
            heartbeat_interval_ms=self.settings["heartbeat.interval.ms"],
            partition_assignment_strategy=[RangePartitionAssignor],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self._client.subscribe([self.topic], listener=_Listener(self))
        while not self.is_leaving.is_set():
            found = self._client.poll(
                timeout_ms=int(1000 * LONG_POLL_S), max_records=RECORDS_PER_TURN_MAX
            )
            for records in found.values():
                for record in records:
                    self.process(record.partition, record.offset)
            self.tell_processed()
            self.commit()
        self.hand_over(self.owned)
        self._client.close(autocommit=False)

    def commit(self) -> Outcome:
        offsets = self.uncommitted()
        if not offsets:
            return Outcome.DONE
        asked = {
            TopicPartition(self.topic, p): OffsetAndMetadata(o, "", -1) for p, o in offsets.items()
        }
        try:
            self._client.commit(asked, timeout_ms=int(1000 * COMMIT_TIMEOUT_S))
        except KafkaError as error:
            self.refused(type(error).__name__)
            return Outcome.GONE_ON if isinstance(error, FINAL_REFUSALS) else Outcome.TRY_AGAIN
        self.note_committed(offsets)
        return Outcome.DONE


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Tells the member what it is given and has to give up."""

    def __init__(self, member: KafkaPythonMember) -> None:
        self._member = member

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._member.hand_over(tp.partition for tp in revoked)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._member.given(tp.partition for tp in assigned)

    def on_partitions_lost(self, lost: Any) -> None:
        self._member.lost(tp.partition for tp in lost)
