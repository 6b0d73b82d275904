"""From API key and version to reader, handler and writer, looked up once per request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from towpath.kafka.apis.registry import Api, RequestContext
from towpath.kafka.codec import reader, writer
from towpath.kafka.codec.schema import ApiMessage, within
from towpath.kafka.meter import Meter
from towpath.observe.metrics import Metrics

API_VERSIONS_KEY = 18


def response_header_is_flexible(response: type[ApiMessage], version: int) -> bool:
    """Whether tagged fields follow the correlation id.

    Never for ApiVersions: its reader does not know yet what the broker speaks.
    """
    return response.API_KEY != API_VERSIONS_KEY and version >= response.FLEXIBLE_SINCE


class Route:
    """One API in one version."""

    __slots__ = (
        "api", "handle", "meter", "read", "request_is_flexible", "response_is_flexible", "version",
        "write",
    )  # fmt: skip

    def __init__(self, api: Api, version: int, meter: Meter) -> None:
        self.api = api
        self.version = version
        self.handle: Callable[[Any, RequestContext], Awaitable[Any | None]] = api.handle
        self.read = reader(api.request_type, version)
        self.write = writer(api.response_type, version)
        self.request_is_flexible = version >= api.request_type.FLEXIBLE_SINCE
        self.response_is_flexible = response_header_is_flexible(api.response_type, version)
        self.meter = meter


class Routes:
    """The routes of a process; each is made when it is first asked for."""

    def __init__(self, apis: Mapping[int, Api], metrics: Metrics) -> None:
        self.apis = apis
        self._metrics = metrics
        self._known: dict[tuple[int, int], Route] = {}
        self._meters: dict[int, Meter] = {}

    def find(self, key: int, version: int) -> Route | None:
        """The route, or None if the registry does not serve this version."""
        route = self._known.get((key, version))
        if route is None:
            api = self.apis.get(key)
            if api is None or not within(version, (api.min_version, api.max_version)):
                return None
            route = self._known[key, version] = Route(api, version, self._meter(api))
        return route

    def flush_metrics(self) -> None:
        """Pass the sums of all APIs on to the metrics."""
        for meter in self._meters.values():
            meter.flush()

    def _meter(self, api: Api) -> Meter:
        if api.key not in self._meters:
            metrics, name = self._metrics, api.name
            self._meters[api.key] = Meter(
                metrics.requests.labels(name), metrics.request_seconds.labels(name)
            )
        return self._meters[api.key]
