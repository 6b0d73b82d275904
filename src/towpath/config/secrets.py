"""What of other software's settings is secret, and how values are shown without it."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "***"
_SECRET_NAME = re.compile(
    r"secret|key|password|token|credential|authorization|sas|connection.?string", re.IGNORECASE
)
_LOGIN = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*(?=@)")
_QUERY = re.compile(r"(?<=://)([^?\s]*)\?\S*")


def is_secret(name: str) -> bool:
    """Whether the value of a property of this name must not be shown."""
    return _SECRET_NAME.search(name) is not None


def shown_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties for people's eyes: secrets are hidden, also those in URLs."""
    return {
        name: HIDDEN if is_secret(name) else _LOGIN.sub(HIDDEN, value)
        for name, value in properties.items()
    }


def shown_value(value: object) -> str:
    """A value as somebody wrote it, without the logins and queries of URLs."""
    return _QUERY.sub(rf"\1?{HIDDEN}", _LOGIN.sub(HIDDEN, str(value)))
