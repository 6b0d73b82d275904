"""A member of a crowd with librdkafka, classic or of the consumer protocol."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from tests.integration.crowds.member import (
    IDLE_S,
    RECORDS_PER_TURN_MAX,
    BlockingMember,
    Outcome,
)

FINAL_REFUSALS = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
)
"""Of a commit that comes too late."""


class ConfluentMember(BlockingMember):
    """One consumer of confluent-kafka."""

    def consume(self) -> None:
        self._client = Consumer(
            {
                **self.settings,
                "client.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )
        self._client.subscribe(
            [self.topic],
            on_assign=lambda _, given: self.given(p.partition for p in given),
            on_revoke=lambda _, taken: self.hand_over(p.partition for p in taken),
            on_lost=lambda _, taken: self.lost(p.partition for p in taken),
        )
        while not self.is_leaving.is_set():
            self._turn()
        self._client.close()

    def _turn(self) -> None:
        """Process what has come, and commit when it is time."""
        wait_s = IDLE_S
        for _ in range(RECORDS_PER_TURN_MAX):
            message = self._client.poll(wait_s)
            if message is None:
                break
            self._take(message)
            wait_s = 0
        self.tell_processed()
        if self.is_commit_due():
            self.commit()

    def _take(self, message: Message) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            self.refused(error.name())
        elif partition is not None and offset is not None:
            self.process(partition, offset)

    def commit(self) -> Outcome:
        offsets = [TopicPartition(self.topic, p, o) for p, o in self.uncommitted().items()]
        if not offsets:
            return Outcome.DONE
        try:
            answered = self._client.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refused:
            error: KafkaError = refused.args[0]
            self.refused(error.name())
            return Outcome.GONE_ON if error.code() in FINAL_REFUSALS else Outcome.TRY_AGAIN
        good = [p for p in answered if p.error is None and p.offset >= 0]
        self.note_committed({p.partition: p.offset for p in good})
        return Outcome.DONE
