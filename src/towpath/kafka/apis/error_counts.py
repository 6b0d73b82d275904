"""Counts the error codes that an API answers."""

from __future__ import annotations

from collections.abc import Iterable

from towpath.kafka.apis.registry import RequestContext
from towpath.kafka.errors import ErrorCode


def count_errors(context: RequestContext, api_name: str, codes: Iterable[int]) -> None:
    """Count every code but NONE under the API's name."""
    for code in codes:
        if code:
            errors = context.services.metrics.request_errors
            errors.labels(api_name, ErrorCode(code).name).inc()
