"""Kafka's compression codecs, decoded completely and within a limit, or refused.

The ids are those of a batch's attributes. The forms on the wire are: gzip, one or more members;
snappy, either xerial's framing (Java clients) or one raw block (librdkafka); lz4, one frame of
independent blocks; zstd, one or more frames.

Stricter than Apache Kafka, which stops reading once it has its records: bytes behind the last
member, frame or block are refused, because other readers would stumble over them. As in Kafka, an
lz4 frame of linked blocks is refused, because Java consumers cannot read it.

Functions here are thread-safe and release the GIL while a library works. Nothing is allocated for
output beyond `max_bytes`, whatever the input claims.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import cramjam
import lz4.frame

from towpath.errors import BatchTooLarge, CorruptBatch, UnsupportedCompression
from towpath.objects.store import Buffer
from towpath.records import zstd

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""The codecs' names in Kafka's settings, by id."""

STORED_BYTES_MAX: Final = 1 << 30
"""What a batch that was accepted before may decompress to when it is read again."""
GZIP_MEMBERS_MAX: Final = 64
"""Each further member costs a copy of the rest, so their number is limited."""
GZIP_RATIO_MAX: Final = 1032
LZ4_RATIO_MAX: Final = 255
SNAPPY_RATIO_MAX: Final = 22
"""What one byte of input can expand to at most; a property of each format."""

_STEP_BYTES: Final = 1 << 20
"""Output is taken in steps of at least this, so that a small input allocates little."""
_GZIP_WINDOW_BITS: Final = 31
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_HEADER_MIN_BYTES: Final = 7
_LZ4_INDEPENDENT_BLOCKS: Final = 0x20
_LZ4_DICTIONARY: Final = 0x01
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = struct.Struct(">8sii")
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_INT32: Final = struct.Struct(">i")


def decompress(codec: int, data: Buffer, max_bytes: int) -> Buffer:
    """What `data` decompresses to; `data` itself if it is not compressed.

    CorruptBatch unless all of it decodes, BatchTooLarge if more than `max_bytes` would come out,
    UnsupportedCompression for an unknown codec or an lz4 frame that Java clients could not read.
    """
    if codec == NONE:
        return data
    if codec == LZ4:
        return _decompress_lz4(data, max_bytes)
    if codec == ZSTD:
        return zstd.decompress(data, max_bytes)
    if codec == SNAPPY:
        return _decompress_snappy(memoryview(data), max_bytes)
    if codec == GZIP:
        return _decompress_gzip(data, max_bytes)
    raise UnsupportedCompression(f"compression type {codec} is unknown")


def expansion_bound(codec: int, data: Buffer) -> int:
    """How many bytes `data` can decompress to at most, told without decompressing.

    Zero for data that cannot be decompressed at all.
    """
    if codec == ZSTD:
        return zstd.expansion_bound(data)
    if codec == SNAPPY:
        return len(data) * SNAPPY_RATIO_MAX
    if codec == LZ4:
        return len(data) * LZ4_RATIO_MAX
    if codec == GZIP:
        return len(data) * GZIP_RATIO_MAX
    return len(data)


def compress(codec: int, data: Buffer) -> bytes:
    """Compress as Java clients do (snappy in xerial's framing)."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return zlib.compress(data, wbits=_GZIP_WINDOW_BITS)
    if codec == SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec == LZ4:
        return bytes(lz4.frame.compress(data, block_linked=False, store_size=False))
    if codec == ZSTD:
        return zstd.compress(data)
    raise UnsupportedCompression(f"compression type {codec} is unknown")


def _too_large(max_bytes: int) -> BatchTooLarge:
    return BatchTooLarge(f"the batch decompresses to more than {max_bytes} bytes")


# gzip


def _decompress_gzip(data: Buffer, max_bytes: int) -> Buffer:
    pieces: list[bytes] = []
    room = max_bytes
    rest: Buffer = data
    for _ in range(GZIP_MEMBERS_MAX):
        rest, room = _decompress_gzip_member(rest, room, max_bytes, pieces)
        if not rest:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    raise CorruptBatch(f"the gzip data has more than {GZIP_MEMBERS_MAX} members")


def _decompress_gzip_member(
    data: Buffer, room: int, max_bytes: int, pieces: list[bytes]
) -> tuple[bytes, int]:
    """Append one member's output; what follows the member, and the room that is left."""
    member = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
    step = max(_STEP_BYTES, 4 * len(data))
    try:
        while not member.eof:
            piece = member.decompress(data, min(step, room + 1))
            data = member.unconsumed_tail
            room -= len(piece)
            if room < 0:
                raise _too_large(max_bytes)
            pieces.append(piece)
            if not data and not piece and not member.eof:
                raise CorruptBatch("the gzip data is cut off")
    except zlib.error as error:
        raise CorruptBatch(f"the gzip data does not decode: {error}") from error
    return member.unused_data, room


# snappy


def _decompress_snappy(data: memoryview, max_bytes: int) -> Buffer:
    if bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
        return _decompress_xerial(data, max_bytes)
    return _decompress_snappy_block(data, max_bytes, max_bytes)


def _decompress_snappy_block(data: memoryview, room: int, max_bytes: int) -> Buffer:
    """One raw block. Its declared length is judged before anything is allocated."""
    try:
        declared = cramjam.snappy.decompress_raw_len(data)
        if declared > len(data) * SNAPPY_RATIO_MAX:
            raise CorruptBatch(f"a snappy block claims {declared} bytes in {len(data)}")
        if declared > room:
            raise _too_large(max_bytes)
        return memoryview(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"the snappy data does not decode: {error}") from error


def _decompress_xerial(data: memoryview, max_bytes: int) -> Buffer:
    """Blocks with an i32 length each; the header may stand again where a length would."""
    pieces: list[Buffer] = []
    room = max_bytes
    at = 0
    while at < len(data):
        if bytes(data[at : at + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            at = _skip_xerial_header(data, at)
            continue
        if len(data) - at < _INT32.size:
            raise CorruptBatch("the snappy data is cut off inside a block's length")
        (length,) = _INT32.unpack_from(data, at)
        at += _INT32.size
        if not 0 < length <= len(data) - at:
            raise CorruptBatch(f"a snappy block of {length} bytes has {len(data) - at} left")
        piece = _decompress_snappy_block(data[at : at + length], room, max_bytes)
        room -= len(piece)
        pieces.append(piece)
        at += length
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _skip_xerial_header(data: memoryview, at: int) -> int:
    if len(data) - at < _XERIAL_HEADER.size:
        raise CorruptBatch("the snappy data is cut off inside its header")
    _, version, _ = _XERIAL_HEADER.unpack_from(data, at)
    if version < 1:
        raise CorruptBatch(f"the snappy framing has version {version}")
    return at + _XERIAL_HEADER.size


def _compress_xerial(data: memoryview) -> bytes:
    parts: list[Buffer] = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)]
    for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


# lz4


def _decompress_lz4(data: Buffer, max_bytes: int) -> Buffer:
    if len(data) < _LZ4_HEADER_MIN_BYTES or data[:4] != _LZ4_MAGIC:
        raise CorruptBatch("the lz4 data does not start with a frame")
    flags = data[4]
    if not flags & _LZ4_INDEPENDENT_BLOCKS or flags & _LZ4_DICTIONARY:
        raise UnsupportedCompression("an lz4 frame must have independent blocks, no dictionary")
    frame = lz4.frame.LZ4FrameDecompressor()
    step = max(_STEP_BYTES, 4 * len(data)) if len(data) > 16 * 1024 else 64 * 1024
    try:
        piece: bytes = frame.decompress(data, max_length=min(step, max_bytes + 1))
        if frame.eof and len(piece) <= max_bytes:
            output = piece
        else:
            output = _finish_lz4(frame, piece, step, max_bytes)
    except RuntimeError as error:
        raise CorruptBatch(f"the lz4 data does not decode: {error}") from error
    if frame.unused_data:
        raise CorruptBatch("there are bytes behind the lz4 frame")
    return output


def _finish_lz4(
    frame: lz4.frame.LZ4FrameDecompressor, piece: bytes, step: int, max_bytes: int
) -> bytes:
    """The whole output of a frame whose first piece did not end it."""
    pieces = [piece]
    room = max_bytes - len(piece)
    while room >= 0 and not frame.eof:
        if frame.needs_input:
            raise CorruptBatch("the lz4 data is cut off")
        piece = frame.decompress(b"", max_length=min(step, room + 1))
        room -= len(piece)
        pieces.append(piece)
    if room < 0:
        raise _too_large(max_bytes)
    return b"".join(pieces)
