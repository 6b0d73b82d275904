"""pyiceberg's REST catalog with time-outs: it has none, and would wait for a dead server for ever.

It never repeats a commit, but for one that was answered with 401 or 419, after asking for a new
token: such a request was not carried out.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

CONNECT_TIMEOUT = "towpath.connect-timeout-s"
READ_TIMEOUT = "towpath.read-timeout-s"
CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0


class _TimedAdapter(HTTPAdapter):
    """Gives every request a time-out that has none."""

    def __init__(self, connect_s: float, read_s: float) -> None:
        super().__init__()
        self._timeout = (connect_s, read_s)

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        kwargs["timeout"] = kwargs.get("timeout") or self._timeout
        return super().send(request, *args, **kwargs)


class TimedRestCatalog(RestCatalog):
    """A REST catalog whose requests end. The properties above change the time-outs."""

    def _config_headers(self, session: Session) -> None:
        # The first thing pyiceberg does to a new session, before it asks for a token with it.
        adapter = _TimedAdapter(
            float(self.properties.get(CONNECT_TIMEOUT, CONNECT_TIMEOUT_S)),
            float(self.properties.get(READ_TIMEOUT, READ_TIMEOUT_S)),
        )
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        super()._config_headers(session)
