"""The topics that a consumer names in the metadata it joins with."""

from __future__ import annotations

import struct

CONSUMER = "consumer"
"""The protocol type of consumers; others (Kafka Connect, for one) have metadata of their own."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics of a consumer's subscription, of any version; None if it cannot be read.

    All versions begin alike: a version, then the topics.
    """
    try:
        at = _INT16.size
        (count,) = _INT32.unpack_from(metadata, at)
        at += _INT32.size
        topics: list[str] = []
        for _ in range(count):
            (size_bytes,) = _INT16.unpack_from(metadata, at)
            at += _INT16.size
            if size_bytes < 0 or at + size_bytes > len(metadata):
                return None
            topics.append(metadata[at : at + size_bytes].decode())
            at += size_bytes
    except (struct.error, UnicodeDecodeError):
        return None
    return topics if count >= 0 else None
