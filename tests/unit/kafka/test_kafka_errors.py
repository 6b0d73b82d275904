"""Every failure of the core has its Kafka code."""

from __future__ import annotations

import inspect

import pytest
from structlog.testing import capture_logs

from towpath import errors
from towpath.kafka.errors import RETRIABLE, ErrorCode, error_code_of, error_message_of

EXPECTED = {
    "CorruptBatch": 2, "InvalidBatch": 87, "UnsupportedMagic": 87, "UnsupportedCompression": 76,
    "BatchTooLarge": 10, "InvalidTimestamp": 32, "TransactionalBatch": 48,
    "OutOfOrderSequence": 45, "DuplicateSequence": 46, "StaleProducerEpoch": 47,
    "UnknownProducer": 59, "StreamGone": 3, "TopicNotFound": 3, "TopicIdNotFound": 100,
    "OffsetOutOfRange": 1, "LogUnavailable": 56, "LogDamaged": 56, "LogClosed": 6,
    "TopicExists": 36, "InvalidTopicName": 17, "InvalidPartitionCount": 37,
    "InvalidReplicationFactor": 38, "InvalidReplicaAssignment": 39, "InvalidConfig": 40,
    "ConcurrentChange": 7,
}  # fmt: skip
BASES = {"TowpathError", "BatchError", "ProducerError", "LogError", "TopicError"}
FAILURES = {
    name: cls
    for name, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, errors.TowpathError) and name not in BASES
}


def make(cls: type[BaseException]) -> BaseException:
    return errors.OffsetOutOfRange(9, 0, 5) if cls is errors.OffsetOutOfRange else cls("why")


@pytest.mark.parametrize("name", sorted(FAILURES))
def test_each_failure_has_its_code(name: str) -> None:
    failure = make(FAILURES[name])
    with capture_logs() as lines:
        code = error_code_of(failure)
    if name in EXPECTED:
        assert code == EXPECTED[name]
    assert code != ErrorCode.UNKNOWN_SERVER_ERROR, f"{name} is missing in the table"
    assert lines == []
    assert error_message_of(failure)


def test_subclasses_follow_their_nearest_ancestor() -> None:
    class Special(errors.BatchTooLarge):
        pass

    assert error_code_of(Special("x")) == ErrorCode.MESSAGE_TOO_LARGE


def test_unexpected_failures_are_logged_and_not_explained() -> None:
    failure = RuntimeError("secret path")
    with capture_logs() as lines:
        assert error_code_of(failure) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert lines[0]["exc_info"] is failure
    assert error_message_of(failure) is None


def test_codes_that_ask_for_a_retry_are_retriable() -> None:
    retried = (errors.LogUnavailable("x"), errors.LogClosed("x"), errors.ConcurrentChange("x"))
    assert all(error_code_of(error) in RETRIABLE for error in retried)
