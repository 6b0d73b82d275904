"""The matrix that ApiVersions answers."""

from __future__ import annotations

from tests.unit.kafka.helpers_connection import Harness, body_of, frame

from towpath.kafka.apis.all import APIS
from towpath.kafka.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from towpath.kafka.codec.schema import within

DEFERRED = {24, 25, 26, 27, 28, 65, 66}
INTERNAL = {4, 5, 6, 7, *range(52, 60), 62, 63, 67, 70, 73, *range(80, 83)}
CORE = {0, 1, 2, 3, 18, 19, 20, 32, 33, 37, 44, 60}


async def test_the_answer_lists_exactly_the_registry() -> None:
    harness = Harness()
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    harness.feed(frame(request, 4, 1))
    response = body_of(harness, 0, ApiVersionsResponse, 4)
    listed = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}
    assert listed == {k: (a.advertised_min_version, a.max_version) for k, a in APIS.items()}
    assert [k.api_key for k in response.api_keys] == sorted(APIS)
    assert response.supported_features == []
    assert response.finalized_features_epoch == -1


def test_deferred_internal_and_share_group_apis_are_not_registered() -> None:
    assert not APIS.keys() & (DEFERRED | INTERNAL)
    assert max(APIS) < 76
    assert APIS.keys() >= CORE


def test_produce_is_advertised_from_version_0_but_served_from_3() -> None:
    assert APIS[0].advertised_min_version == 0
    assert APIS[0].min_version == 3
    others = [api for key, api in APIS.items() if key != 0]
    assert all(api.advertised_min_version == api.min_version for api in others)


def test_every_served_version_has_a_schema() -> None:
    for api in APIS.values():
        for version in (api.min_version, api.max_version):
            assert within(version, api.request_type.VERSIONS)
            assert within(version, api.response_type.VERSIONS)
        assert api.request_type.API_KEY == api.response_type.API_KEY == api.key
