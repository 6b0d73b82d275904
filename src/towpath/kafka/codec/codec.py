"""Reading and writing whole messages. Readers and writers are compiled on first use and kept."""

from __future__ import annotations

import struct
from typing import TypeVar

from towpath.kafka.codec.compile_reader import Read, compile_reader
from towpath.kafka.codec.compile_writer import Write, compile_writer
from towpath.kafka.codec.primitives import MalformedMessage
from towpath.kafka.codec.schema import ApiMessage
from towpath.objects.store import Buffer

M = TypeVar("M", bound=ApiMessage)

READ_ERRORS = (struct.error, IndexError, UnicodeDecodeError)
"""What a compiled reader raises by itself when the bytes end early or are not text."""


_readers: dict[tuple[type[ApiMessage], int], Read] = {}
_writers: dict[tuple[type[ApiMessage], int], Write] = {}


def reader(message: type[ApiMessage], version: int) -> Read:
    """The reader of `message` in `version`.

    It raises MalformedMessage or one of READ_ERRORS, and nothing else, whatever the bytes are.
    """
    known = _readers.get((message, version))
    if known is None:
        _check_version(message, version)
        known = _readers[message, version] = compile_reader(message, version)
    return known


def writer(message: type[ApiMessage], version: int) -> Write:
    """The writer of `message` in `version`."""
    known = _writers.get((message, version))
    if known is None:
        _check_version(message, version)
        known = _writers[message, version] = compile_writer(message, version)
    return known


def _check_version(message: type[ApiMessage], version: int) -> None:
    first, last = message.VERSIONS
    if message.REFUSED_SINCE is not None:
        first = message.REFUSED_SINCE
    if not first <= version <= last:
        raise ValueError(f"{message.__name__} has no version {version}")


def decode(message: type[M], version: int, data: Buffer) -> M:
    """The message at the start of `data`; MalformedMessage if there is none.

    Bytes behind the message are ignored, as Kafka does. Byte strings of COPY_BELOW_BYTES and more
    are views of `data` and keep it alive; smaller ones are copies.
    """
    try:
        decoded, _ = reader(message, version)(memoryview(data), 0)
    except READ_ERRORS as error:
        raise MalformedMessage(str(error)) from error
    assert isinstance(decoded, message)
    return decoded


def encode(message: ApiMessage, version: int) -> bytes:
    """The message in one piece."""
    return b"".join(encode_chunks(message, version))


def encode_chunks(message: ApiMessage, version: int) -> list[Buffer]:
    """The message in pieces; large byte strings are the caller's own buffers, not copies."""
    chunks: list[Buffer] = []
    chunks.append(writer(type(message), version)(message, bytearray(), chunks))
    return chunks
