"""ApiVersions (key 18), versions 0-4: what this broker serves, derived from the registrations.

The name and version of a client's software must look like Kafka's pattern, from version 3 on, or
the answer is INVALID_REQUEST with nothing else. No features are advertised: there are no
transactions and no metadata versions, and the epoch of finalized features is -1, "unknown".
Unknown versions never come here: see `rejected.py`.
"""

from __future__ import annotations

import re
from functools import cache

from towpath.kafka.apis.registry import APIS, RequestContext, api
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)

SOFTWARE_SINCE_VERSION = 3
SOFTWARE_PATTERN = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@api(
    key=ApiVersionsRequest.API_KEY,
    versions=ApiVersionsRequest.VERSIONS,
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
)
async def handle_api_versions(
    request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse:
    """List every registered API with its versions, by key."""
    if context.api_version >= SOFTWARE_SINCE_VERSION and not _is_valid(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=_matrix(len(APIS)))


def _is_valid(request: ApiVersionsRequest) -> bool:
    software = (request.client_software_name, request.client_software_version)
    return all(SOFTWARE_PATTERN.fullmatch(text) is not None for text in software)


@cache
def _matrix(registered: int) -> list[ApiVersion]:
    """The list for the answer; `registered` makes it new when an API is added."""
    return [
        ApiVersion(
            api_key=each.key,
            min_version=each.advertised_min_version,
            max_version=each.max_version,
        )
        for _, each in sorted(APIS.items())
    ]
