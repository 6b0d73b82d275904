"""What a request gets that the registry does not serve.

- ApiVersions in an unknown version: the answer of version 0 with UNSUPPORTED_VERSION and the
  versions of ApiVersions itself, so that the client can ask again (KIP-511).
- Produce 0-2, which are advertised only so that older librdkafka keeps compressing: every
  partition is answered UNSUPPORTED_VERSION. With acks=0 the connection is closed.
- Transactions (AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, ListTransactions): UNSUPPORTED_VERSION
  in the version asked for, where that version has an error code at the top of its answer.
- Everything else (broker-internal and unknown keys, versions out of range, transactional answers
  without such an error code): the connection is closed, as Apache Kafka does; there is no layout
  in which the client could be told.

The connection writes one line to its log in each case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from towpath.kafka.apis.registry import Api
from towpath.kafka.codec import reader
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from towpath.kafka.codec.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from towpath.kafka.codec.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from towpath.kafka.codec.messages.end_txn import EndTxnResponse
from towpath.kafka.codec.messages.list_transactions import ListTransactionsResponse
from towpath.kafka.codec.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from towpath.kafka.codec.schema import ApiMessage, within

DEFERRED: dict[int, type[ApiMessage]] = {
    AddPartitionsToTxnResponse.API_KEY: AddPartitionsToTxnResponse,
    AddOffsetsToTxnResponse.API_KEY: AddOffsetsToTxnResponse,
    EndTxnResponse.API_KEY: EndTxnResponse,
    ListTransactionsResponse.API_KEY: ListTransactionsResponse,
}
"""Transactional APIs with an error code at the top of their answers."""
NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not served, and the answer if there is one; without it, close."""

    reason: str
    response: ApiMessage | None = None
    response_version: int = 0


def refuse(apis: Mapping[int, Api], key: int, version: int, body: memoryview) -> Refusal:
    """The refusal of a request; `body` begins behind the client id.

    MalformedMessage or one of READ_ERRORS if a body that must be read is not readable.
    """
    if key == ApiVersionsRequest.API_KEY and key in apis:
        return Refusal("unsupported version", _api_versions(apis[key]), 0)
    if key == ProduceRequest.API_KEY and _has_removed_layout(version):
        response = _refused_produce(version, body)
        return Refusal("produce requests before version 3 are not supported", response, version)
    if key in DEFERRED:
        return _deferred(DEFERRED[key], version)
    if key in apis:
        return Refusal("unsupported version")
    return Refusal("unknown or unsupported API")


def _has_removed_layout(version: int) -> bool:
    since = ProduceRequest.REFUSED_SINCE
    return since is not None and since <= version < ProduceRequest.VERSIONS[0]


def _api_versions(api: Api) -> ApiVersionsResponse:
    versions = ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[versions])


def _deferred(response_type: type[ApiMessage], version: int) -> Refusal:
    reason = "transactions are not supported"
    has_code = any(f.name == "error_code" and f.in_version(version) for f in response_type.FIELDS)
    if not has_code or not within(version, response_type.VERSIONS):
        return Refusal(reason)
    response = response_type()
    setattr(response, "error_code", ErrorCode.UNSUPPORTED_VERSION)  # noqa: B010 - see has_code.
    return Refusal(reason, response, version)


def _refused_produce(version: int, body: memoryview) -> ProduceResponse | None:
    request: ProduceRequest
    request, _ = reader(ProduceRequest, version)(body, 0)
    if request.acks == 0:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(
                        index=partition.index,
                        error_code=ErrorCode.UNSUPPORTED_VERSION,
                        base_offset=NO_OFFSET,
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
