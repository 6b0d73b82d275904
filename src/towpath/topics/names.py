"""Kafka's rules for topic names.

Kafka builds metric names in which `.` becomes `_`, so two names that differ only there collide, and
the second one is refused.
"""

from __future__ import annotations

import re

from towpath.errors import InvalidTopicName

MAX_LENGTH = 249
CLUSTER_METADATA = "__cluster_metadata"
"""Kafka's own metadata log; a client may never create a topic of this name."""

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Names that Kafka marks as internal in its answers."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def reason_invalid(name: str) -> str | None:
    """Why Kafka refuses the name, in its own words, or None if it is fine."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    if _LEGAL.match(name) is None:
        return (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def is_valid(name: str) -> bool:
    """Whether a topic may have this name, apart from the reserved one."""
    return reason_invalid(name) is None


def validate(name: str) -> None:
    """Raise InvalidTopicName with Kafka's message unless the name is well formed."""
    reason = reason_invalid(name)
    if reason is not None:
        raise InvalidTopicName(f"Topic name is invalid: {reason}")


def validate_new(name: str) -> None:
    """As `validate`, and refuse the one name that nobody may create."""
    validate(name)
    if name == CLUSTER_METADATA:
        raise InvalidTopicName(f"Creation of internal topic {CLUSTER_METADATA} is prohibited.")


def is_internal(name: str) -> bool:
    """Whether Kafka's answers mark the topic as internal."""
    return name in INTERNAL


def collision_key(name: str) -> str:
    """Equal for two names if and only if they collide."""
    return name.replace(".", "_")
