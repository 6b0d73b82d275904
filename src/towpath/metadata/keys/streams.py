"""Keys of one stream: its offset index, log start and producer snapshot.

The index entry's key carries the absolute numbers (`offset_end`, `cumulative_size`); its value
holds relative ones only, because it is written before the store assigns the offset.
"""

from __future__ import annotations

from towpath.metadata.keys import ROOT
from towpath.metadata.keys.numbers import WIDTH, pad, unpad

STREAMS_PREFIX = f"{ROOT}/streams/"
_ENTRY = "/offset-index/e-"


def stream_prefix(stream_id: int) -> str:
    """The prefix of every key of the stream."""
    return f"{STREAMS_PREFIX}{pad(stream_id)}/"


def index_prefix(stream_id: int) -> str:
    """The prefix of the stream's index entries."""
    return f"{STREAMS_PREFIX}{pad(stream_id)}{_ENTRY}"


def index_end(stream_id: int) -> str:
    """The end (exclusive) of the stream's index entries: `.` follows `-` in ASCII."""
    return f"{STREAMS_PREFIX}{pad(stream_id)}/offset-index/e."


def index_entry(stream_id: int, offset_end: int, cumulative_size: int) -> str:
    """The key of the entry that ends (exclusively) at `offset_end`."""
    return f"{STREAMS_PREFIX}{pad(stream_id)}{_ENTRY}{pad(offset_end)}-{pad(cumulative_size)}"


def first_entry_above(stream_id: int, offset: int) -> str:
    """A key such that the first entry above it is the first with `offset_end > offset`.

    `~` sorts after every digit and `-`, so it stands above all entries that end at `offset`.
    """
    return f"{STREAMS_PREFIX}{pad(stream_id)}{_ENTRY}{pad(offset)}~"


def parse_index_entry(key: str) -> tuple[int, int, int]:
    """`(stream_id, offset_end, cumulative_size)` of an index entry's key."""
    stream_start = len(STREAMS_PREFIX)
    stream_end = stream_start + WIDTH
    entry_start = stream_end + len(_ENTRY)
    entry_end = entry_start + WIDTH
    if (
        not key.startswith(STREAMS_PREFIX)
        or key[stream_end:entry_start] != _ENTRY
        or key[entry_end : entry_end + 1] != "-"
    ):
        raise ValueError(f"{key!r} is not an index entry key")
    return (
        unpad(key[stream_start:stream_end]),
        unpad(key[entry_start:entry_end]),
        unpad(key[entry_end + 1 :]),
    )


def is_index_entry(key: str) -> bool:
    """Whether the key is an index entry of some stream."""
    stream_end = len(STREAMS_PREFIX) + WIDTH
    return key.startswith(_ENTRY, stream_end) and key.startswith(STREAMS_PREFIX)


def parse_stream_id(key: str) -> int:
    """The stream of any key under `STREAMS_PREFIX`."""
    return unpad(key[len(STREAMS_PREFIX) : len(STREAMS_PREFIX) + WIDTH])


def log_start(stream_id: int) -> str:
    """The key of the stream's first readable offset; absent means 0."""
    return f"{STREAMS_PREFIX}{pad(stream_id)}/log-start"


def encode_log_start(offset: int) -> bytes:
    """The log start as decimal digits after a version tag."""
    if offset < 0:
        raise ValueError(f"a log start is not negative: {offset}")
    return b"1:%d" % offset


def decode_log_start(value: bytes) -> int:
    """The inverse of `encode_log_start`."""
    version, _, digits = value.partition(b":")
    if version != b"1" or not digits.isdigit():
        raise ValueError(f"damaged log-start value {value!r}")
    return int(digits)


def producer_snapshot(stream_id: int) -> str:
    """The key of the saved producer state (`ProducerSnapshot` protobuf)."""
    return f"{STREAMS_PREFIX}{pad(stream_id)}/producers"
