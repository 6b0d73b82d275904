"""What pyiceberg's failures mean to the pipeline.

The question is always whether the table may have been changed. Where that is not certain the
answer is CommitUnknown, which is always safe: the caller loads the table and looks.
"""

from __future__ import annotations

import sqlite3

import requests
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
    UnauthorizedError,
)
from sqlalchemy.exc import DBAPIError
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from towpath.lakehouse.tables import (
    CatalogUnavailable,
    CommitConflict,
    CommitUnknown,
    TableError,
    TableMissing,
)

ERROR_TEXT_LIMIT = 500
"""Characters of somebody else's message that we pass on."""

NOT_FOUND = 404
TIMED_OUT = 408
NOT_IMPLEMENTED = 501

SQLITE_UNTOUCHED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY)
"""SQLite failures after which the transaction is rolled back for sure."""


def of_read(error: Exception) -> TableError:
    """What a failed read means; a missing table is for the caller to tell."""
    if isinstance(error, TableError):
        return error
    if isinstance(error, NoSuchTableError | NoSuchNamespaceError):
        return TableMissing(_text(error))
    return CatalogUnavailable(_explained(error))


def of_commit(error: Exception) -> TableError:
    """What a failed commit request means."""
    if isinstance(error, TableError):
        return error
    if isinstance(error, CommitFailedException):
        return CommitConflict(_text(error))
    if isinstance(error, NoSuchTableError | NoSuchNamespaceError) or _status(error) == NOT_FOUND:
        return TableMissing(_text(error))
    if _refused(error) or _never_sent(error) or _sqlite_untouched(error):
        return CatalogUnavailable(_explained(error))
    return CommitUnknown(_explained(error))


def _status(error: Exception) -> int | None:
    """The HTTP status that pyiceberg made the error of: it has no class for each."""
    response = getattr(error.__cause__, "response", None)
    return None if response is None else int(response.status_code)


def _refused(error: Exception) -> bool:
    """Whether the answer says that the request was not carried out. 503 does not: proxies give it
    also when they lose a server that is at work."""
    status = _status(error)
    if status is None:
        return isinstance(error, OAuthError | NotImplementedError)
    return (400 <= status < 500 and status != TIMED_OUT) or status == NOT_IMPLEMENTED


def _never_sent(error: Exception) -> bool:
    """Whether no connection was made, so that the catalog knows nothing of the request."""
    if not isinstance(error, requests.ConnectionError) or not error.args:
        return False
    reason = getattr(error.args[0], "reason", error.args[0])
    # A TLS handshake that fails comes before any request.
    return isinstance(reason, NewConnectionError | ConnectTimeoutError) or isinstance(
        error, requests.exceptions.SSLError
    )


def _sqlite_untouched(error: Exception) -> bool:
    if not isinstance(error, DBAPIError):
        return False
    code = getattr(error.orig, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in SQLITE_UNTOUCHED


def _explained(error: Exception) -> str:
    if isinstance(error, UnauthorizedError | AuthorizationExpiredError | OAuthError):
        return f"the catalog does not accept our credentials: {_text(error)}"
    if isinstance(error, ForbiddenError):
        return f"the catalog does not allow this to us: {_text(error)}"
    if isinstance(error, requests.exceptions.SSLError):
        return f"no secure connection to the catalog: {_text(error)}"
    if isinstance(error, requests.RequestException):
        return f"the catalog does not answer: {_text(error)}"
    return f"{type(error).__name__}: {_text(error)}"


def _text(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return lines[0][:ERROR_TEXT_LIMIT]
