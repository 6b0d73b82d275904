"""The partitions of a Produce request on their way, and the answer made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from towpath.errors import BatchError
from towpath.kafka.apis.leaders import node_endpoints
from towpath.kafka.apis.partitions import LEADER_EPOCH
from towpath.kafka.apis.registry import RequestContext
from towpath.kafka.codec.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from towpath.kafka.errors import ErrorCode, error_code_of, error_message_of
from towpath.log.interface import Appended
from towpath.records.batch import BatchInfo
from towpath.topics.interface import Topic

NO_OFFSET = -1
NO_TIMESTAMP = -1


class Settled(Protocol):
    """Who waits for the parts of a request."""

    def one_settled(self) -> None:
        """A part that was pending has its outcome."""
        ...


@dataclass(slots=True)
class Part:
    """One partition's batch: first checked, then appended, at last committed or failed."""

    work: Settled
    index: int
    error: ErrorCode
    topic: Topic | None = None
    batch: BatchInfo | None = None
    pending: bool = False
    """Whether it is appended and the request waits for its outcome."""
    appended: Appended | None = None
    message: str | None = None
    bad_record: int | None = None
    """The index of the record that spoiled the batch, if it was one record."""

    def settle(self, outcome: Appended | Exception) -> None:
        """Take over what became of the append, unless the request has been answered already."""
        if not self.pending:
            return
        self.pending = False
        if isinstance(outcome, Exception):
            self.fail(outcome)
        else:
            self.appended = outcome
        self.work.one_settled()

    def fail(self, failure: BaseException) -> None:
        """Answer this failure."""
        self.error = error_code_of(failure)
        self.message = error_message_of(failure)
        if isinstance(failure, BatchError):
            self.bad_record = failure.record_index


def answer(
    request: ProduceRequest, topics: Sequence[Sequence[Part]], context: RequestContext
) -> ProduceResponse:
    """The response to `request`, whose topics' parts are in `topics` in the same order."""
    response = ProduceResponse()
    leaders: set[int] = set()
    for named, parts in zip(request.topic_data, topics, strict=True):
        answers = [_acknowledgement(part) or _refusal(part, context, leaders) for part in parts]
        response.responses.append(
            TopicProduceResponse(
                name=named.name, topic_id=named.topic_id, partition_responses=answers
            )
        )
    if leaders:
        response.node_endpoints = node_endpoints(context.view(), leaders, NodeEndpoint)
    return response


def _acknowledgement(part: Part) -> PartitionProduceResponse | None:
    if part.error or part.appended is None or part.batch is None or part.topic is None:
        return None
    where = part.appended
    stamped = part.topic.settings.log_append_time
    return PartitionProduceResponse(
        index=part.index,
        base_offset=where.base_offset,
        log_append_time_ms=part.batch.max_timestamp_ms if stamped else NO_TIMESTAMP,
        log_start_offset=where.log_start,
    )


def _refusal(part: Part, context: RequestContext, leaders: set[int]) -> PartitionProduceResponse:
    refused = PartitionProduceResponse(
        index=part.index,
        error_code=part.error,
        base_offset=NO_OFFSET,
        error_message=part.message,
    )
    if part.bad_record is not None:
        refused.record_errors.append(
            BatchIndexAndErrorMessage(
                batch_index=part.bad_record, batch_index_error_message=part.message
            )
        )
    if part.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and part.topic is not None:
        leader = context.view().leader(part.topic.stream(part.index))
        if (
            leader != context.services.cluster.broker_id
        ):  # It is this broker when its log is closing.
            leaders.add(leader)
            refused.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=LEADER_EPOCH)
    return refused
