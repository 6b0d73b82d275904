"""DeleteTopics (key 20), v1-6: by name, and from v6 by id.

- Neither or both of name and id, and anything given twice, is INVALID_REQUEST.
- An unknown name is UNKNOWN_TOPIC_OR_PARTITION, an unknown id UNKNOWN_TOPIC_ID.
- When the answer is sent, the topic is gone for every client; its data is swept later.

Left out: `timeout_ms` is ignored; deletion cannot be switched off (`delete.topic.enable`).
"""

from __future__ import annotations

from uuid import UUID

from towpath.errors import TopicIdNotFound, TopicNotFound
from towpath.kafka.apis.admin_support import (
    EXPECTED_FAILURES,
    Refused,
    duplicates,
    failure_of,
    run_bounded,
)
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from towpath.kafka.codec.schema import ZERO_UUID
from towpath.kafka.errors import ErrorCode
from towpath.metadata.store import MetadataError
from towpath.topics.interface import Topic, Topics


@api(key=20, versions=(1, 6), request=DeleteTopicsRequest, response=DeleteTopicsResponse)
async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """Delete each topic, or say why not."""
    asked = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    topics = context.services.topics
    try:
        await topics.refresh()
    except MetadataError as error:
        return DeleteTopicsResponse(responses=[_failed(state, error) for state in asked])
    refusals = _refusals(asked, topics)

    async def delete(state: DeleteTopicState) -> DeletableTopicResult:
        try:
            _raise_refusal(state, refusals)
            topic = _find(state, topics)
            await _delete(topic, topics, by_id=state.name is None)
        except EXPECTED_FAILURES as error:
            return _failed(state, error)
        return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)

    return DeleteTopicsResponse(responses=await run_bounded(delete, _once(asked)))


_Key = tuple[str | None, UUID]


def _key(state: DeleteTopicState) -> _Key:
    return state.name, state.topic_id


def _once(asked: list[DeleteTopicState]) -> list[DeleteTopicState]:
    return list({_key(state): state for state in asked}.values())


def _refusals(asked: list[DeleteTopicState], topics: Topics) -> dict[_Key, str]:
    """Why an entry is refused before anything is deleted."""
    refused: dict[_Key, str] = {}
    ids = {state.topic_id for state in asked if state.name is None}
    for state in asked:
        named = topics.get(state.name) if state.name is not None else None
        if state.name is None and state.topic_id == ZERO_UUID:
            refused[_key(state)] = "Neither topic name nor id were specified."
        elif state.name is not None and state.topic_id != ZERO_UUID:
            refused[_key(state)] = "You may not specify both topic name and topic id."
        elif named is not None and named.topic_id in ids:
            reason = "The provided topic name maps to an ID that was already supplied."
            refused[_key(state)] = refused[None, named.topic_id] = reason
    for name, topic_id in duplicates(map(_key, asked)):
        what = "id" if name is None else "name"
        refused.setdefault((name, topic_id), f"Duplicate topic {what}.")
    return refused


def _raise_refusal(state: DeleteTopicState, refusals: dict[_Key, str]) -> None:
    reason = refusals.get(_key(state))
    if reason is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, reason)


def _find(state: DeleteTopicState, topics: Topics) -> Topic:
    topic = topics.get_by_id(state.topic_id) if state.name is None else topics.get(state.name)
    if topic is not None:
        return topic
    if state.name is None:
        raise TopicIdNotFound("This server does not host this topic ID.")
    raise TopicNotFound("This server does not host this topic-partition.")


async def _delete(topic: Topic, topics: Topics, *, by_id: bool) -> None:
    try:
        await topics.delete(topic)
    except TopicNotFound as error:
        if by_id:
            raise TopicIdNotFound("This server does not host this topic ID.") from error
        raise


def _failed(state: DeleteTopicState, error: Exception) -> DeletableTopicResult:
    code, message = failure_of(error)
    return DeletableTopicResult(
        name=state.name, topic_id=state.topic_id, error_code=code, error_message=message
    )
