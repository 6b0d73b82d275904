"""InitProducerId: ids for idempotent producers, refusal of transactions."""

from __future__ import annotations

import pytest
from tests.unit.kafka.apis_data.data_rig import Rig

from towpath.kafka.apis import init_producer_id as init_producer_id_api
from towpath.kafka.apis.registry import APIS
from towpath.kafka.codec.messages.init_producer_id import InitProducerIdRequest
from towpath.kafka.errors import ErrorCode
from towpath.metadata.store import OutcomeUnknown, StoreUnavailable

VERSIONS = list(range(6))


def test_registered() -> None:
    served = APIS[22]
    assert (served.min_version, served.max_version, served.name) == (0, 5, "InitProducerId")
    assert served.handle is init_producer_id_api.handle_init_producer_id


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_request_gets_a_new_id_with_epoch_0(version: int) -> None:
    rig = Rig()
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
    first = await rig.ask(asked, version)
    second = await rig.ask(asked, version)
    assert [(a.error_code, a.producer_id, a.producer_epoch) for a in (first, second)] == [
        (0, 1000, 0),
        (0, 1001, 0),
    ]


async def test_a_producer_that_has_an_id_gets_a_new_one() -> None:
    asked = InitProducerIdRequest(transactional_id=None, producer_id=7, producer_epoch=3)
    answer = await Rig().ask(asked, 4)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 1000, 0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("transactional_id", "code"),
    [("x", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), ("", ErrorCode.INVALID_REQUEST)],
)
async def test_transactions_are_refused(version: int, transactional_id: str, code: int) -> None:
    rig = Rig()
    answer = await rig.ask(InitProducerIdRequest(transactional_id=transactional_id), version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)
    assert rig.producer_ids.next == 1000
    assert rig.errors_counted("InitProducerId", ErrorCode(code).name) == 1


@pytest.mark.parametrize(("producer_id", "epoch"), [(7, -1), (-1, 3)])
async def test_half_a_producer_is_invalid(producer_id: int, epoch: int) -> None:
    asked = InitProducerIdRequest(
        transactional_id=None, producer_id=producer_id, producer_epoch=epoch
    )
    answer = await Rig().ask(asked, 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("failure", [StoreUnavailable("x"), OutcomeUnknown("x")])
async def test_a_store_that_fails_gives_a_retriable_error(failure: Exception) -> None:
    rig = Rig()
    rig.producer_ids.failure = failure
    answer = await rig.ask(InitProducerIdRequest(transactional_id=None), 5)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
