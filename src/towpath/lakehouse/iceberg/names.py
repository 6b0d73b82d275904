"""What a topic's table is called: dots and capitals of topics are refused by some catalogs."""

from __future__ import annotations

import hashlib
import re

UNSAFE = re.compile(r"[^a-z0-9_]")
SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")
DIGEST_CHARACTERS = 8
SAFE_NAME_MAX = 200


def table_name(topic: str, *, safe: bool) -> str:
    """The topic's own name, or one of lower-case letters, digits and `_` only.

    A name that had to be changed ends with a digest of the topic's, so that topics whose names
    differ in capitals or dots only have different tables.
    """
    if not safe or (SAFE_NAME.fullmatch(topic) and len(topic) <= SAFE_NAME_MAX):
        return topic
    digest = hashlib.sha256(topic.encode()).hexdigest()[:DIGEST_CHARACTERS]
    readable = UNSAFE.sub("_", topic.lower()).lstrip("_")[:SAFE_NAME_MAX]
    return f"{readable or 'topic'}_{digest}"


def aside_name(name: str, number: int) -> str:
    """What the table of a topic that was created again is called from then on."""
    return f"{name}__{number}"


def is_aside_name(name: str, found: str) -> bool:
    """Whether `aside_name` made the name from this one."""
    base, _, number = found.rpartition("__")
    return base == name and number.isdecimal()
