"""zstd frames: found by their structure first, so that limits hold before anything is decoded.

Walking the block headers tells where each frame ends (so that nothing may be missing or left over)
and how much it can decode to at most (so that an output buffer is never larger than it need be).
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import zstandard

from towpath.errors import BatchTooLarge, CorruptBatch
from towpath.objects.store import Buffer

FRAMES_MAX: Final = 64
"""Producers write one frame. Several are allowed, as in Kafka, but not without limit."""
WINDOW_BYTES_MAX: Final = 1 << 27
"""What Kafka's own decoder accepts; needed for level 22."""
KEPT_WINDOW_BYTES_MAX: Final = 1 << 23
"""A decoder that once needed a larger window than this is not kept for the next batch."""

_FRAME_MAGIC: Final = 0xFD2FB528
_SKIPPABLE_MAGIC: Final = 0x184D2A50
_SKIPPABLE_MASK: Final = 0xFFFFFFF0
_FRAME_HEADER_BYTES_MAX: Final = 18
_CHECKSUM_FLAG: Final = 0x04
_CHECKSUM_BYTES: Final = 4
_BLOCK_HEADER_BYTES: Final = 3
_BLOCK_BYTES_MAX: Final = 128 * 1024
_RAW, _RUN, _COMPRESSED = range(3)
_U32_PAIR: Final = struct.Struct("<II")
_U32: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame's bytes are `[start, end)`; it decodes to at most `bound` bytes."""

    start: int
    end: int
    bound: int


class _Kept(threading.local):
    """One decoder per thread: they are dear to make and not thread-safe."""

    def __init__(self) -> None:
        self.decoder = _new_decoder()


def _new_decoder() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)


_kept = _Kept()


def decompress(data: Buffer, max_bytes: int) -> Buffer:
    """All frames' output; CorruptBatch or BatchTooLarge otherwise."""
    view = memoryview(data)
    pieces: list[bytes] = []
    room = max_bytes
    for frame in _frames(view):
        piece = _decompress_frame(view[frame.start : frame.end], frame.bound, room, max_bytes)
        room -= len(piece)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def expansion_bound(data: Buffer) -> int:
    """How many bytes the frames can decode to at most; 0 if they are malformed."""
    try:
        return sum(frame.bound for frame in _frames(memoryview(data)))
    except CorruptBatch:
        return 0


def compress(data: Buffer) -> bytes:
    """One frame of the default level."""
    return zstandard.ZstdCompressor().compress(data)


def _decompress_frame(data: memoryview, bound: int, room: int, max_bytes: int) -> bytes:
    try:
        declared = zstandard.frame_content_size(data)
    except zstandard.ZstdError as error:
        raise CorruptBatch(f"the zstd frame's header does not decode: {error}") from error
    if declared > bound:
        raise CorruptBatch(f"a zstd frame claims {declared} bytes, its blocks give {bound} at most")
    if declared > room or (room == 0 < bound):
        raise _too_large(max_bytes)
    if bound == 0:
        return b""
    if declared == 0:
        raise CorruptBatch("a zstd frame claims to be empty and has blocks")
    try:
        return _decoder_for(data).decompress(data, max_output_size=min(bound, room))
    except zstandard.ZstdError as error:
        # The frame is complete, so output that does not fit is the one cause of this message.
        if bound > room and "full frame" in str(error):
            raise _too_large(max_bytes) from error
        raise CorruptBatch(f"the zstd data does not decode: {error}") from error


def _decoder_for(data: memoryview) -> zstandard.ZstdDecompressor:
    if zstandard.get_frame_parameters(data).window_size <= KEPT_WINDOW_BYTES_MAX:
        return _kept.decoder
    return _new_decoder()


def _frames(data: memoryview) -> Iterator[_Frame]:
    """The frames with content, which together with skippable ones make up `data` exactly."""
    at = 0
    for _ in range(FRAMES_MAX):
        if len(data) - at < _U32_PAIR.size:
            raise CorruptBatch("the zstd data is cut off")
        magic, skippable_bytes = _U32_PAIR.unpack_from(data, at)
        if magic == _FRAME_MAGIC:
            frame = _frame_at(data, at)
            at = frame.end
            yield frame
        elif magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            at += _U32_PAIR.size + skippable_bytes
        else:
            raise CorruptBatch("the zstd data does not start with a frame")
        if at >= len(data):
            break
    if at != len(data):
        raise CorruptBatch(f"the zstd data is cut off or has more than {FRAMES_MAX} frames")


def _frame_at(data: memoryview, start: int) -> _Frame:
    try:
        at = start + zstandard.frame_header_size(data[start : start + _FRAME_HEADER_BYTES_MAX])
    except zstandard.ZstdError as error:
        raise CorruptBatch(f"the zstd frame's header does not decode: {error}") from error
    bound = 0
    last = False
    while not last:
        if len(data) - at < _BLOCK_HEADER_BYTES:
            raise CorruptBatch("the zstd data is cut off")
        block = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        if kind > _COMPRESSED or size > _BLOCK_BYTES_MAX:
            raise CorruptBatch(f"a zstd block has kind {kind} and {size} bytes")
        at += _BLOCK_HEADER_BYTES + (1 if kind == _RUN else size)
        bound += _BLOCK_BYTES_MAX if kind == _COMPRESSED else size
    if data[start + _U32.size] & _CHECKSUM_FLAG:
        at += _CHECKSUM_BYTES
    if at > len(data):
        raise CorruptBatch("the zstd data is cut off")
    return _Frame(start, at, bound)


def _too_large(max_bytes: int) -> BatchTooLarge:
    return BatchTooLarge(f"the batch decompresses to more than {max_bytes} bytes")
